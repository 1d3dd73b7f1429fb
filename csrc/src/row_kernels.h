// Rounding a run of consecutive elements of one row, for every way that scales lie along it, and the choice of
// the rounder: the only indirect call, once per run.
#pragma once

#include "rounding.h"
#include "spread.h"
#include "table.h"

namespace {

// x, y: n elements; quantize, scale: what elements are multiplied by before and after; words: random words
// (stochastic only).
struct Run1d {
  const float* x;
  float* y;
  std::int64_t n;
  const float* quantize;
  const float* scale;
  const std::uint32_t* words;
};

// An entry that holds for a whole run, or one per element.
struct Same {
  float value;
  MIXPREC_MEMBER float operator[](std::int64_t) const { return value; }
  MIXPREC_MEMBER LaneFloats lanes(std::int64_t) const { return all_lanes(value); }
};
struct Each {
  const float* MIXPREC_RESTRICT values;
  MIXPREC_MEMBER float operator[](std::int64_t i) const { return values[i]; }
  MIXPREC_MEMBER LaneFloats lanes(std::int64_t i) const { return load_lanes(values + i); }
};

// y = round(x * quantize) * scale
template <class Rounder, bool Stochastic, class Entry>
MIXPREC_INLINE void round_run(const Rounder& rounder, const float* MIXPREC_RESTRICT x, float* MIXPREC_RESTRICT y,
                              std::int64_t n, const Entry& quantize, const Entry& scale,
                              const std::uint32_t* MIXPREC_RESTRICT words) {
  std::int64_t i = 0;
#if defined(MIXPREC_LANES)
  if constexpr (Rounder::has_lanes) {
    for (; i + kLanes <= n; i += kLanes) {
      const LaneBits w = Stochastic ? load_lanes(words + i) : LaneBits{};
      store_lanes(rounder.lanes(load_lanes(x + i) * quantize.lanes(i), w) * scale.lanes(i), y + i);
    }
  }
#endif
  for (; i < n; ++i) y[i] = rounder(x[i] * quantize[i], Stochastic ? words[i] : 0u) * scale[i];
}

// One scale for the run.
template <class Rounder, bool Stochastic>
void uniform(const Grid& grid, const Run1d& run) {
  round_run<Rounder, Stochastic>(Rounder(grid), run.x, run.y, run.n, Same{*run.quantize}, Same{*run.scale}, run.words);
}

// One scale per element.
template <class Rounder, bool Stochastic>
void columns(const Grid& grid, const Run1d& run) {
  round_run<Rounder, Stochastic>(Rounder(grid), run.x, run.y, run.n, Each{run.quantize}, Each{run.scale}, run.words);
}

// One scale per Width elements, the last block possibly narrower.
template <class Rounder, bool Stochastic, int Width>
void fixed_blocks(const Grid& grid, const Run1d& given) {
  const Rounder rounder(grid);
  const Run1d run = given;  // which the results could otherwise overlap, for all that the compiler knows
  const auto round_block = [&](std::int64_t i, std::int64_t n) {
    round_run<Rounder, Stochastic>(rounder, run.x + i, run.y + i, n, Same{run.quantize[i / Width]},
                                   Same{run.scale[i / Width]}, Stochastic ? run.words + i : nullptr);
  };
  std::int64_t i = 0;
  for (; i + Width <= run.n; i += Width) round_block(i, Width);
  if (i < run.n) round_block(i, run.n - i);
}

// One scale per Width elements (0: one for all), numbers of a table.
template <Rounding R, int Width>
void in_table(const Grid& grid, const Run1d& run) {
  const TableSteps steps(*grid.table, R);
  const auto entry = [](std::int64_t i) { return Width == 0 ? 0 : i / (Width == 0 ? 1 : Width); };
  for (std::int64_t i = 0; i < run.n; ++i) run.y[i] = run.x[i] * run.quantize[entry(i)];
  round_in_table(*grid.table, steps, R, run.y, run.n, run.words);
  for (std::int64_t i = 0; i < run.n; ++i) run.y[i] *= run.scale[entry(i)];
}

using RowKernel = void (*)(const Grid&, const Run1d&);

template <class Rounder, Rounding R>
RowKernel row_kernel_of(Spread spread) {
  constexpr bool s = R == Rounding::stochastic;
  switch (spread) {
    case Spread::all: return uniform<Rounder, s>;
    case Spread::one: return columns<Rounder, s>;
    case Spread::sixteen: return fixed_blocks<Rounder, s, 16>;
    default: return fixed_blocks<Rounder, s, 32>;
  }
}

template <Rounding R>
RowKernel table_kernel(Spread spread) {
  switch (spread) {
    case Spread::all: return in_table<R, 0>;
    case Spread::one: return in_table<R, 1>;
    case Spread::sixteen: return in_table<R, 16>;
    default: return in_table<R, 32>;
  }
}

template <Rounding R>
RowKernel single_kernel(const Grid& grid, Spread spread) {
  const bool propagate = !(grid.overflow == grid.max_value);
  if (grid.negative_zero)
    return propagate ? row_kernel_of<FloatRounder<float, R, true, true>, R>(spread)
                     : row_kernel_of<FloatRounder<float, R, false, true>, R>(spread);
  return propagate ? row_kernel_of<FloatRounder<float, R, true, false>, R>(spread)
                   : row_kernel_of<FloatRounder<float, R, false, false>, R>(spread);
}

template <Rounding R>
RowKernel row_kernel_for(const Grid& grid, Spread spread) {
  if (grid.table) return table_kernel<R>(spread);
  switch (method_for(grid)) {
    case Method::integer: return row_kernel_of<IntegerRounder<R>, R>(spread);
    case Method::single: return single_kernel<R>(grid, spread);
    case Method::wide: break;
  }
  if (grid.negative_zero) return row_kernel_of<FloatRounder<double, R, true, true>, R>(spread);
  return row_kernel_of<FloatRounder<double, R, true, false>, R>(spread);
}

MIXPREC_INLINE RowKernel row_kernel(const Grid& grid, Rounding rounding, Spread spread) {
  switch (rounding) {
    case Rounding::toward_zero: return row_kernel_for<Rounding::toward_zero>(grid, spread);
    case Rounding::stochastic: return row_kernel_for<Rounding::stochastic>(grid, spread);
    case Rounding::nearest_even: break;
  }
  return row_kernel_for<Rounding::nearest_even>(grid, spread);
}

}  // namespace
