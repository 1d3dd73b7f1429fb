// Sums of squares of chunks of 1,024 elements in fp64, by halving: a[i] + a[i + 512], and so on.
#pragma once

#include "level.h"
#include "load.h"

namespace {

using mixprec::Gradient;
using mixprec::kChunk;

constexpr int kRow = 64;               // of a chunk as a matrix, whose columns are summed first
constexpr int kRows = kChunk / kRow;

MIXPREC_INLINE double square(float x) { return static_cast<double>(x) * static_cast<double>(x); }

// What halving a column of squares leaves at its first place when `Length` places are left.
template <int Length>
MIXPREC_INLINE double halved_column(const float* x) {
  if constexpr (Length == kRows) {
    return square(*x);
  } else {
    return halved_column<2 * Length>(x) + halved_column<2 * Length>(x + Length * kRow);
  }
}

MIXPREC_INLINE double chunk_squares(const float* MIXPREC_RESTRICT x) {
  alignas(64) double sums[kRow];
  for (int i = 0; i < kRow; ++i) sums[i] = halved_column<1>(x + i);
  for (int half = kRow / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

// Chunks [begin, end) of one gradient, the last padded with zeros: one sum each, to sums[begin ..].
void square_chunks(const Gradient& gradient, std::int64_t begin, std::int64_t end, double* sums) {
  alignas(64) float buffer[kChunk];
  const Matrix x{gradient.data, gradient.dtype, 1, gradient.n};
  const std::int64_t size = dtype_size(gradient.dtype);
  const char* after = static_cast<const char*>(gradient.data) + (begin + 1) * kChunk * size;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) {
    const std::int64_t start = chunk * kChunk, n = smaller(kChunk, gradient.n - start);
    for (std::int64_t i = 0; i < kChunk * size; i += kCacheLine) __builtin_prefetch(after + i);
    after += kChunk * size;
    const float* values = load(x, start, n, buffer);
    if (n < kChunk) {
      if (values != buffer) std::memcpy(buffer, values, static_cast<std::size_t>(n) * sizeof *buffer);
      for (std::int64_t i = n; i < kChunk; ++i) buffer[i] = 0.0f;
      values = buffer;
    }
    sums[chunk] = chunk_squares(values);
  }
}

}  // namespace
