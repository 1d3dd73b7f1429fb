// Sums over a chunk of 1,024 places in fp64, by halving: a[i] + a[i + 512], and so on; several sums at once.
#pragma once

#include "lanes.h"
#include "level.h"

namespace {

using mixprec::kChunk;

constexpr int kColumns = 64;  // of a chunk as a matrix, whose columns are summed first
constexpr int kDepth = kChunk / kColumns;

// What a place, or several in a row, adds to each of N sums.
template <int N>
struct Terms {
  LaneDoubles of[N];
};

// What halving columns leaves at their first places when `Length` places are left. term(i): of place i and the next.
template <int Length, int N, class Term>
MIXPREC_INLINE Terms<N> summed_columns(const Term& term, int i) {
  if constexpr (Length == kDepth) {
    return term(i);
  } else {
    Terms<N> sum = summed_columns<2 * Length, N>(term, i);
    const Terms<N> other = summed_columns<2 * Length, N>(term, i + Length * kColumns);
    for (int k = 0; k < N; ++k) sum.of[k] += other.of[k];
    return sum;
  }
}

template <int N, class Term>
MIXPREC_INLINE void chunk_sums(const Term& term, double* sums) {
  alignas(64) double columns[N][kColumns];
  for (int i = 0; i < kColumns; i += kDoubles) {
    const Terms<N> sum = summed_columns<1, N>(term, i);
    for (int k = 0; k < N; ++k) store_lanes(sum.of[k], columns[k] + i);
  }
  for (int k = 0; k < N; ++k) {
    for (int half = kColumns / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) columns[k][i] += columns[k][i + half];
    sums[k] = columns[k][0];
  }
}

}  // namespace
