// A chunk of a matrix that statistics are taken of, and what is counted of the chunk itself.
#pragma once

#include "exponents.h"
#include "level.h"
#include "lanes.h"
#include "load.h"

namespace {

using mixprec::TensorCounts;

// One chunk of the matrix, zeros after its end.
struct Chunk {
  alignas(64) float room[kChunk];
  alignas(64) float absolute[kChunk];     // 0 where x is not finite
  alignas(64) double magnitudes[kChunk];  // likewise
  const float* x;
  std::int64_t start, n;
  std::int64_t nonzero;
  float largest, smallest;  // finite magnitudes; smallest, but for zeros: anything where all are
  bool finite;
};

MIXPREC_INLINE float magnitude(float x) { return from_bits(to_bits(x) & kMagnitude); }

// Asks memory for one of several parts of the chunk after the next: the processor's own prefetchers stop at the end of a
// page, and it waits if it is asked for all at once.
MIXPREC_INLINE void fetch_ahead(const Matrix& x, std::int64_t index, std::int64_t part, std::int64_t parts) {
  const std::int64_t lines = kChunk * dtype_size(x.dtype) / kCacheLine;
  const char* from = static_cast<const char*>(x.data) + (index + 2) * lines * kCacheLine;
  for (std::int64_t i = part * lines / parts; i < (part + 1) * lines / parts; ++i) __builtin_prefetch(from + i * kCacheLine);
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
  chunk.largest = from_bits(range.largest);
  chunk.smallest = from_bits(range.smallest_less_one + 1);
  counts.zeros += chunk.n - range.nonzero - (counts.nans + counts.infinities - unbounded);
  counts.amax = range.largest > counts.amax ? range.largest : counts.amax;
  const std::uint32_t smallest = range.smallest_less_one + 1;
  counts.smallest = range.nonzero != 0 && smallest < counts.smallest ? smallest : counts.smallest;
}

}  // namespace
