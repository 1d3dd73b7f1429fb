// Statistics of a matrix and of casts of it, chunk by chunk: all that is read and made of one stays in the nearest cache.
#pragma once

#include <new>

#include "chunk_sums.h"
#include "level.h"
#include "load.h"
#include "philox.h"
#include "row_kernels.h"
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
  const float* x;
  alignas(64) float room[kChunk];
  alignas(64) double magnitudes[kChunk];  // 0 where x is not finite
  std::int64_t start, n;
  std::int64_t nonzero;
  bool finite;
};

// What a cast makes of a chunk.
struct Rounded {
  alignas(64) float elements[kChunk];
  alignas(64) float values[kChunk];  // magnitudes
  alignas(64) float ones[kChunk];
  alignas(64) float quantize[kChunk];
  alignas(64) float factors[kChunk];
  alignas(64) std::uint32_t words[kChunk + 2 * kGroup];
};

MIXPREC_INLINE float magnitude(float x) { return from_bits(to_bits(x) & kMagnitude); }

// Counts of exponents, in several places each: neighbours mostly have the same, and a count that was just written is
// slow to read.
class Histogram {
 public:
  void add(const float* x, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + kPlaces <= n; i += kPlaces)
      for (int k = 0; k < kPlaces; ++k) ++counts_[k][to_bits(x[i + k]) >> 23 & 255u];
    for (; i < n; ++i) ++counts_[0][to_bits(x[i]) >> 23 & 255u];
  }

  void flush(std::int64_t* totals) {
    for (int e = 0; e < 256; ++e)
      for (auto& counts : counts_) {
        totals[e] += counts[e];
        counts[e] = 0;
      }
  }

 private:
  static constexpr int kPlaces = 8;
  std::uint32_t counts_[kPlaces][256] = {};
};

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

// Counts a chunk of the matrix itself, whose padding is zeros.
MIXPREC_INLINE void count_tensor(Chunk& chunk, float* room, TensorCounts& counts) {
  const std::int64_t unbounded = counts.nans + counts.infinities;
  Range range = range_of(chunk.x);
  chunk.finite = range.largest < kInfinity;
  if (!chunk.finite) range = finite_range(chunk.x, room, counts);
  const float* MIXPREC_RESTRICT finite = chunk.finite ? chunk.x : room;
  for (int i = 0; i < kChunk; ++i) chunk.magnitudes[i] = static_cast<double>(magnitude(finite[i]));
  chunk.nonzero = range.nonzero;
  counts.zeros += chunk.n - range.nonzero - (counts.nans + counts.infinities - unbounded);
  counts.amax = range.largest > counts.amax ? range.largest : counts.amax;
  const std::uint32_t smallest = range.smallest_less_one + 1;
  counts.smallest = range.nonzero != 0 && smallest < counts.smallest ? smallest : counts.smallest;
}

// When an element is subnormal, and when it is saturated; of formats that are no tables in fp32, for there |v| and |y|
// are near each other or far from the limit: with |y| - |v| exact, or so large that its rounding decides nothing.
struct Limits {
  std::uint32_t normal_bits;  // smallest normal magnitude; 1: there are no subnormals
  std::uint32_t end_bits;
  float steps;  // how many half steps the end is

  explicit Limits(const Grid& grid)
      : normal_bits(1), end_bits(to_bits(grid.max_value)), steps(0.0f) {
    if (grid.table) return;
    if (!grid.integer) normal_bits = to_bits(static_cast<float>(power_of_two<double>(grid.min_exponent)));
    const int half_step = grid.max_exponent - grid.mantissa_bits - 1;
    steps = static_cast<float>(static_cast<double>(grid.max_value) * power_of_two<double>(-half_step));
  }
};

struct Shares {
  std::int32_t nonzero, small, saturated;  // small: below the smallest normal one, zeros among them
};

// Values and counts of a chunk: magnitudes of rounded elements times two factors.
template <class Factor>
MIXPREC_INLINE Shares count_shares(const Limits& limits, const float* MIXPREC_RESTRICT x,
                                   const float* MIXPREC_RESTRICT q, const Factor& factor, float second,
                                   float* MIXPREC_RESTRICT values) {
  const std::uint32_t normal = limits.normal_bits, end = limits.end_bits;
  const float steps = limits.steps;
  std::int32_t nonzero = 0, small = 0, saturated = 0;
  for (int i = 0; i < kChunk; ++i) {
    const std::uint32_t m = to_bits(q[i]) & kMagnitude;
    const float v = from_bits(m) * factor[i] * second;
    const bool beyond = (magnitude(x[i]) - v) * steps > v;
    values[i] = v;
    nonzero += m != 0 ? 1 : 0;
    small += m < normal ? 1 : 0;
    saturated += (beyond & (m == end)) ? 1 : 0;
  }
  return {nonzero, small, saturated};
}

// Statistics of one cast.
class ProbeCounter {
 public:
  ProbeCounter(const ProbeTask& task, Rounded& rounded)
      : task_(task), limits_(task.grid), philox_(task.random), rounded_(rounded) {
    for (int spread = 0; spread < 4; ++spread)
      kernels_[spread] = row_kernel(task.grid, task.rounding, static_cast<Spread>(spread));
  }

  // The chunk's sums go to `sums`; those of the tensor are given.
  void count(const Chunk& chunk, ProbeCounts& counts, const double* tensor_sums, double* sums) {
    round(chunk);
    const Shares shares = task_.tiled ? count_with(chunk, Each{rounded_.factors}) : count_with(chunk, Same{*task_.factor});
    const float* MIXPREC_RESTRICT v = rounded_.values;
    const double* MIXPREC_RESTRICT y = chunk.magnitudes;
    const auto term = [v, y](int i) {
      const double d = static_cast<double>(v[i]) - y[i];
      return Terms<3>{{d * d, __builtin_fabs(d), d}};
    };
    chunk_sums<3>(term, sums + kTensorSums);
    const bool lost = !(sums[kTensorSums + 1] <= 0x1.fffffffffffffp1023);
    if (!chunk.finite || lost || task_.grid.table) return count_with_care(chunk, counts, sums);
    for (int k = 0; k < kTensorSums; ++k) sums[k] = tensor_sums[k];
    counts.nonzero += chunk.nonzero;
    counts.flushed += chunk.nonzero - shares.nonzero;
    counts.subnormal += shares.small - (kChunk - shares.nonzero);
    counts.saturated += shares.saturated;
  }

 private:
  template <class Factor>
  MIXPREC_MEMBER Shares count_with(const Chunk& chunk, const Factor& factor) {
    return count_shares(limits_, chunk.x, rounded_.elements, factor, task_.second_factor, rounded_.values);
  }

  // Elements of a chunk and, of tiles, their factors; zeros after its end.
  void round(const Chunk& chunk) {
    const bool stochastic = task_.rounding == Rounding::stochastic;
    const std::uint32_t* words = stochastic ? philox_fill(philox_, chunk.start, chunk.n, rounded_.words) : nullptr;
    Piece piece{chunk.start / task_.cols, chunk.start % task_.cols, 0};
    for (std::int64_t i = 0; i < chunk.n; i += piece.n, ++piece.r, piece.c = 0) {
      piece.n = smaller(task_.cols - piece.c, chunk.n - i);
      const Spread spread = piece_spread(task_, piece);
      const float* quantize = piece_entries(task_, piece, spread, task_.quantize, rounded_.quantize);
      kernels_[static_cast<int>(spread)](task_.grid, {chunk.x + i, rounded_.elements + i, piece.n, quantize,
                                                      rounded_.ones, stochastic ? words + i : nullptr});
      if (task_.tiled) spread_over(task_, piece, task_.factor, rounded_.factors + i);
    }
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
    const auto term = [&](int i) {
      const double d = after[i] - before[i];
      return Terms<kProbeSums>{{before[i], before[i] * before[i], d * d, __builtin_fabs(d), d}};
    };
    chunk_sums<kProbeSums>(term, sums);
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
  Chunk chunk;
  Rounded rounded;
  Histogram histogram;
  for (float& one : rounded.ones) one = 1.0f;
  ProbeCounters counters(pass, rounded);
  for (std::int64_t index = begin; index < end; ++index) {
    load_chunk(pass.x, index, chunk);
    histogram.add(chunk.x, chunk.n);
    count_tensor(chunk, rounded.values, tensor);
    const double* y = chunk.magnitudes;
    double* sums = pass.sums + index * (kTensorSums + pass.count * kProbeSums);
    chunk_sums<kTensorSums>([y](int i) { return Terms<kTensorSums>{{y[i], y[i] * y[i]}}; }, sums);
    for (int p = 0; p < pass.count; ++p)
      counters[p].count(chunk, probes[p], sums, sums + kTensorSums + p * kProbeSums);
  }
  histogram.flush(tensor.exponents);
}

}  // namespace
