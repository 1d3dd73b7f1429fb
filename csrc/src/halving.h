// A sum in the order that every backend keeps.
#pragma once

#include <algorithm>
#include <cstdint>

namespace mixprec {

// Padded with zeros to a power of two: half the places are added to the other half, until one is left.
inline double sum_by_halving(double* sums, std::int64_t n) {
  if (n == 0) return 0.0;
  std::int64_t half = 1;
  while (half < n) half *= 2;
  for (half /= 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i + half < n; ++i) sums[i] += sums[i + half];
    n = std::min(n, half);
  }
  return sums[0];
}

// The same of each column of n rows, to the first row.
inline void sum_rows_by_halving(double* sums, std::int64_t n, std::int64_t columns) {
  std::int64_t half = 1;
  while (half < n) half *= 2;
  for (half /= 2; half > 0; half /= 2) {
    const std::int64_t added = std::max(n - half, std::int64_t{0}) * columns;
    for (std::int64_t i = 0; i < added; ++i) sums[i] += sums[half * columns + i];
    n = std::min(n, half);
  }
}

}  // namespace mixprec
