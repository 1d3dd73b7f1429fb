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

// The dynamic map: a place and a half (with a sign, a half) is 2^i m, of which m in [1, 2) and the decade i make the
// number (9 m - 8) 10^(i - 7). The end of the last decade is 1.
template <bool Signed>
class DynamicValues {
 public:
  DynamicValues(const DynamicLines& lines, float scale) : lines_(lines), scale_(scale) {
#if defined(MIXPREC_LANES)
    base_ = load_lanes(lines.base) * all_lanes(scale);
#endif
  }

  MIXPREC_MEMBER float operator()(std::uint32_t code) const {
    const float place = static_cast<float>(static_cast<std::int32_t>(code)) - kZero;
    const std::uint32_t bits = to_bits(from_bits(to_bits(place) & kMagnitude) + kShift);
    const float factor = 9.0f * from_bits((bits & 0x7fffffu) | 0x3f800000u) - 8.0f;
    const float value = factor * (lines_.base[bits >> 23 & 15u] * scale_);
    return from_bits(to_bits(value > scale_ ? scale_ : value) | (to_bits(place) & kSign));
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneFloats lanes(LaneBits codes) const {
    const LaneFloats place = __builtin_convertvector(codes, LaneFloats) - all_lanes(kZero);
    const LaneBits bits = as_bits(as_floats(as_bits(place) & all_lanes(kMagnitude)) + all_lanes(kShift));
    const LaneFloats m = as_floats((bits & all_lanes(0x7fffffu)) | all_lanes(0x3f800000u));
    LaneFloats factor = multiply_add(m, all_lanes(9.0f), all_lanes(-8.0f));
#if defined(__AVX512F__)
    const LaneFloats base = _mm512_permutexvar_ps(_mm512_srli_epi32((__m512i)bits, 23), base_);
#else
    const LaneFloats base = _mm256_permutevar8x32_ps(base_, _mm256_srli_epi32((__m256i)bits, 23));
    factor = as_floats(as_bits(factor) & (as_bits(place) != LaneBits{}));
#endif
    const LaneFloats value = limited(factor * base, all_lanes(scale_));
    if constexpr (!Signed) return value;
    return as_floats(as_bits(value) | (as_bits(place) & all_lanes(kSign)));
  }
#endif

 private:
  static constexpr float kZero = Signed ? float{kSignedZero} : 0.0f, kShift = Signed ? 0.5f : 1.5f;
  const DynamicLines& lines_;
  float scale_;
#if defined(MIXPREC_LANES)
  LaneFloats base_;
#endif
};

template <bool Signed>
MIXPREC_INLINE void load_dynamic(const DynamicLines& lines, float scale, const std::uint8_t* MIXPREC_RESTRICT codes,
                                 std::int64_t n, float* MIXPREC_RESTRICT y) {
  const DynamicValues<Signed> value(lines, scale);
  std::int64_t i = 0;
#if defined(MIXPREC_LANES)
  for (; i + kLanes <= n; i += kLanes) store_lanes(value.lanes(load_bytes(codes + i)), y + i);
#endif
  for (; i < n; ++i) y[i] = value(codes[i]);
}

MIXPREC_INLINE void load_block(const StoredMoment& stored, std::int64_t block, const std::uint8_t* codes,
                               std::int64_t n, float* y) {
  const MomentNumbers& numbers = moment_numbers();
  const bool is_signed = stored.layout.is_signed;
  const float scale = stored.scales[block];
  if (stored.layout.kind == MomentKind::dynamic) {
    if (is_signed) return load_dynamic<true>(numbers.nearest, scale, codes, n, y);
    return load_dynamic<false>(numbers.chances, scale, codes, n, y);
  }
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
