// QuEST's powers of two: from the standard deviation of a tile instead of its largest magnitude.
#pragma once

#include "choice.h"
#include "scales.h"

namespace {

// Where QuEST clips a Gaussian for the grid of E2M1, over its largest element, in standard deviations.
constexpr double kQuestReach = 2.92247856 / 6.0;

// A row of n columns across tiles of `tile_cols`, as its values or their squares, to `places`, where tiles lie `stride`
// apart.
MIXPREC_INLINE void lay_out(const float* MIXPREC_RESTRICT x, std::int64_t n, std::int64_t tile_cols, bool squared,
                            std::int64_t stride, double* MIXPREC_RESTRICT places) {
  for (std::int64_t c = 0, tile = 0; c < n; c += tile_cols, ++tile) {
    double* MIXPREC_RESTRICT to = places + tile * stride;
    const std::int64_t width = smaller(tile_cols, n - c);
    for (std::int64_t i = 0; i < width; ++i) {
      const double value = static_cast<double>(x[c + i]);
      to[i] = squared ? value * value : value;
    }
  }
}

// The exponent of a tile's scale from the sums of its elements and of their squares; a number beyond 127 if there is a
// non-finite element.
MIXPREC_INLINE std::int32_t reach_exponent(double sum, double squares, double count) {
  const double mean = sum / count;
  const double variance = squares / count - mean * mean;
  const double reach = __builtin_sqrt(variance < 0.0 ? 0.0 : variance) * kQuestReach;
  const std::int32_t field = static_cast<std::int32_t>(to_bits(reach) >> 52 & 0x7ffu);
  if (field == 0x7ff) return 128;
  const std::int32_t e = field - 1023;  // -1023 for zero
  return e < -127 ? -127 : e > 127 ? 127 : e;
}

}  // namespace
