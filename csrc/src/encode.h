// From grid values to packed codes.
#pragma once

#include "coder.h"

namespace {

template <class Coder>
MIXPREC_INLINE void encode_with(const Coder& coder, const float* MIXPREC_RESTRICT values, std::int64_t n,
                                std::uint32_t* MIXPREC_RESTRICT codes) {
  for (std::int64_t i = 0; i < n; ++i) codes[i] = coder.encode(values[i]);
}

// Whether FloatCoder<float> codes the format.
MIXPREC_INLINE bool is_single(const Grid& grid) {
  return !grid.table && !grid.integer && grid.min_exponent >= -126 && grid.mantissa_bits - grid.min_exponent <= 127;
}

MIXPREC_INLINE void encode_run(const Grid& grid, const float* values, std::int64_t n, std::uint32_t* codes) {
  if (grid.table) return encode_in_table(*grid.table, values, n, codes);
  if (grid.integer) return encode_with(IntegerCoder(grid), values, n, codes);
  if (is_single(grid) || grid.min_exponent == -126) return encode_with(FloatCoder<float>(grid), values, n, codes);
  encode_with(FloatCoder<double>(grid), values, n, codes);
}

#if defined(__AVX512F__)

// Finite values of a short float format, sixteen at a time.
class CodeLanes {
 public:
  explicit CodeLanes(const Grid& grid)
      : drop_(static_cast<unsigned>(23 - grid.mantissa_bits)),
        sign_shift_(static_cast<unsigned>(32 - grid.bits)),
        smallest_(_mm512_set1_epi32((grid.min_exponent + 127) << 23)),
        first_field_(_mm512_set1_epi32((grid.min_exponent + 126) << grid.mantissa_bits)),
        integers_(_mm512_set1_ps(power_of_two<float>(grid.min_exponent - grid.mantissa_bits + 23))),
        sign_(_mm512_set1_epi32(grid.is_signed ? 1 << (grid.bits - 1) : 0)),
        finite_(true) {}

  static bool fit(const Grid& grid) {
    return is_single(grid) && grid.min_exponent > -126 && grid.min_exponent < 100 &&
           (grid.bits == 8 || grid.bits == 4);
  }

  MIXPREC_MEMBER __m512i encode(const float* values) {
    const __m512i bits = _mm512_loadu_si512(values);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(kMagnitude)));
    const __m512i shifted = _mm512_sub_epi32(_mm512_srli_epi32(magnitude, drop_), first_field_);
    // A subnormal is as many units as the last bits of itself plus 2^23 units say.
    const __m512i units = _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(magnitude), integers_));
    const __mmask16 subnormal = _mm512_cmplt_epi32_mask(magnitude, smallest_);
    const __m512i code = _mm512_mask_sub_epi32(shifted, subnormal, units, _mm512_castps_si512(integers_));
    finite_ &= _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(static_cast<int>(kInfinity))) == 0;
    return _mm512_or_si512(code, _mm512_and_si512(_mm512_srli_epi32(bits, sign_shift_), sign_));
  }

  // Whether all values were.
  MIXPREC_MEMBER bool finite() const { return finite_; }

 private:
  unsigned drop_, sign_shift_;
  __m512i smallest_, first_field_;
  __m512 integers_;
  __m512i sign_;
  bool finite_;
};

// Writes the codes of whole vectors; returns of how many values, or 0 where one of them is not finite.
MIXPREC_INLINE std::int64_t write_lanes(const Grid& grid, const float* values, std::int64_t n, std::uint8_t* out) {
  if (!CodeLanes::fit(grid)) return 0;
  CodeLanes lanes(grid);
  std::int64_t i = 0;
  if (grid.bits == 8) {
    for (; i + 16 <= n; i += 16)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm512_cvtepi32_epi8(lanes.encode(values + i)));
  } else {
    for (; i + 16 <= n; i += 16) _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i / 2), join_pairs(lanes.encode(values + i)));
  }
  return lanes.finite() ? i : 0;
}

#else

MIXPREC_INLINE std::int64_t write_lanes(const Grid&, const float*, std::int64_t, std::uint8_t*) { return 0; }

#endif

// The codes of n values, from a byte on; `room` holds n.
MIXPREC_INLINE void write_codes(const Grid& grid, const float* values, std::int64_t n, std::uint32_t* room,
                                std::uint8_t* out) {
  const std::int64_t done = write_lanes(grid, values, n, out);
  if (done == n) return;
  encode_run(grid, values + done, n - done, room);
  write_bits(room, n - done, grid.bits, out + done * grid.bits / 8);
}

}  // namespace
