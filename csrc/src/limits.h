// Counts of what rounding makes of elements: zeros, subnormal and saturated ones.
#pragma once

#include "row_kernels.h"

namespace {

// When an element is subnormal, and when it is saturated: |q| is the end and |y| * end > |v| * (end + half step). Formats
// that are no tables are compared in fp32, as (|y| - |v|) * steps > |v|: where |y| and |v| are within a factor of two, both
// sides are exact, or multiples of one unit; elsewhere rounding decides nothing.
struct Limits {
  std::uint32_t normal_bits;  // smallest normal magnitude; 1: there are no subnormals
  std::uint32_t end_bits;
  float steps;  // how many half steps the end is
  float beyond;  // half a step beyond the end

  explicit Limits(const Grid& grid) : normal_bits(1), end_bits(to_bits(grid.max_value)), steps(0.0f), beyond(0.0f) {
    if (grid.table) return;
    if (!grid.integer) normal_bits = to_bits(static_cast<float>(power_of_two<double>(grid.min_exponent)));
    const int half_step = grid.max_exponent - grid.mantissa_bits - 1;
    steps = static_cast<float>(static_cast<double>(grid.max_value) * power_of_two<double>(-half_step));
    beyond = static_cast<float>(static_cast<double>(grid.max_value) + power_of_two<double>(half_step));
  }
};

struct Shares {
  std::int32_t nonzero, small, saturated;  // small: below the smallest normal one, zeros among them
};

// Values of elements, magnitudes times two factors, and their counts.
template <bool MaySaturate, class Factor>
MIXPREC_INLINE Shares count_shares(const Limits& limits, const float* MIXPREC_RESTRICT x,
                                   const float* MIXPREC_RESTRICT q, std::int64_t n, const Factor& factor, float second,
                                   float* MIXPREC_RESTRICT values) {
  const std::uint32_t normal = limits.normal_bits, end = limits.end_bits;
  const float steps = limits.steps;
  std::int32_t nonzero = 0, small = 0, saturated = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(q[i]) & kMagnitude;
    const float v = from_bits(m) * factor[i] * second;
    values[i] = v;
    nonzero += m != 0 ? 1 : 0;
    small += m < normal ? 1 : 0;
    if constexpr (MaySaturate) {
      const bool beyond = (from_bits(to_bits(x[i]) & kMagnitude) - v) * steps > v;
      saturated += (beyond & (m == end)) ? 1 : 0;
    }
  }
  return {nonzero, small, saturated};
}

}  // namespace
