// Largest magnitudes, as bits: those of a NaN are above all others.
#pragma once

#include "lanes.h"

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

// kLanes vectors to one: lane i becomes the largest of vector i. Each step halves what a vector still has of its own.
MIXPREC_INLINE LaneBits largest_of_each(const LaneBits (&lanes)[16]) {
  const __m512i low[4] = {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
                          _mm512_setr_epi32(0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27),
                          _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29),
                          _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)};
  __m512i v[16];
  std::memcpy(v, lanes, sizeof v);
#pragma GCC unroll 4
  for (int step = 0; step < 4; ++step) {
    const __m512i high = _mm512_add_epi32(low[step], _mm512_set1_epi32(8 >> step));
#pragma GCC unroll 8
    for (int i = 0; i < 8 >> step; ++i)
      v[i] = _mm512_max_epu32(_mm512_permutex2var_epi32(v[2 * i], low[step], v[2 * i + 1]),
                              _mm512_permutex2var_epi32(v[2 * i], high, v[2 * i + 1]));
  }
  return (LaneBits)v[0];
}

#elif defined(__AVX2__)

template <int Low, int High>
MIXPREC_INLINE __m256 larger_halves(__m256 a, __m256 b) {
  const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(a, b, Low));
  return _mm256_castsi256_ps(_mm256_max_epu32(low, _mm256_castps_si256(_mm256_shuffle_ps(a, b, High))));
}

MIXPREC_INLINE __m256 larger_quarters(LaneBits a, LaneBits b) {
  const __m256i low = _mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x20);
  return _mm256_castsi256_ps(_mm256_max_epu32(low, _mm256_permute2x128_si256((__m256i)a, (__m256i)b, 0x31)));
}

MIXPREC_INLINE LaneBits largest_of_each(const LaneBits (&v)[8]) {
  // Halves of vectors 0 and 4, of 1 and 5, ...: shuffles of pairs then stay within 128 bits.
  const __m256 a = larger_halves<0x44, 0xee>(larger_quarters(v[0], v[4]), larger_quarters(v[1], v[5]));
  const __m256 b = larger_halves<0x44, 0xee>(larger_quarters(v[2], v[6]), larger_quarters(v[3], v[7]));
  return (LaneBits)larger_halves<0x88, 0xdd>(a, b);
}

#endif

#if defined(MIXPREC_LANES)
// kLanes blocks of Width, 16 or 32.
template <int Width>
MIXPREC_INLINE void amax_lanes_of_blocks(const float* x, std::uint32_t* amax) {
  const LaneBits magnitude = all_lanes(kMagnitude);
  LaneBits v[kLanes];
#pragma GCC unroll 16
  for (int b = 0; b < kLanes; ++b) {
    v[b] = as_bits(load_lanes(x + b * Width)) & magnitude;
#pragma GCC unroll 4
    for (int i = kLanes; i < Width; i += kLanes)
      v[b] = larger_unsigned(v[b], as_bits(load_lanes(x + b * Width + i)) & magnitude);
  }
  store_lanes(largest_of_each(v), amax);
}
#endif

template <int Width>
MIXPREC_INLINE void amax_fixed_blocks(const float* MIXPREC_RESTRICT x, std::int64_t blocks,
                                      std::uint32_t* MIXPREC_RESTRICT amax) {
  std::int64_t b = 0;
#if defined(MIXPREC_LANES)
  for (; b + kLanes <= blocks; b += kLanes) amax_lanes_of_blocks<Width>(x + b * Width, amax + b);
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

// Of each of `interleaved` tiles whose columns alternate in n columns; the array is used up. Folding one half of the
// columns onto the other leaves them alternating.
MIXPREC_INLINE void largest_of_interleaved(std::uint32_t* MIXPREC_RESTRICT values, std::int64_t n,
                                           std::int64_t interleaved, std::uint32_t* MIXPREC_RESTRICT amax) {
  std::int64_t columns = n / interleaved;
  while (columns > 1) {
    const std::int64_t kept = (columns + 1) / 2, folded = (columns - kept) * interleaved;
    const std::uint32_t* upper = values + kept * interleaved;
    for (std::int64_t i = 0; i < folded; ++i) values[i] = upper[i] > values[i] ? upper[i] : values[i];
    columns = kept;
  }
  for (std::int64_t t = 0; t < interleaved; ++t) amax[t] = values[t];
}

}  // namespace
