// Largest magnitudes, as bits: those of a NaN are above all others.
#pragma once

#include "bits.h"

namespace {

MIXPREC_INLINE std::uint32_t amax_run(const float* MIXPREC_RESTRICT x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude;
    largest = m > largest ? m : largest;
  }
  return largest;
}

template <int Width>
MIXPREC_INLINE void amax_fixed_blocks(const float* MIXPREC_RESTRICT x, std::int64_t blocks,
                                      std::uint32_t* MIXPREC_RESTRICT amax) {
  for (std::int64_t b = 0; b < blocks; ++b) amax[b] = amax_run(x + b * Width, Width);
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
