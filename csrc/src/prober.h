// The choice of the kernel that probes a piece of a chunk: the quickest that its numbers allow.
#pragma once

#include "chunk.h"
#include "quick_probes.h"
#include "table_probes.h"
#include "tile_entries.h"

namespace {

// One piece of a chunk, whose tiles have the numbers `tiles` (as entries, in `run`).
struct ProbePiece {
  Piece piece;
  Spread spread;
  TileNumbers tiles;
  ProbeRun run;
};

#if defined(MIXPREC_LANES)

class Prober {
 public:
  Prober(const ProbeTask& task, const Limits& limits)
      : task_(task), limits_(limits), grid_(task.grid, limits), table_(table_of(task), task.rounding), quick_(may_be_quick(task)) {
    for (int i = 0; i < 4; ++i) {
      kernels_[i] = probe_kernel(task, static_cast<Spread>(i));
      table_kernels_[i] = table_of(task) ? table_probe(static_cast<Spread>(i)) : nullptr;
    }
  }

  // Whether there are kernels for all that whole chunks may hold.
  bool works() const { return kernels_[0] || table_kernels_[0]; }

  // Looks at a chunk, before its pieces: whether what becomes of its values is exact differences.
  bool begin(const Chunk& chunk) {
    fit_ = Fit::anything;
    if (!quick_ || task_.tiled) return task_.exact;
    const float smallest = chunk.smallest * *task_.quantize, largest = chunk.largest * *task_.quantize;
    if (!(largest < (task_.unscaled ? grid_.beyond : almost_beyond()) && largest < grid_.largest)) return task_.exact;
    const bool plain = (task_.unscaled || task_.second_factor == 1.0f) && in_one_row(task_, chunk.start, chunk.n);
    fit_ = plain && (chunk.nonzero == 0 || smallest >= grid_.least) ? Fit::normal : Fit::inside;
    return task_.unscaled || fit_ == Fit::normal;
  }

  Shares run(const Chunk& chunk, const ProbePiece& given) {
    const int spread = static_cast<int>(given.spread);
    if (table_kernels_[0]) return table_kernels_[spread](table_, task_.grid, given.run);
    const Shares shares = quick_ ? quick(chunk, given) : Shares{-1, 0, 0};
    return shares.nonzero >= 0 ? shares : kernels_[spread](task_.grid, limits_, given.run);
  }

 private:
  enum class Fit { anything, inside, normal };

  static const Table* table_of(const ProbeTask& task) {
    const bool is_short = task.grid.table && task.grid.table->size <= kShortTable;
    return is_short && task.rounding != Rounding::stochastic ? task.grid.table : nullptr;
  }

  static bool may_be_quick(const ProbeTask& task) {
    if (task.grid.table || task.rounding != Rounding::nearest_even || task.grid.mantissa_bits < 1) return false;
    const Method method = method_for(task.grid);
    const int most = task.unscaled || task.exact ? 22 : 10;
    return task.grid.mantissa_bits <= most && (method == Method::single || method == Method::integer);
  }

  // A scaled magnitude below it is not beyond the end, whatever the roundings of its scale and its value.
  float almost_beyond() const { return grid_.beyond * (1.0f - 0x1p-16f); }

  // nonzero is -1 where there is no quick kernel for the piece.
  Shares quick(const Chunk& chunk, const ProbePiece& given) {
    if (!task_.tiled) return untiled(chunk, given);
    if (given.spread == Spread::one) return {-1, 0, 0};
    if (task_.exact) return moved(chunk, given);
    if (!task_.tile_amax || !within(given)) return {-1, 0, 0};
    return quick_kernel<QuickScale::number, true>(given.spread)(grid_, {given.run, nullptr});
  }

  Shares untiled(const Chunk& chunk, const ProbePiece& given) const {
    if (fit_ == Fit::anything) return {-1, 0, 0};
    const bool normal = fit_ == Fit::normal;
    QuickKernel kernel = nullptr;
    if (task_.unscaled) {
      kernel = normal ? quick_run<QuickScale::none, false, 0> : quick_run<QuickScale::none, true, 0>;
    } else {
      kernel = normal ? quick_run<QuickScale::number, false, 0> : quick_run<QuickScale::number, true, 0>;
    }
    return finished(chunk, given, !normal, kernel(grid_, {given.run, nullptr}));
  }

  // Under powers of two.
  Shares moved(const Chunk& chunk, const ProbePiece& given) {
    const std::int64_t entries = given.spread == Spread::all ? 1 : given.run.n / width_of(given.spread);
    float highest = 0.0f;
    if (!move(chunk, given.run.factor, entries, highest)) return {-1, 0, 0};
    const bool normal = given.run.n == kChunk && chunk.nonzero > 0 && chunk.smallest >= highest * grid_.least;
    const QuickKernel kernel = normal ? quick_kernel<QuickScale::power, false>(given.spread)
                                      : quick_kernel<QuickScale::power, true>(given.spread);
    return finished(chunk, given, !normal, kernel(grid_, {given.run, &moved_}));
  }

  // What was not counted of a whole chunk: none of its elements is small but zeros. Integers are never subnormal.
  Shares finished(const Chunk& chunk, const ProbePiece& given, bool counted, Shares shares) const {
    if (!counted) shares.nonzero = static_cast<std::int32_t>(chunk.nonzero - (kChunk - given.run.n));
    if (!counted || task_.grid.integer) shares.small = static_cast<std::int32_t>(given.run.n) - shares.nonzero;
    return shares;
  }

  // The grid under the powers of two of tiles; false where arithmetic under one of them may not be exact.
  bool move(const Chunk& chunk, const float* MIXPREC_RESTRICT powers, std::int64_t entries, float& highest) {
    // Bits, as integers, of positive numbers, which a NaN's are above: so that the loop vectorises.
    const std::uint32_t least = to_bits(grid_.lowest_power);
    std::uint32_t low = kMagnitude, high = 0;
    for (std::int64_t i = 0; i < entries; ++i) {
      const std::uint32_t bits = to_bits(powers[i]), raised = bits < least ? least : bits;
      low = bits < low ? bits : low;
      high = raised > high ? raised : high;
      const float power = from_bits(raised);
      moved_.limit[i] = power * grid_.limit;
      moved_.least[i] = power * grid_.least;
      moved_.beyond[i] = power * grid_.beyond;
    }
    highest = from_bits(high);
    // A tile under a lower power holds zeros alone, or elements that the chunk's smallest is one of.
    const bool zeros = chunk.nonzero == 0 || chunk.smallest >= 4.0f * grid_.lowest_power * grid_.limit;
    return high <= to_bits(grid_.highest_power) && (low >= least || zeros);
  }

  // Whether nothing in the piece's tiles is beyond the end.
  bool within(const ProbePiece& given) const {
    const Piece& piece = given.piece;
    const std::int64_t column = over_width(task_, piece.c);
    const std::int64_t tiles = over_width(task_, piece.c + piece.n - 1) - column + 1;
    const std::int64_t first = piece.r * over_width(task_, task_.cols + task_.tile_cols - 1) + column;
    const std::uint32_t* MIXPREC_RESTRICT amax = task_.tile_amax + first;
    const float* MIXPREC_RESTRICT quantize = given.tiles.quantize;
    const float end = smaller_of(almost_beyond(), grid_.largest);
    std::uint32_t largest = 0;  // bits, which a NaN's are above
    for (std::int64_t i = 0; i < tiles; ++i) {
      const std::uint32_t scaled = to_bits(from_bits(amax[i]) * quantize[i]) & kMagnitude;
      largest = scaled > largest ? scaled : largest;
    }
    return largest < to_bits(end);
  }

  static float smaller_of(float a, float b) { return a < b ? a : b; }

  ProbeTask task_;
  Limits limits_;
  QuickGrid grid_;
  ShortTable table_;
  bool quick_;
  Fit fit_ = Fit::anything;
  MovedGrids moved_;
  ProbeKernel kernels_[4];
  TableKernel table_kernels_[4];
};

#else

class Prober {
 public:
  Prober(const ProbeTask&, const Limits&) {}
  bool works() const { return false; }
  bool begin(const Chunk&) { return false; }
  Shares run(const Chunk&, const ProbePiece&) { return {0, 0, 0}; }
};

#endif

}  // namespace
