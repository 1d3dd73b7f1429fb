// The choice between two scales of a tile, by the squared error that each leaves.
#pragma once

#include "bits.h"

namespace {

// One row of n columns across tiles of `tile_cols`: x, and its elements under the scales of a candidate.
struct ErrorRow {
  const float* x;
  std::int64_t n;
  double above;  // x times it is what elements are compared with
};
struct Candidate {
  const float* elements;
  const float* compared;  // per tile: what elements are multiplied by
};

// (element * compared - x * above)^2 for n elements of one tile.
MIXPREC_INLINE void square_errors(const float* MIXPREC_RESTRICT x, const float* MIXPREC_RESTRICT elements,
                                  std::int64_t n, double compared, double above, double* MIXPREC_RESTRICT squares) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(elements[i]) * compared - static_cast<double>(x[i]) * above;
    squares[i] = d * d;
  }
}

// The same across tiles, whose squares lie `places` apart.
MIXPREC_INLINE void square_error_row(const ErrorRow& row, const Candidate& candidate, std::int64_t tile_cols,
                                     std::int64_t places, double* squares) {
  for (std::int64_t c = 0, tile = 0; c < row.n; c += tile_cols, ++tile)
    square_errors(row.x + c, candidate.elements + c, smaller(tile_cols, row.n - c),
                  static_cast<double>(candidate.compared[tile]), row.above, squares + tile * places);
}

// Sum of n values (a power of two), which are overwritten: the second half is added to the first, and so on.
MIXPREC_INLINE double sum_by_halving(double* values, std::int64_t n) {
  for (std::int64_t half = n / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) values[i] += values[half + i];
  return values[0];
}

// Tiles of one column: the row's squares side by side, and sums over `places` rows of n.
MIXPREC_INLINE void square_error_columns(const ErrorRow& row, const Candidate& candidate,
                                         double* MIXPREC_RESTRICT squares) {
  for (std::int64_t i = 0; i < row.n; ++i) {
    const double d = static_cast<double>(candidate.elements[i]) * static_cast<double>(candidate.compared[i]) -
                     static_cast<double>(row.x[i]) * row.above;
    squares[i] = d * d;
  }
}
MIXPREC_INLINE void sum_columns_by_halving(double* squares, std::int64_t places, std::int64_t n, double* errors) {
  for (std::int64_t half = places / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half * n; ++i) squares[i] += squares[half * n + i];
  std::memcpy(errors, squares, static_cast<std::size_t>(n) * sizeof *errors);
}

// Both at once for a whole tile of 1 x 16, in registers. `exact`: x * above.
MIXPREC_INLINE double error_of_sixteen(const double* MIXPREC_RESTRICT exact, const float* MIXPREC_RESTRICT elements,
                                       double compared) {
  double sums[8];
  for (int i = 0; i < 8; ++i) {
    const double a = static_cast<double>(elements[i]) * compared - exact[i];
    const double b = static_cast<double>(elements[8 + i]) * compared - exact[8 + i];
    sums[i] = a * a + b * b;
  }
  for (int i = 0; i < 4; ++i) sums[i] += sums[4 + i];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

// Errors of the tiles of 1 x 16 of a row under each of two candidates.
MIXPREC_INLINE void errors_of_sixteens(const ErrorRow& row, const Candidate (&candidates)[2],
                                       double* MIXPREC_RESTRICT first, double* MIXPREC_RESTRICT second) {
  for (std::int64_t tile = 0; tile < row.n / 16; ++tile) {
    double exact[16];
    for (int i = 0; i < 16; ++i) exact[i] = static_cast<double>(row.x[16 * tile + i]) * row.above;
    first[tile] = error_of_sixteen(exact, candidates[0].elements + 16 * tile,
                                   static_cast<double>(candidates[0].compared[tile]));
    second[tile] = error_of_sixteen(exact, candidates[1].elements + 16 * tile,
                                    static_cast<double>(candidates[1].compared[tile]));
  }
}

}  // namespace
