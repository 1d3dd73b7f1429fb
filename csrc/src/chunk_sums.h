// Sums over a chunk of 1,024 places in fp64, by halving: a[i] + a[i + 512], and so on; several sums at once.
#pragma once

#include "lanes.h"
#include "level.h"

namespace {

using mixprec::kChunk;

constexpr int kColumns = 64;  // of a chunk as a matrix, whose columns are summed first
constexpr int kDepth = kChunk / kColumns;

// What places, several in a row, add to each of N sums.
template <int N>
struct Terms {
  LaneDoubles of[N];
};

// What halving columns leaves at their first places when `Length` places are left. pair(i, j): the terms of place i and the
// next, added to those of place j and the next.
template <int Length, int N, class Pair>
MIXPREC_INLINE Terms<N> summed_columns(const Pair& pair, int i) {
  if constexpr (2 * Length == kDepth) {
    return pair(i, i + Length * kColumns);
  } else {
    Terms<N> sum = summed_columns<2 * Length, N>(pair, i);
    const Terms<N> other = summed_columns<2 * Length, N>(pair, i + Length * kColumns);
    for (int k = 0; k < N; ++k) sum.of[k] += other.of[k];
    return sum;
  }
}

// Of kColumns numbers, by halving: vectors while there are several, then halves of one.
MIXPREC_INLINE double sum_of_columns(const double* columns) {
  constexpr int kVectors = kColumns / kDoubles;
  LaneDoubles v[kVectors];
  std::memcpy(v, columns, sizeof v);
#pragma GCC unroll 8
  for (int half = kVectors / 2; half > 0; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  return sum_of_halves(v[0]);
}

template <int N, class Pair>
MIXPREC_INLINE void chunk_sums(const Pair& pair, double* sums) {
  alignas(64) double columns[N][kColumns];
  for (int i = 0; i < kColumns; i += kDoubles) {
    const Terms<N> sum = summed_columns<1, N>(pair, i);
    for (int k = 0; k < N; ++k) store_lanes(sum.of[k], columns[k] + i);
  }
  for (int k = 0; k < N; ++k) sums[k] = sum_of_columns(columns[k]);
}

// Sums of fp32 numbers and of their squares, which are exact.
MIXPREC_INLINE void magnitude_sums(const double* y, double* sums) {
  const auto pair = [y](int i, int j) {
    const LaneDoubles a = load_lanes(y + i), b = load_lanes(y + j);
    return Terms<2>{{a + b, add_exact_square(a, b * b)}};
  };
  chunk_sums<2>(pair, sums);
}

// Of differences: sums of their squares, of their magnitudes, and of themselves. difference(i): of place i and the next.
template <class Difference>
MIXPREC_INLINE void difference_sums(const Difference& difference, double* sums) {
  const auto pair = [&](int i, int j) {
    const LaneDoubles a = difference(i), b = difference(j), sum = a + b;
    return Terms<3>{{a * a + b * b, sum_of_magnitudes(a, b, sum), sum}};
  };
  chunk_sums<3>(pair, sums);
}

// The same of fp32 numbers, whose squares are exact.
MIXPREC_INLINE void single_sums(const float* differences, double* sums) {
  const auto pair = [differences](int i, int j) {
    const LaneDoubles a = widen_lanes(differences + i), b = widen_lanes(differences + j), sum = a + b;
    return Terms<3>{{add_exact_square(a, b * b), sum_of_magnitudes(a, b, sum), sum}};
  };
  chunk_sums<3>(pair, sums);
}

}  // namespace
