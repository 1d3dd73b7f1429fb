// Rounding a run of one row to values alone, and counting what becomes of the elements: in registers, for short float
// formats to nearest.
#pragma once

#include "limits.h"

namespace {

using mixprec::ProbeTask;
using mixprec::Saturation;

// x: n magnitudes, whole vectors and blocks; quantize, factor: what magnitudes are multiplied by before and after;
// second_factor: of all. values: magnitudes, or what they exceed x by where that is exact.
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

// Unscaled: an element's value is the element, and its difference from x exact. That is so by scaled elements, too: there
// powers of two scale, and the largest magnitude is less than twice the end. (x and its value are within a factor of two,
// or the value is zero.)
template <class Rounder, bool Unscaled, Saturation S>
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
    const LaneFloats y = load_lanes(x), scaled = Unscaled ? y : y * quantize;
    const LaneFloats q = rounder_.magnitude_lanes(as_bits(scaled), LaneBits{});
    LaneFloats v = Unscaled ? q : q * factor;
    if constexpr (S == Saturation::by_value) v *= second_factor_;  // which is 1 under the scales of the others
    store_lanes(Unscaled || S == Saturation::by_scaled ? v - y : v, values);
    nonzero_ += smaller_unsigned(as_bits(q), all_lanes(1u));
    small_ = count_below(small_, as_bits(q), normal_);
    if constexpr (S == Saturation::by_scaled) saturated_ = count_above(saturated_, scaled, beyond_);
    if constexpr (S == Saturation::by_value)
      saturated_ = count_beyond(saturated_, as_bits(q), end_, (y - v) * steps_, v);
  }

  MIXPREC_MEMBER Shares shares() const { return {sum_of(nonzero_), sum_of(small_), sum_of(saturated_)}; }

 private:
  Rounder rounder_;
  LaneBits normal_, end_;
  LaneFloats steps_, beyond_, second_factor_;
  LaneBits nonzero_, small_, saturated_;
};

// One entry per Width elements; 0: one for all.
template <class Rounder, bool Unscaled, Saturation S, int Width>
Shares probe_run(const Grid& grid, const Limits& limits, const ProbeRun& given) {
  const ProbeRun run = given;
  ProbeLanes<Rounder, Unscaled, S> lanes(grid, limits, run.second_factor);
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

template <Saturation S>
ProbeKernel probe_kernel_of(Spread spread) {
  using Rounder = FloatRounder<float, Rounding::nearest_even, false, true>;
  switch (spread) {
    case Spread::all: return probe_run<Rounder, false, S, 0>;
    case Spread::one: return probe_run<Rounder, false, S, 1>;
    case Spread::sixteen: return probe_run<Rounder, false, S, 16>;
    default: return probe_run<Rounder, false, S, 32>;
  }
}

// Of formats that overflow and share no scale.
MIXPREC_INLINE ProbeKernel unscaled_kernel(Method method) {
  using Single = FloatRounder<float, Rounding::nearest_even, true, true>;
  if (method == Method::integer) return probe_run<IntegerRounder<Rounding::nearest_even>, true, Saturation::never, 0>;
  return method == Method::single ? probe_run<Single, true, Saturation::never, 0> : nullptr;
}

// Null where the format, the rounding or the scale has none.
MIXPREC_INLINE ProbeKernel probe_kernel(const ProbeTask& task, Spread spread) {
  if (task.grid.table || task.rounding != Rounding::nearest_even) return nullptr;
  const Method method = method_for(task.grid);
  const bool propagates = !(task.grid.overflow == task.grid.max_value);
  if (task.exact && task.saturation == Saturation::never) return spread == Spread::all ? unscaled_kernel(method) : nullptr;
  if (method != Method::single || propagates) return nullptr;
  switch (task.saturation) {
    case Saturation::never: return probe_kernel_of<Saturation::never>(spread);
    case Saturation::by_scaled: return probe_kernel_of<Saturation::by_scaled>(spread);
    default: return probe_kernel_of<Saturation::by_value>(spread);
  }
}

#else

MIXPREC_INLINE ProbeKernel probe_kernel(const ProbeTask&, Spread) { return nullptr; }

#endif

}  // namespace
