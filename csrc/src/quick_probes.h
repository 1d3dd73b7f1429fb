// Probes of runs of which it is known beforehand that nothing leaves the format's range, or that powers of two scale them:
// of magnitudes, to nearest. They need half the arithmetic of those in probe_kernels.h, whose results they give.
#pragma once

#include "lane_counts.h"
#include "probe_kernels.h"

namespace {

// What scales: nothing, one number per tile, or a power of two per tile, to which the grid is moved instead of the elements.
enum class QuickScale { none, number, power };

// A grid as vectors round to it.
struct QuickGrid {
  float step;   // 2^(23 - M): makes of a power of two the number whose last place is a step of the grid there
  float least;  // 2^min_exponent
  float limit;  // the largest number
  float beyond;  // half a step beyond it
  std::uint32_t normal_bits;
  float lowest_power, highest_power;  // of two, under which all arithmetic is exact
  float largest;                      // below which it is without a scale

  explicit QuickGrid(const Grid& grid, const Limits& limits)
      : step(power_of_two<float>(23 - grid.mantissa_bits)),
        least(power_of_two<float>(grid.min_exponent)),
        limit(grid.max_value),
        beyond(limits.beyond),
        normal_bits(limits.normal_bits),
        lowest_power(power_of_two<float>(clipped(grid.mantissa_bits - grid.min_exponent - 126))),
        highest_power(power_of_two<float>(clipped(103 + grid.mantissa_bits - grid.max_exponent))),
        largest(power_of_two<float>(clipped(103 + grid.mantissa_bits))) {}

  static int clipped(int exponent) { return exponent < -126 ? -126 : exponent > 127 ? 127 : exponent; }
};

#if defined(MIXPREC_LANES)

// Of a piece's tiles under powers of two: the grid's numbers under them.
struct MovedGrids {
  alignas(64) float limit[kChunk / 16];
  alignas(64) float least[kChunk / 16];
  alignas(64) float beyond[kChunk / 16];
};

struct QuickRun {
  ProbeRun probe;
  const MovedGrids* moved;
};

// Smalls: elements may be below the smallest normal number, and are counted. Where there are none, or no scale but a power
// of two, the value and the element are within a factor of two or the value is zero: then the difference is exact, and
// goes to `values`. One entry per Width elements; 0: one for all.
template <QuickScale S, bool Smalls, int Width>
Shares quick_run(const QuickGrid& grid, const QuickRun& given) {
  const QuickRun run = given;
  const LaneFloats step = all_lanes(grid.step), second = all_lanes(run.probe.second_factor);
  const LaneBits exponent = all_lanes(kInfinity), normal = all_lanes(grid.normal_bits);
  LaneFloats quantize{}, factor{}, limit{}, least = all_lanes(grid.least), beyond{};
  LaneCount kept, small, saturated;
  for (std::int64_t i = 0, v = 0; i < run.probe.n; i += kLanes, ++v) {
    const std::int64_t tile = Width == 0 ? 0 : i / (Width == 0 ? 1 : Width);
    if constexpr (S == QuickScale::number) {
      quantize = all_lanes(run.probe.quantize[tile]);
      factor = all_lanes(run.probe.factor[tile]);
    }
    if constexpr (S == QuickScale::power) {
      limit = all_lanes(run.moved->limit[tile]);
      least = all_lanes(run.moved->least[tile]);
      beyond = all_lanes(run.moved->beyond[tile]);
    }
    const LaneFloats x = load_lanes(run.probe.x + i);
    LaneFloats y = x;
    if constexpr (S == QuickScale::number) y = x * quantize;
    if constexpr (S == QuickScale::power) y = limited(x, limit);
    LaneBits e = as_bits(y) & exponent;
    if constexpr (Smalls) e = larger_signed(e, as_bits(least));
    LaneFloats q = less_product(multiply_add(as_floats(e), step, y), as_floats(e), step);
    if constexpr (Smalls) {
      kept.add(v, nonzero(q));
      small.add(v, below(as_bits(q), S == QuickScale::power ? as_bits(least) : normal));
    }
    if constexpr (S == QuickScale::power) saturated.add(v, above(x, beyond));
    if constexpr (S == QuickScale::number) q *= factor;
    if constexpr (S == QuickScale::number && Smalls) q *= second;
    store_lanes(S == QuickScale::number && Smalls ? q : q - x, run.probe.values + i);
  }
  const std::int64_t vectors = run.probe.n / kLanes;
  Shares shares{0, 0, 0};
  if constexpr (Smalls) shares.nonzero = kept.total(vectors);
  if constexpr (Smalls) shares.small = small.total(vectors);
  if constexpr (S == QuickScale::power) shares.saturated = saturated.total(vectors);
  return shares;
}

using QuickKernel = Shares (*)(const QuickGrid&, const QuickRun&);

template <QuickScale S, bool Smalls>
MIXPREC_INLINE QuickKernel quick_kernel(Spread spread) {
  if (spread == Spread::all) return quick_run<S, Smalls, 0>;
  return spread == Spread::sixteen ? quick_run<S, Smalls, 16> : quick_run<S, Smalls, 32>;
}

#endif

}  // namespace
