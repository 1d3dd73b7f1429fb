// The values of a block's codes.
#pragma once

#include "mixprec/optimizer.h"
#include "moment_numbers.h"

namespace {

using mixprec::MomentKind;
using mixprec::StoredMoment;

#if defined(__AVX512F__)

// The numbers of codes of e4m3 under one power. The quotient of those 32 codes apart (64 under |x|^4 without a sign) is
// a power of two, so a list of that length and an addition to the exponent serve, but for subnormal codes.
template <bool Signed, int Power>
class RaisedLanes {
 public:
  explicit RaisedLanes(const float* numbers) : small_(_mm512_loadu_ps(numbers)) {
    for (int i = 0; i < kLists; ++i)
      lists_[i] = (LaneFloats)((LaneBits)_mm512_loadu_ps(numbers + kLength + 16 * i) - all_lanes(1u << kShift));
  }

  MIXPREC_MEMBER LaneFloats operator()(LaneBits codes) const {
    const auto code = (__m512i)codes;
    __m512 listed = _mm512_permutex2var_ps(lists_[0], code, lists_[1]);
    if constexpr (kLists == 4) {
      const __mmask16 upper = _mm512_test_epi32_mask(code, _mm512_set1_epi32(32));
      listed = _mm512_mask_mov_ps(listed, upper, _mm512_permutex2var_ps(lists_[2], code, lists_[3]));
    }
    const LaneBits stretch = (Signed ? codes & all_lanes(0x7fu) : codes) >> (kLists == 4 ? 6 : 5);
    const __mmask16 small = _mm512_testn_epi32_mask(code, _mm512_set1_epi32(Signed ? 0x78 : 0xf0));
    const LaneFloats normal = as_floats(as_bits(listed) + (stretch << kShift));
    const __m512 number = _mm512_mask_permutexvar_ps(normal, small, code, small_);
    if constexpr (!Signed) return number;
    return as_floats(as_bits(number) | (codes << 24 & all_lanes(kSign)));
  }

 private:
  static constexpr int kLists = !Signed && Power == 3 ? 4 : 2, kLength = 16 * kLists;
  static constexpr int kShift = kLists == 4 ? 23 : 23 + (Signed ? 3 : 2) - Power;
  LaneFloats small_, lists_[kLists];
};

template <bool Signed, int Power>
MIXPREC_INLINE std::int64_t load_raised(const float* numbers, float scale, const std::uint8_t* MIXPREC_RESTRICT codes,
                                        std::int64_t n, float* MIXPREC_RESTRICT y) {
  const RaisedLanes<Signed, Power> number(numbers);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_lanes(number(load_bytes(codes + i)) * all_lanes(scale), y + i);
  return i;
}

template <bool Signed>
MIXPREC_INLINE std::int64_t load_raised(int power, const float* numbers, float scale, const std::uint8_t* codes,
                                        std::int64_t n, float* y) {
  switch (power) {
    case 0: return load_raised<Signed, 0>(numbers, scale, codes, n, y);
    case 1: return load_raised<Signed, 1>(numbers, scale, codes, n, y);
    case 2: return load_raised<Signed, 2>(numbers, scale, codes, n, y);
    default: return load_raised<Signed, 3>(numbers, scale, codes, n, y);
  }
}

#endif

// From place i on.
MIXPREC_INLINE void load_listed(const float* numbers, float scale, const std::uint8_t* MIXPREC_RESTRICT codes,
                                std::int64_t i, std::int64_t n, float* MIXPREC_RESTRICT y) {
#if defined(MIXPREC_LANES)
  for (; i + kLanes <= n; i += kLanes)
    store_lanes(gathered(numbers, load_bytes(codes + i)) * all_lanes(scale), y + i);
#endif
  for (; i < n; ++i) y[i] = numbers[codes[i]] * scale;
}

MIXPREC_INLINE void load_block(const StoredMoment& stored, std::int64_t block, const std::uint8_t* codes,
                               std::int64_t n, float* y) {
  const MomentNumbers& numbers = moment_numbers();
  const bool is_signed = stored.layout.is_signed;
  const float scale = stored.scales[block];
  if (stored.layout.kind == MomentKind::dynamic)
    return load_listed(numbers.dynamic[is_signed ? 1 : 0], scale, codes, 0, n, y);
  const int power = stored.powers[block] & 3;
  const float* raised = numbers.powers[is_signed ? 1 : 0][power];
  std::int64_t done = 0;
#if defined(__AVX512F__)
  done = is_signed ? load_raised<true>(power, raised, scale, codes, n, y)
                   : load_raised<false>(power, raised, scale, codes, n, y);
#endif
  load_listed(raised, scale, codes, done, n, y);
}

}  // namespace
