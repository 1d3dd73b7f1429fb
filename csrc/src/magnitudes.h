// Largest magnitudes, as bits: those of a NaN are above all others.
#pragma once

#include "bits.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace {

MIXPREC_INLINE std::uint32_t amax_run(const float* MIXPREC_RESTRICT x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude;
    largest = m > largest ? m : largest;
  }
  return largest;
}

#if defined(__AVX512F__)

// Sixteen vectors to one: lane i becomes the largest of vector i. Each step halves what a vector still has of its own.
MIXPREC_INLINE __m512i largest_of_each(__m512i (&v)[16]) {
  const __m512i low[4] = {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
                          _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                          _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29),
                          _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)};
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
    const __m512i high = _mm512_add_epi32(low[step], _mm512_set1_epi32(8 >> step));
#pragma GCC unroll 8
    for (int i = 0; i < 8 >> step; ++i)
      v[i] = _mm512_max_epu32(_mm512_permutex2var_epi32(v[2 * i], low[step], v[2 * i + 1]),
                              _mm512_permutex2var_epi32(v[2 * i], high, v[2 * i + 1]));
  }
  return v[0];
}

// Sixteen blocks of Width.
template <int Width>
MIXPREC_INLINE void amax_sixteen_blocks(const float* x, std::uint32_t* amax) {
  const __m512i magnitude = _mm512_set1_epi32(static_cast<int>(kMagnitude));
  __m512i v[16];
#pragma GCC unroll 16
  for (int b = 0; b < 16; ++b) {
    v[b] = _mm512_and_si512(_mm512_loadu_si512(x + b * Width), magnitude);
    if constexpr (Width == 32)
      v[b] = _mm512_max_epu32(v[b], _mm512_and_si512(_mm512_loadu_si512(x + b * Width + 16), magnitude));
  }
  _mm512_storeu_si512(amax, largest_of_each(v));
}

#endif

template <int Width>
MIXPREC_INLINE void amax_fixed_blocks(const float* MIXPREC_RESTRICT x, std::int64_t blocks,
                                      std::uint32_t* MIXPREC_RESTRICT amax) {
  std::int64_t b = 0;
#if defined(__AVX512F__)
  for (; b + 16 <= blocks; b += 16) amax_sixteen_blocks<Width>(x + b * Width, amax + b);
#endif
  for (; b < blocks; ++b) amax[b] = amax_run(x + b * Width, Width);
}

// Of consecutive blocks of `width` in a run of n.
MIXPREC_INLINE void amax_blocks(const float* x, std::int64_t n, std::int64_t width, std::uint32_t* amax) {
  const std::int64_t whole = n / width;
  if (width == 16) {
    amax_fixed_blocks<16>(x, whole, amax);
  } else if (width == 32) {
    amax_fixed_blocks<32>(x, whole, amax);
  } else {
    for (std::int64_t b = 0; b < whole; ++b) amax[b] = amax_run(x + b * width, width);
  }
  if (whole * width < n) amax[whole] = amax_run(x + whole * width, n - whole * width);
}

// Raises amax[i] to the magnitude of x[i].
MIXPREC_INLINE void amax_into_columns(const float* MIXPREC_RESTRICT x, std::int64_t n,
                                      std::uint32_t* MIXPREC_RESTRICT amax) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude;
    amax[i] = m > amax[i] ? m : amax[i];
  }
}

MIXPREC_INLINE std::uint32_t largest_of(const std::uint32_t* MIXPREC_RESTRICT values, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

}  // namespace
