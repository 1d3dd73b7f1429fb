// Statistics of one cast, chunk by chunk.
#pragma once

#include "chunk.h"
#include "chunk_sums.h"
#include "limits.h"
#include "philox.h"
#include "prober.h"
#include "tile_entries.h"

namespace {

using mixprec::kTensorSums;
using mixprec::ProbeCounts;

// What a cast makes of a chunk.
struct Rounded {
  alignas(64) float elements[kChunk];
  alignas(64) float values[kChunk];  // magnitudes
  alignas(64) float ones[kChunk];
  alignas(64) float factors[kChunk];
  TileRoom tiles;
  alignas(64) std::uint32_t words[kChunk + 2 * kGroup];
};

// Statistics of one cast.
class ProbeCounter {
 public:
  ProbeCounter(const ProbeTask& task, Rounded& rounded)
      : task_(task), limits_(task.grid), prober_(task, limits_), philox_(task.random), rounded_(rounded) {
    for (int i = 0; i < 4; ++i) kernels_[i] = row_kernel(task.grid, task.rounding, static_cast<Spread>(i));
  }

  // The chunk's sums go to `sums`; those of the tensor are given.
  void count(const Chunk& chunk, ProbeCounts& counts, const double* tensor_sums, double* sums) {
    const bool at_once = prober_.works() && chunk.n == kChunk &&
                         (task_.cols % 32 == 0 || in_one_row(task_, chunk.start, chunk.n));
    const bool exact = at_once && prober_.begin(chunk);
    const Shares shares = at_once ? probe(chunk) : round_and_count(chunk);
    const float* v = rounded_.values;
    if (exact) {
      single_sums(v, sums + kTensorSums);
    } else {
      const double* y = chunk.magnitudes;
      difference_sums([v, y](int i) { return widen_lanes(v + i) - load_lanes(y + i); }, sums + kTensorSums);
    }
    const bool lost = !(sums[kTensorSums + 1] <= 0x1.fffffffffffffp1023);
    if (!chunk.finite || lost || (task_.grid.table && !at_once)) {
      if (at_once) round_and_count(chunk);
      return count_with_care(chunk, counts, sums);
    }
    for (int k = 0; k < kTensorSums; ++k) sums[k] = tensor_sums[k];
    counts.nonzero += chunk.nonzero;
    counts.flushed += chunk.nonzero - shares.nonzero;
    counts.subnormal += shares.small - (kChunk - shares.nonzero);
    counts.saturated += shares.saturated;
  }

 private:
  // body(piece, i): the pieces of rows that a chunk has, and where in it they begin.
  template <class Body>
  MIXPREC_MEMBER void for_pieces(const Chunk& chunk, const Body& body) const {
    const bool in_one_row = chunk.start + chunk.n <= task_.cols;
    Piece piece{in_one_row ? 0 : chunk.start / task_.cols, in_one_row ? chunk.start : chunk.start % task_.cols, 0};
    for (std::int64_t i = 0; i < chunk.n; i += piece.n, ++piece.r, piece.c = 0) {
      piece.n = smaller(task_.cols - piece.c, chunk.n - i);
      body(piece, i);
    }
  }

  // Values of a whole chunk, or their exact differences, without its elements.
  Shares probe(const Chunk& chunk) {
    Shares all{0, 0, 0};
    for_pieces(chunk, [&](const Piece& piece, std::int64_t i) {
      const Spread spread = piece_spread(task_, piece);
      const TileNumbers tiles = tile_numbers(task_, piece, rounded_.tiles);
      const float* quantize = piece_entries(task_, piece, spread, tiles.quantize, rounded_.tiles.quantize);
      const float* factor = piece_entries(task_, piece, spread, tiles.factor, rounded_.tiles.factor);
      const ProbeRun run{(task_.grid.table ? chunk.x : chunk.absolute) + i, rounded_.values + i, piece.n, quantize, factor,
                         task_.second_factor};
      const Shares shares = prober_.run(chunk, {piece, spread, tiles, run});
      all = {all.nonzero + shares.nonzero, all.small + shares.small, all.saturated + shares.saturated};
    });
    return all;
  }

  // Elements and values of a chunk.
  Shares round_and_count(const Chunk& chunk) {
    round(chunk);
    if (task_.tiled) return count_with(chunk, Each{rounded_.factors});
    return count_with(chunk, Same{*task_.factor});
  }

  template <class Factor>
  MIXPREC_MEMBER Shares count_with(const Chunk& chunk, const Factor& factor) {
    const float *x = chunk.x, *q = rounded_.elements;
    if (task_.saturation != Saturation::never)
      return count_shares<true>(limits_, x, q, kChunk, factor, task_.second_factor, rounded_.values);
    return count_shares<false>(limits_, x, q, kChunk, factor, task_.second_factor, rounded_.values);
  }

  // Elements of a chunk and, of tiles, their factors; zeros after its end.
  void round(const Chunk& chunk) {
    const bool stochastic = task_.rounding == Rounding::stochastic;
    const std::uint32_t* words = stochastic ? philox_fill(philox_, chunk.start, chunk.n, rounded_.words) : nullptr;
    for_pieces(chunk, [&](const Piece& piece, std::int64_t i) {
      const Spread spread = piece_spread(task_, piece);
      const TileNumbers tiles = tile_numbers(task_, piece, rounded_.tiles);
      const float* quantize = piece_entries(task_, piece, spread, tiles.quantize, rounded_.tiles.quantize);
      kernels_[static_cast<int>(spread)](task_.grid, {chunk.x + i, rounded_.elements + i, piece.n, quantize,
                                                      rounded_.ones, stochastic ? words + i : nullptr});
      if (task_.tiled) spread_over(task_, piece, tiles.factor, rounded_.factors + i);
    });
    for (std::int64_t i = chunk.n; i < kChunk; ++i) rounded_.elements[i] = rounded_.factors[i] = 0.0f;
  }

  // One element after the other: where some are not finite, before or after, and in long tables.
  void count_with_care(const Chunk& chunk, ProbeCounts& counts, double* sums) {
    alignas(64) double before[kChunk] = {}, after[kChunk] = {};
    for (std::int64_t i = 0; i < chunk.n; ++i) {
      const float y = magnitude(chunk.x[i]), q = rounded_.elements[i];
      if (!(y <= kLargestFinite)) continue;
      const bool nonzero = y != 0.0f, outside = leaves_the_range(q, i), lost = !(rounded_.values[i] <= kLargestFinite);
      const float v = outside ? task_.grid.max_value * factor_of(i) * task_.second_factor : rounded_.values[i];
      counts.nonzero += nonzero ? 1 : 0;
      counts.lost += lost ? 1 : 0;
      counts.saturated += outside || (!lost && beyond_the_end(task_.grid, y, q, v)) ? 1 : 0;
      if (!(v <= kLargestFinite)) continue;
      counts.flushed += nonzero && q == 0.0f ? 1 : 0;
      counts.subnormal += q != 0.0f && (to_bits(q) & kMagnitude) < limits_.normal_bits ? 1 : 0;
      before[i] = static_cast<double>(y);
      after[i] = static_cast<double>(v);
    }
    magnitude_sums(before, sums);
    difference_sums([&](int i) { return load_lanes(after + i) - load_lanes(before + i); }, sums + kTensorSums);
  }

  float factor_of(std::int64_t i) const { return task_.tiled ? rounded_.factors[i] : *task_.factor; }

  // Whether the element of something finite is not, though its scale is: a saturating cast would give the largest number.
  bool leaves_the_range(float q, std::int64_t i) const {
    return !(magnitude(q) <= kLargestFinite) && magnitude(factor_of(i)) <= kLargestFinite;
  }

  ProbeTask task_;
  Limits limits_;
  Prober prober_;
  Philox philox_;
  Rounded& rounded_;
  RowKernel kernels_[4];
};

}  // namespace
