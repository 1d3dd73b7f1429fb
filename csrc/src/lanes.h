// Vectors of the instruction set. Arithmetic and bit operations are written with + - * & | as on numbers; what differs
// between instruction sets has a name here. The lanes of a level without AVX serve the butterflies alone.
#pragma once

#include "bits.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#define MIXPREC_LANES 1
#endif

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float LaneFloats __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t LaneBits __attribute__((vector_size(kLanes * 4)));

constexpr int kDoubles = kLanes / 2;
typedef double LaneDoubles __attribute__((vector_size(kDoubles * 8)));
typedef std::uint64_t LaneWords __attribute__((vector_size(kDoubles * 8)));

MIXPREC_INLINE LaneFloats load_lanes(const float* x) {
  LaneFloats v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
MIXPREC_INLINE LaneBits load_lanes(const std::uint32_t* x) {
  LaneBits v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
template <class Lanes, class T>
MIXPREC_INLINE void store_lanes(Lanes v, T* y) {
  std::memcpy(y, &v, sizeof v);
}

// A difference from zero, which the compiler knows to be the value; a sum with zero is not, if that is -0.
MIXPREC_INLINE LaneFloats all_lanes(float value) { return value - LaneFloats{}; }
MIXPREC_INLINE LaneBits all_lanes(std::uint32_t bits) { return LaneBits{} + static_cast<std::int32_t>(bits); }
MIXPREC_INLINE LaneBits as_bits(LaneFloats v) { return (LaneBits)v; }
MIXPREC_INLINE LaneFloats as_floats(LaneBits v) { return (LaneFloats)v; }

// kDoubles of fp32 as fp64: read and widened at once. (GCC 12 makes six instructions of the general form.)
MIXPREC_INLINE LaneDoubles widen_lanes(const float* x) {
#if defined(__AVX512F__)
  return _mm512_cvtps_pd(_mm256_loadu_ps(x));
#elif defined(__AVX2__)
  return _mm256_cvtps_pd(_mm_loadu_ps(x));
#else
  return LaneDoubles{static_cast<double>(x[0]), static_cast<double>(x[1])};
#endif
}
MIXPREC_INLINE LaneDoubles load_lanes(const double* x) {
  LaneDoubles v;
  std::memcpy(&v, x, sizeof v);
  return v;
}
MIXPREC_INLINE LaneDoubles absolute(LaneDoubles v) { return (LaneDoubles)((LaneWords)v & 0x7fffffffffffffffu); }

// |a| + |b|, where sum is a + b: the larger magnitude of that and of the difference. Not finite where a or b is not.
MIXPREC_INLINE LaneDoubles sum_of_magnitudes(LaneDoubles a, LaneDoubles b, LaneDoubles sum) {
#if defined(__AVX512DQ__)
  constexpr int kLargerMagnitude = 0xb;
  return _mm512_range_pd(sum, a - b, kLargerMagnitude);
#else
  (void)sum;
  return absolute(a) + absolute(b);
#endif
}

// The sum of a vector's numbers, the second half of what is left added to the first.
MIXPREC_INLINE double sum_of_halves(LaneDoubles v) {
#if defined(__AVX512F__)
  const __m256d quarters = _mm512_castpd512_pd256(v) + _mm512_extractf64x4_pd(v, 1);
#elif defined(__AVX2__)
  const __m256d quarters = v;
#endif
#if defined(MIXPREC_LANES)
  const __m128d pair = _mm256_castpd256_pd128(quarters) + _mm256_extractf128_pd(quarters, 1);
  return _mm_cvtsd_f64(pair) + _mm_cvtsd_f64(_mm_unpackhi_pd(pair, pair));
#else
  return v[0] + v[1];
#endif
}

// a * a + b, rounded once, where a * a is exact.
MIXPREC_INLINE LaneDoubles add_exact_square(LaneDoubles a, LaneDoubles b) {
#if defined(__AVX512F__)
  return _mm512_fmadd_pd(a, a, b);
#elif defined(__AVX2__)
  return _mm256_fmadd_pd(a, a, b);
#else
  return a * a + b;
#endif
}

// multiply_add: a * b + c; less_product: a - b * c; each rounded once.

#if defined(__AVX512F__)

// The smaller one, or `value` if that is a NaN.
MIXPREC_INLINE LaneFloats limited(LaneFloats value, LaneFloats limit) { return _mm512_min_ps(limit, value); }

MIXPREC_INLINE LaneFloats at_least(LaneFloats value, LaneFloats limit) { return _mm512_max_ps(limit, value); }
MIXPREC_INLINE LaneFloats multiply_add(LaneFloats a, LaneFloats b, LaneFloats c) { return _mm512_fmadd_ps(a, b, c); }
MIXPREC_INLINE LaneFloats less_product(LaneFloats a, LaneFloats b, LaneFloats c) { return _mm512_fnmadd_ps(b, c, a); }
MIXPREC_INLINE LaneBits truncated(LaneFloats value) { return (LaneBits)_mm512_cvttps_epi32(value); }

MIXPREC_INLINE LaneBits larger_signed(LaneBits a, LaneBits b) {
  return (LaneBits)_mm512_max_epi32((__m512i)a, (__m512i)b);
}
MIXPREC_INLINE LaneBits larger_unsigned(LaneBits a, LaneBits b) {
  return (LaneBits)_mm512_max_epu32((__m512i)a, (__m512i)b);
}
MIXPREC_INLINE LaneBits smaller_unsigned(LaneBits a, LaneBits b) {
  return (LaneBits)_mm512_min_epu32((__m512i)a, (__m512i)b);
}

MIXPREC_INLINE LaneFloats root(LaneFloats v) { return _mm512_sqrt_ps(v); }

// The signs of x before bits that have none.
MIXPREC_INLINE LaneBits with_signs(LaneBits bits, LaneFloats x) {
  return (LaneBits)_mm512_ternarylogic_epi32((__m512i)bits, (__m512i)x, _mm512_set1_epi32(-0x7fffffff - 1), 0xf8);
}

MIXPREC_INLINE LaneBits load_bytes(const std::uint8_t* x) {
  return (LaneBits)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
MIXPREC_INLINE LaneFloats gathered(const float* table, LaneBits places) {
  return _mm512_i32gather_ps((__m512i)places, table, 4);
}
MIXPREC_INLINE LaneBits gathered(const std::uint32_t* table, LaneBits places) {
  return (LaneBits)_mm512_i32gather_epi32((__m512i)places, table, 4);
}
MIXPREC_INLINE LaneFloats add_toward_zero(LaneFloats a, LaneFloats c) {
  return _mm512_add_round_ps(a, c, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

// bits + 1 where words (unsigned) lie below the whole part of threshold, which is below 2^32; never for a NaN, whose
// bits may be all ones.
MIXPREC_INLINE LaneBits step_where_below(LaneBits bits, LaneBits words, LaneFloats threshold) {
  threshold = _mm512_max_ps(threshold, _mm512_setzero_ps());  // the second operand for a NaN
  const __mmask16 below = _mm512_cmplt_epu32_mask((__m512i)words, _mm512_cvttps_epu32(threshold));
  return (LaneBits)_mm512_mask_sub_epi32((__m512i)bits, below, (__m512i)bits, _mm512_set1_epi32(-1));
}

// `by` where `tested` lies above the limit, else value.
MIXPREC_INLINE LaneFloats replace_above(LaneFloats value, LaneFloats tested, float limit, float by) {
  const __mmask16 above = _mm512_cmp_ps_mask(tested, all_lanes(limit), _CMP_GT_OQ);
  return _mm512_mask_mov_ps(value, above, all_lanes(by));
}

MIXPREC_INLINE bool any_negative(LaneBits v) { return _mm512_movepi32_mask((__m512i)v) != 0; }

// count + 1 where bits (unsigned) lie below the limit.
MIXPREC_INLINE LaneBits count_below(LaneBits count, LaneBits bits, LaneBits limit) {
  const __mmask16 below = _mm512_cmplt_epu32_mask((__m512i)bits, (__m512i)limit);
  return (LaneBits)_mm512_mask_sub_epi32((__m512i)count, below, (__m512i)count, _mm512_set1_epi32(-1));
}

// count + 1 where a > b, and where bits are besides those of the end.
MIXPREC_INLINE LaneBits count_above(LaneBits count, LaneFloats a, LaneFloats b) {
  const __mmask16 above = _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
  return (LaneBits)_mm512_mask_sub_epi32((__m512i)count, above, (__m512i)count, _mm512_set1_epi32(-1));
}
MIXPREC_INLINE LaneBits count_beyond(LaneBits count, LaneBits bits, LaneBits end, LaneFloats a, LaneFloats b) {
  const __mmask16 at_end = _mm512_cmpeq_epi32_mask((__m512i)bits, (__m512i)end);
  const __mmask16 beyond = _mm512_mask_cmp_ps_mask(at_end, a, b, _CMP_GT_OQ);
  return (LaneBits)_mm512_mask_sub_epi32((__m512i)count, beyond, (__m512i)count, _mm512_set1_epi32(-1));
}

#elif defined(__AVX2__)

MIXPREC_INLINE LaneFloats limited(LaneFloats value, LaneFloats limit) { return _mm256_min_ps(limit, value); }

MIXPREC_INLINE LaneFloats at_least(LaneFloats value, LaneFloats limit) { return _mm256_max_ps(limit, value); }
MIXPREC_INLINE LaneFloats multiply_add(LaneFloats a, LaneFloats b, LaneFloats c) { return _mm256_fmadd_ps(a, b, c); }
MIXPREC_INLINE LaneFloats less_product(LaneFloats a, LaneFloats b, LaneFloats c) { return _mm256_fnmadd_ps(b, c, a); }
MIXPREC_INLINE LaneBits truncated(LaneFloats value) { return (LaneBits)_mm256_cvttps_epi32(value); }

MIXPREC_INLINE LaneBits larger_signed(LaneBits a, LaneBits b) {
  return (LaneBits)_mm256_max_epi32((__m256i)a, (__m256i)b);
}
MIXPREC_INLINE LaneBits larger_unsigned(LaneBits a, LaneBits b) {
  return (LaneBits)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

MIXPREC_INLINE LaneBits smaller_unsigned(LaneBits a, LaneBits b) {
  return (LaneBits)_mm256_min_epu32((__m256i)a, (__m256i)b);
}

MIXPREC_INLINE LaneFloats root(LaneFloats v) { return _mm256_sqrt_ps(v); }

MIXPREC_INLINE LaneBits with_signs(LaneBits bits, LaneFloats x) { return bits | (as_bits(x) & all_lanes(kSign)); }

MIXPREC_INLINE LaneBits load_bytes(const std::uint8_t* x) {
  return (LaneBits)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x)));
}
MIXPREC_INLINE LaneFloats gathered(const float* table, LaneBits places) {
  return _mm256_i32gather_ps(table, (__m256i)places, 4);
}
MIXPREC_INLINE LaneBits gathered(const std::uint32_t* table, LaneBits places) {
  return (LaneBits)_mm256_i32gather_epi32(reinterpret_cast<const int*>(table), (__m256i)places, 4);
}
// For a and c of which c is the larger: one unit in the last place less where the nearest sum is too large.
MIXPREC_INLINE LaneFloats add_toward_zero(LaneFloats a, LaneFloats c) {
  const LaneFloats nearest = a + c;
  return as_floats(as_bits(nearest) + (LaneBits)_mm256_cmp_ps(nearest - c, a, _CMP_GT_OQ));
}

MIXPREC_INLINE LaneBits step_where_below(LaneBits bits, LaneBits words, LaneFloats threshold) {
  threshold = _mm256_max_ps(threshold, _mm256_setzero_ps());  // the second operand for a NaN
  // Both less 2^31, as signed integers are compared and converted.
  const __m256 half = _mm256_set1_ps(0x1p31f), sign = _mm256_set1_ps(-0.0f);
  const __m256 large = _mm256_cmp_ps(threshold, half, _CMP_GE_OQ);
  const __m256i whole = _mm256_cvttps_epi32(threshold - (LaneFloats)_mm256_and_ps(large, half));
  const __m256i limit = _mm256_xor_si256(whole, _mm256_castps_si256(_mm256_andnot_ps(large, sign)));
  return bits - (LaneBits)_mm256_cmpgt_epi32(limit, _mm256_xor_si256((__m256i)words, _mm256_castps_si256(sign)));
}

MIXPREC_INLINE LaneFloats replace_above(LaneFloats value, LaneFloats tested, float limit, float by) {
  return _mm256_blendv_ps(value, all_lanes(by), _mm256_cmp_ps(tested, all_lanes(limit), _CMP_GT_OQ));
}

MIXPREC_INLINE bool any_negative(LaneBits v) { return _mm256_movemask_ps((LaneFloats)v) != 0; }

// Bits of magnitudes, which are positive as signed integers.
MIXPREC_INLINE LaneBits count_below(LaneBits count, LaneBits bits, LaneBits limit) {
  return count - (LaneBits)_mm256_cmpgt_epi32((__m256i)limit, (__m256i)bits);
}

MIXPREC_INLINE LaneBits count_above(LaneBits count, LaneFloats a, LaneFloats b) {
  return count - (LaneBits)_mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
MIXPREC_INLINE LaneBits count_beyond(LaneBits count, LaneBits bits, LaneBits end, LaneFloats a, LaneFloats b) {
  return count + (LaneBits)_mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ)), 31),
                                            _mm256_cmpeq_epi32((__m256i)bits, (__m256i)end));
}

#endif

}  // namespace
