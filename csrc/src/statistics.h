// Statistics of a matrix and of casts of it, chunk by chunk: all that is read and made of one stays in the nearest cache.
#pragma once

#include <new>

#include "chunk_sums.h"
#include "exponents.h"
#include "level.h"
#include "limits.h"
#include "load.h"
#include "philox.h"
#include "probe_kernels.h"
#include "tile_entries.h"

namespace {

using mixprec::kProbeSums;
using mixprec::kTensorSums;
using mixprec::ProbeCounts;
using mixprec::ProbeTask;
using mixprec::StatisticsPass;
using mixprec::TensorCounts;

// One chunk of the matrix, zeros after its end.
struct Chunk {
  alignas(64) float room[kChunk];
  alignas(64) float absolute[kChunk];     // 0 where x is not finite
  alignas(64) double magnitudes[kChunk];  // likewise
  const float* x;
  std::int64_t start, n;
  std::int64_t nonzero;
  bool finite;
};

// What a cast makes of a chunk.
struct Rounded {
  alignas(64) float elements[kChunk];
  alignas(64) float values[kChunk];  // magnitudes
  alignas(64) float ones[kChunk];
  alignas(64) float factors[kChunk];
  TileRoom tiles;
  alignas(64) std::uint32_t words[kChunk + 2 * kGroup];
};

// Memory of one thread. What is read from a place that lies a multiple of 4 KiB, and little more, behind one just written
// waits for the writing: the gap keeps values away from the magnitudes that they are made of.
struct Workspace {
  Chunk chunk;
  alignas(64) unsigned char gap[2048];
  Rounded rounded;
};

MIXPREC_INLINE float magnitude(float x) { return from_bits(to_bits(x) & kMagnitude); }

// Asks memory for the chunk after the next: the processor's own prefetchers stop at the end of a page.
MIXPREC_INLINE void fetch_ahead(const Matrix& x, std::int64_t index) {
  const std::int64_t bytes = kChunk * dtype_size(x.dtype);
  const char* from = static_cast<const char*>(x.data) + (index + 2) * bytes;
  for (std::int64_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(from + i);
}

MIXPREC_INLINE void load_chunk(const Matrix& x, std::int64_t index, Chunk& chunk) {
  chunk.start = index * kChunk;
  chunk.n = smaller(kChunk, x.rows * x.cols - chunk.start);
  chunk.x = load(x, chunk.start, chunk.n, chunk.room);
  if (chunk.n == kChunk) return;
  if (chunk.x != chunk.room) std::memcpy(chunk.room, chunk.x, static_cast<std::size_t>(chunk.n) * sizeof *chunk.room);
  for (std::int64_t i = chunk.n; i < kChunk; ++i) chunk.room[i] = 0.0f;
  chunk.x = chunk.room;
}

// What a loop without branches finds in a chunk: bits of its largest magnitude (a NaN's are above all), of its smallest
// one less one, so that zero is above all, and how many are not zero.
struct Range {
  std::uint32_t largest, smallest_less_one;
  std::int32_t nonzero;
};

MIXPREC_INLINE Range range_of(const float* MIXPREC_RESTRICT x) {
  Range range{0, ~0u, 0};
  for (int i = 0; i < kChunk; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude, less = m - 1;
    range.largest = m > range.largest ? m : range.largest;
    range.smallest_less_one = less < range.smallest_less_one ? less : range.smallest_less_one;
    range.nonzero += m != 0 ? 1 : 0;
  }
  return range;
}

// Of a chunk without its infinities and NaN, which are counted.
MIXPREC_INLINE Range finite_range(const float* x, float* MIXPREC_RESTRICT finite, TensorCounts& counts) {
  for (int i = 0; i < kChunk; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude;
    counts.nans += m > kInfinity ? 1 : 0;
    counts.infinities += m == kInfinity ? 1 : 0;
    finite[i] = m < kInfinity ? x[i] : 0.0f;
  }
  return range_of(finite);
}

MIXPREC_INLINE void add_exponents(const Chunk& chunk, const Range& range, Histogram& histogram) {
  if (!chunk.finite || chunk.n < kChunk || range.nonzero == 0) return histogram.add(chunk.x, chunk.n);
  const std::uint32_t low = (range.smallest_less_one + 1) >> 23, high = range.largest >> 23;
  histogram.add_chunk(chunk.x, low, high, static_cast<std::int32_t>(kChunk) - range.nonzero);
}

// Counts a chunk of the matrix itself, whose padding is zeros.
MIXPREC_INLINE void count_tensor(Chunk& chunk, float* room, TensorCounts& counts, Histogram& histogram) {
  const std::int64_t unbounded = counts.nans + counts.infinities;
  Range range = range_of(chunk.x);
  chunk.finite = range.largest < kInfinity;
  if (!chunk.finite) range = finite_range(chunk.x, room, counts);
  const float* finite = chunk.finite ? chunk.x : room;
  for (int i = 0; i < kChunk; ++i) chunk.absolute[i] = magnitude(finite[i]);
  for (int i = 0; i < kChunk; i += kDoubles) store_lanes(widen_lanes(chunk.absolute + i), chunk.magnitudes + i);
  add_exponents(chunk, range, histogram);
  chunk.nonzero = range.nonzero;
  counts.zeros += chunk.n - range.nonzero - (counts.nans + counts.infinities - unbounded);
  counts.amax = range.largest > counts.amax ? range.largest : counts.amax;
  const std::uint32_t smallest = range.smallest_less_one + 1;
  counts.smallest = range.nonzero != 0 && smallest < counts.smallest ? smallest : counts.smallest;
}

// Statistics of one cast.
class ProbeCounter {
 public:
  ProbeCounter(const ProbeTask& task, Rounded& rounded)
      : task_(task), limits_(task.grid), philox_(task.random), rounded_(rounded) {
    for (int i = 0; i < 4; ++i) {
      const auto spread = static_cast<Spread>(i);
      kernels_[i] = row_kernel(task.grid, task.rounding, spread);
      probe_kernels_[i] = probe_kernel(task, spread);
    }
  }

  // The chunk's sums go to `sums`; those of the tensor are given.
  void count(const Chunk& chunk, ProbeCounts& counts, const double* tensor_sums, double* sums) {
    const bool at_once = probe_kernels_[0] && chunk.n == kChunk &&
                         (task_.cols % 32 == 0 || chunk.start % task_.cols + kChunk <= task_.cols);
    const Shares shares = at_once ? probe(chunk) : round_and_count(chunk);
    const float* v = rounded_.values;
    if (at_once && task_.exact) {
      single_sums(v, sums + kTensorSums);
    } else {
      const double* y = chunk.magnitudes;
      difference_sums([v, y](int i) { return widen_lanes(v + i) - load_lanes(y + i); }, sums + kTensorSums);
    }
    const bool lost = !(sums[kTensorSums + 1] <= 0x1.fffffffffffffp1023);
    if (!chunk.finite || lost || task_.grid.table) {
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
      const Shares shares =
          probe_kernels_[static_cast<int>(spread)](task_.grid, limits_, {chunk.absolute + i, rounded_.values + i, piece.n,
                                                                         quantize, factor, task_.second_factor});
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

  // One element after the other: where some are not finite, before or after, and in tables.
  void count_with_care(const Chunk& chunk, ProbeCounts& counts, double* sums) {
    alignas(64) double before[kChunk] = {}, after[kChunk] = {};
    for (std::int64_t i = 0; i < chunk.n; ++i) {
      const float y = magnitude(chunk.x[i]), v = rounded_.values[i], q = rounded_.elements[i];
      if (!(y <= kLargestFinite)) continue;
      const bool nonzero = y != 0.0f, compared = v <= kLargestFinite;
      counts.nonzero += nonzero ? 1 : 0;
      counts.lost += compared ? 0 : 1;
      counts.saturated += (compared ? beyond_the_end(y, q, v) : task_.lost_saturates) ? 1 : 0;
      if (!compared) continue;
      counts.flushed += nonzero && q == 0.0f ? 1 : 0;
      counts.subnormal += q != 0.0f && (to_bits(q) & kMagnitude) < limits_.normal_bits ? 1 : 0;
      before[i] = static_cast<double>(y);
      after[i] = static_cast<double>(v);
    }
    magnitude_sums(before, sums);
    difference_sums([&](int i) { return load_lanes(after + i) - load_lanes(before + i); }, sums + kTensorSums);
  }

  bool beyond_the_end(float y, float q, float v) const {
    const Grid& grid = task_.grid;
    double end = grid.max_value, half_step = end / static_cast<double>(limits_.steps);
    if (grid.table) {
      const float* last = grid.table->values + grid.table->size - 1;
      end = q < 0.0f ? -static_cast<double>(grid.table->values[0]) : static_cast<double>(*last);
      half_step = (static_cast<double>(*last) - static_cast<double>(last[-1])) / 2.0;
    }
    if (static_cast<double>(magnitude(q)) != end) return false;
    return static_cast<double>(y) * end > static_cast<double>(v) * (end + half_step);
  }

  ProbeTask task_;
  Limits limits_;
  Philox philox_;
  Rounded& rounded_;
  RowKernel kernels_[4];
  ProbeKernel probe_kernels_[4];
};

// One for each probe of a pass; they hold what is worked out once.
class ProbeCounters {
 public:
  ProbeCounters(const StatisticsPass& pass, Rounded& rounded)
      : counters_(static_cast<ProbeCounter*>(
            ::operator new(static_cast<std::size_t>(pass.count) * sizeof(ProbeCounter)))) {
    for (int p = 0; p < pass.count; ++p) new (counters_ + p) ProbeCounter(pass.probes[p], rounded);
  }
  ~ProbeCounters() { ::operator delete(counters_); }
  ProbeCounters(const ProbeCounters&) = delete;
  ProbeCounters& operator=(const ProbeCounters&) = delete;
  ProbeCounter& operator[](int p) { return counters_[p]; }

 private:
  ProbeCounter* counters_;
};

void statistics_chunks(const StatisticsPass& pass, std::int64_t begin, std::int64_t end, TensorCounts& tensor,
                       ProbeCounts* probes) {
  Workspace workspace;
  Chunk& chunk = workspace.chunk;
  Rounded& rounded = workspace.rounded;
  Histogram histogram;
  for (float& one : rounded.ones) one = 1.0f;
  ProbeCounters counters(pass, rounded);
  for (std::int64_t index = begin; index < end; ++index) {
    load_chunk(pass.x, index, chunk);
    fetch_ahead(pass.x, index);
    count_tensor(chunk, rounded.values, tensor, histogram);
    double* sums = pass.sums + index * (kTensorSums + pass.count * kProbeSums);
    magnitude_sums(chunk.magnitudes, sums);
    for (int p = 0; p < pass.count; ++p)
      counters[p].count(chunk, probes[p], sums, sums + kTensorSums + p * kProbeSums);
  }
  histogram.flush(tensor.exponents);
}

}  // namespace
