// Statistics of a matrix and of casts of it, chunk by chunk: all that is read and made of one stays in the nearest cache.
#pragma once

#include "chunk_sums.h"
#include "level.h"
#include "load.h"
#include "philox.h"
#include "row_kernels.h"
#include "tile_entries.h"

namespace {

using mixprec::kProbeSums;
using mixprec::ProbeCounts;
using mixprec::ProbeTask;
using mixprec::StatisticsPass;
using mixprec::TensorCounts;

// One chunk of the matrix, zeros after its end.
struct Chunk {
  alignas(64) float x[kChunk];
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
  const float* from = load(x, chunk.start, chunk.n, chunk.x);
  if (from != chunk.x) std::memcpy(chunk.x, from, static_cast<std::size_t>(chunk.n) * sizeof *chunk.x);
  for (std::int64_t i = chunk.n; i < kChunk; ++i) chunk.x[i] = 0.0f;
}

// Counts a chunk of the matrix itself, whose padding is zeros.
MIXPREC_INLINE void count_tensor(Chunk& chunk, TensorCounts& counts) {
  std::uint32_t amax = 0, smallest = kInfinity - 1;  // the smallest less one, so that a zero is the largest of all
  std::int32_t nonzero = 0, nans = 0, unbounded = 0;
  for (int i = 0; i < kChunk; ++i) {
    const std::uint32_t m = to_bits(chunk.x[i]) & kMagnitude;
    const std::uint32_t finite = m < kInfinity ? m : 0u;
    amax = finite > amax ? finite : amax;
    smallest = finite - 1 < smallest ? finite - 1 : smallest;
    nonzero += finite != 0 ? 1 : 0;
    nans += m > kInfinity ? 1 : 0;
    unbounded += m >= kInfinity ? 1 : 0;
    chunk.magnitudes[i] = static_cast<double>(from_bits(finite));
  }
  chunk.nonzero = nonzero;
  chunk.finite = unbounded == 0;
  counts.zeros += chunk.n - nonzero - unbounded;
  counts.nans += nans;
  counts.infinities += unbounded - nans;
  counts.amax = amax > counts.amax ? amax : counts.amax;
  counts.smallest = smallest + 1 < counts.smallest ? smallest + 1 : counts.smallest;
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

// Values and counts of a run: rounded elements times two factors.
template <class Factor>
MIXPREC_INLINE void count_run(const Limits& limits, const float* MIXPREC_RESTRICT x, const float* MIXPREC_RESTRICT q,
                              std::int64_t n, const Factor& factor, float second, float* MIXPREC_RESTRICT values,
                              Shares& shares) {
  std::int32_t nonzero = 0, small = 0, saturated = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(q[i]) & kMagnitude;
    const float v = from_bits(m) * factor[i] * second;
    values[i] = v;
    nonzero += m != 0 ? 1 : 0;
    small += m < limits.normal_bits ? 1 : 0;
    saturated += (m == limits.end_bits) & ((magnitude(x[i]) - v) * limits.steps > v) ? 1 : 0;
  }
  shares.nonzero += nonzero;
  shares.small += small;
  shares.saturated += saturated;
}

template <int Width>
MIXPREC_INLINE void count_blocks(const Limits& limits, const float* x, const float* q, std::int64_t n,
                                 const float* factors, float second, float* values, Shares& shares) {
  std::int64_t i = 0;
  for (; i + Width <= n; i += Width)
    count_run(limits, x + i, q + i, Width, Same{factors[i / Width]}, second, values + i, shares);
  if (i < n) count_run(limits, x + i, q + i, n - i, Same{factors[i / Width]}, second, values + i, shares);
}

// Statistics of one cast.
class ProbeCounter {
 public:
  ProbeCounter(const ProbeTask& task, Rounded& rounded)
      : task_(task), limits_(task.grid), philox_(task.random), rounded_(rounded) {
    for (int spread = 0; spread < 4; ++spread)
      kernels_[spread] = row_kernel(task.grid, task.rounding, static_cast<Spread>(spread));
  }

  // The chunk's sums go to sums[k * stride].
  void count(const Chunk& chunk, ProbeCounts& counts, double* sums, std::int64_t stride, const double* tensor_sums) {
    Shares shares{0, 0, 0};
    round(chunk, shares);
    const float* MIXPREC_RESTRICT v = rounded_.values;
    const double* MIXPREC_RESTRICT y = chunk.magnitudes;
    const auto term = [v, y](int i) {
      const double d = static_cast<double>(v[i]) - y[i];
      return Terms<3>{{d * d, __builtin_fabs(d), d}};
    };
    chunk_sums<3>(term, sums + 2 * stride, stride);
    const bool lost = !(sums[3 * stride] <= 0x1.fffffffffffffp1023);
    if (!chunk.finite || lost || task_.grid.table) return count_with_care(chunk, counts, sums, stride);
    sums[0] = tensor_sums[0];
    sums[stride] = tensor_sums[stride];
    counts.nonzero += chunk.nonzero;
    counts.flushed += chunk.nonzero - shares.nonzero;
    counts.subnormal += shares.small - (kChunk - shares.nonzero);
    counts.saturated += shares.saturated;
  }

 private:
  // Elements and magnitudes of values of a chunk; the padding becomes zeros.
  void round(const Chunk& chunk, Shares& shares) {
    const bool stochastic = task_.rounding == Rounding::stochastic;
    const std::uint32_t* words =
        stochastic ? philox_fill(philox_, chunk.start, chunk.n, rounded_.words) : nullptr;
    Piece piece{chunk.start / task_.cols, chunk.start % task_.cols, 0};
    for (std::int64_t i = 0; i < chunk.n; i += piece.n, ++piece.r, piece.c = 0) {
      piece.n = smaller(task_.cols - piece.c, chunk.n - i);
      round_piece(chunk.x + i, piece, stochastic ? words + i : nullptr, i, shares);
    }
    for (std::int64_t i = chunk.n; i < kChunk; ++i) rounded_.elements[i] = rounded_.values[i] = 0.0f;
    shares.small += static_cast<std::int32_t>(kChunk - chunk.n);
  }

  void round_piece(const float* x, const Piece& piece, const std::uint32_t* words, std::int64_t i, Shares& shares) {
    const Spread spread = piece_spread(task_, piece);
    const float* quantize = piece_entries(task_, piece, spread, task_.quantize, rounded_.quantize);
    const float* factor = piece_entries(task_, piece, spread, task_.factor, rounded_.factors);
    float* q = rounded_.elements + i;
    float* v = rounded_.values + i;
    kernels_[static_cast<int>(spread)](task_.grid, {x, q, piece.n, quantize, rounded_.ones, words});
    switch (spread) {
      case Spread::all: return count_run(limits_, x, q, piece.n, Same{*factor}, task_.second_factor, v, shares);
      case Spread::one: return count_run(limits_, x, q, piece.n, Each{factor}, task_.second_factor, v, shares);
      case Spread::sixteen: return count_blocks<16>(limits_, x, q, piece.n, factor, task_.second_factor, v, shares);
      default: return count_blocks<32>(limits_, x, q, piece.n, factor, task_.second_factor, v, shares);
    }
  }

  // One element after the other: where some are not finite, before or after, and in tables.
  void count_with_care(const Chunk& chunk, ProbeCounts& counts, double* sums, std::int64_t stride) {
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
    chunk_sums<kProbeSums>(term, sums, stride);
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

// Constructed where it lies: a probe's counter is used again for every chunk.
void statistics_chunks(const StatisticsPass& pass, std::int64_t begin, std::int64_t end, TensorCounts& tensor,
                       ProbeCounts* probes) {
  Chunk chunk;
  Rounded rounded;
  Histogram histogram;
  for (float& one : rounded.ones) one = 1.0f;
  for (std::int64_t index = begin; index < end; ++index) {
    load_chunk(pass.x, index, chunk);
    histogram.add(chunk.x, chunk.n);
    count_tensor(chunk, tensor);
    const double* y = chunk.magnitudes;
    double* sums = pass.sums + index;
    chunk_sums<2>([y](int i) { return Terms<2>{{y[i], y[i] * y[i]}}; }, sums, pass.chunks);
    for (int p = 0; p < pass.count; ++p) {
      ProbeCounter counter(pass.probes[p], rounded);
      double* own = sums + (mixprec::kTensorSums + p * kProbeSums) * pass.chunks;
      counter.count(chunk, probes[p], own, pass.chunks, sums);
    }
  }
  histogram.flush(tensor.exponents);
}

}  // namespace
