// Rounding a run of one row to values alone, and counting what becomes of the elements: in registers, for short float
// formats to nearest.
#pragma once

#include "limits.h"

namespace {

using mixprec::Saturation;

// x: n magnitudes, whole vectors and blocks; quantize, factor: what magnitudes are multiplied by before and after;
// second_factor: of all. values: magnitudes.
struct ProbeRun {
  const float* x;
  float* values;
  std::int64_t n;
  const float* quantize;
  const float* factor;
  float second_factor;
};

using ProbeKernel = Shares (*)(const Grid&, const Limits&, const ProbeRun&);

#if defined(MIXPREC_LANES)

MIXPREC_INLINE std::int32_t sum_of(LaneBits lanes) {
  std::int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += lanes[i];
  return sum;
}

template <class Rounder, Saturation S>
class ProbeLanes {
 public:
  ProbeLanes(const Grid& grid, const Limits& limits, float second_factor)
      : rounder_(grid),
        normal_(all_lanes(limits.normal_bits)),
        end_(all_lanes(limits.end_bits)),
        steps_(all_lanes(limits.steps)),
        beyond_(all_lanes(limits.beyond)),
        second_factor_(all_lanes(second_factor)),
        nonzero_{},
        small_{},
        saturated_{} {}

  MIXPREC_MEMBER void add(const float* x, LaneFloats quantize, LaneFloats factor, float* values) {
    const LaneFloats y = load_lanes(x), scaled = y * quantize;
    const LaneFloats q = rounder_.magnitude_lanes(as_bits(scaled), LaneBits{});
    LaneFloats v = q * factor;
    if constexpr (S == Saturation::by_value) v *= second_factor_;  // which is 1 under the scales of the others
    store_lanes(v, values);
    nonzero_ += smaller_unsigned(as_bits(q), all_lanes(1u));
    small_ = count_below(small_, as_bits(q), normal_);
    if constexpr (S == Saturation::by_scaled) saturated_ = count_above(saturated_, scaled, beyond_);
    if constexpr (S == Saturation::by_value) saturated_ = count_beyond(saturated_, as_bits(q), end_, (y - v) * steps_, v);
  }

  MIXPREC_MEMBER Shares shares() const { return {sum_of(nonzero_), sum_of(small_), sum_of(saturated_)}; }

 private:
  Rounder rounder_;
  LaneBits normal_, end_;
  LaneFloats steps_, beyond_, second_factor_;
  LaneBits nonzero_, small_, saturated_;
};

// One entry per Width elements; 0: one for all.
template <class Rounder, Saturation S, int Width>
Shares probe_run(const Grid& grid, const Limits& limits, const ProbeRun& given) {
  const ProbeRun run = given;
  ProbeLanes<Rounder, S> lanes(grid, limits, run.second_factor);
  for (std::int64_t i = 0; i < run.n; i += kLanes) {
    if constexpr (Width == 1) {
      lanes.add(run.x + i, load_lanes(run.quantize + i), load_lanes(run.factor + i), run.values + i);
    } else {
      const std::int64_t entry = Width == 0 ? 0 : i / (Width == 0 ? 1 : Width);
      lanes.add(run.x + i, all_lanes(run.quantize[entry]), all_lanes(run.factor[entry]), run.values + i);
    }
  }
  return lanes.shares();
}

template <class Rounder, Saturation S>
ProbeKernel probe_kernel_of(Spread spread) {
  switch (spread) {
    case Spread::all: return probe_run<Rounder, S, 0>;
    case Spread::one: return probe_run<Rounder, S, 1>;
    case Spread::sixteen: return probe_run<Rounder, S, 16>;
    default: return probe_run<Rounder, S, 32>;
  }
}

// Null where the format or the rounding has none.
MIXPREC_INLINE ProbeKernel probe_kernel(const Grid& grid, Rounding rounding, Saturation saturation, Spread spread) {
  using Saturating = FloatRounder<float, Rounding::nearest_even, false, true>;
  using Propagating = FloatRounder<float, Rounding::nearest_even, true, true>;
  if (grid.table || rounding != Rounding::nearest_even) return nullptr;
  const Method method = method_for(grid);
  const bool never = saturation == Saturation::never;
  if (method == Method::integer && never)
    return probe_kernel_of<IntegerRounder<Rounding::nearest_even>, Saturation::never>(spread);
  if (method != Method::single) return nullptr;
  if (!(grid.overflow == grid.max_value))
    return never ? probe_kernel_of<Propagating, Saturation::never>(spread) : nullptr;
  if (never) return probe_kernel_of<Saturating, Saturation::never>(spread);
  return saturation == Saturation::by_scaled ? probe_kernel_of<Saturating, Saturation::by_scaled>(spread)
                                             : probe_kernel_of<Saturating, Saturation::by_value>(spread);
}

#else

MIXPREC_INLINE ProbeKernel probe_kernel(const Grid&, Rounding, Saturation, Spread) { return nullptr; }

#endif

}  // namespace
