// The choice between two scales of a tile, by the squared error that each leaves.
#pragma once

#include "bits.h"

namespace {

// Of a row of n columns across tiles of `tile_cols`: (element * compared - x * above)^2, to `squares`, where tiles lie
// `places` apart.
struct ErrorRow {
  const float* x;
  const float* elements;
  std::int64_t n;
  const float* compared;  // per tile
  double above;
};

MIXPREC_INLINE void square_errors(const float* MIXPREC_RESTRICT x, const float* MIXPREC_RESTRICT elements,
                                  std::int64_t n, double compared, double above, double* MIXPREC_RESTRICT squares) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(elements[i]) * compared - static_cast<double>(x[i]) * above;
    squares[i] = d * d;
  }
}

MIXPREC_INLINE void square_error_row(const ErrorRow& row, std::int64_t tile_cols, std::int64_t places,
                                     double* squares) {
  for (std::int64_t c = 0, tile = 0; c < row.n; c += tile_cols, ++tile)
    square_errors(row.x + c, row.elements + c, smaller(tile_cols, row.n - c), static_cast<double>(row.compared[tile]),
                  row.above, squares + tile * places);
}

// Sum of n values (a power of two), which are overwritten: the second half is added to the first, and so on.
MIXPREC_INLINE double sum_by_halving(double* values, std::int64_t n) {
  for (std::int64_t half = n / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) values[i] += values[half + i];
  return values[0];
}

// The same for one row of whole tiles of 1 x 16, in registers.
MIXPREC_INLINE void errors_of_sixteens(const ErrorRow& row, double* MIXPREC_RESTRICT errors) {
  for (std::int64_t tile = 0; tile < row.n / 16; ++tile) {
    double squares[16];
    square_errors(row.x + 16 * tile, row.elements + 16 * tile, 16, static_cast<double>(row.compared[tile]), row.above,
                  squares);
    for (int i = 0; i < 8; ++i) squares[i] += squares[8 + i];
    for (int i = 0; i < 4; ++i) squares[i] += squares[4 + i];
    errors[tile] = (squares[0] + squares[2]) + (squares[1] + squares[3]);
  }
}

}  // namespace
