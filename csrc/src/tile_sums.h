// Sums of one number per element over the elements of each tile, in a fixed order: the places of a whole tile, row by
// row and padded with zeros to a power of two, are summed by adding the second half to the first, and so on.
#pragma once

#include "bits.h"

namespace {

// Adds the second half of `count` values to the first, until `left` of them are left.
MIXPREC_INLINE void sum_by_halving(double* values, std::int64_t count, std::int64_t left) {
  for (std::int64_t half = count / 2; half >= left && half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) values[i] += values[half + i];
}

// Of tiles of one row and Width columns, in registers. number(column, tile) gives the numbers.
template <int Width, class Number>
MIXPREC_INLINE void sum_row_tiles(const Number& number, std::int64_t tiles, double* MIXPREC_RESTRICT sums) {
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t c = tile * Width;
    double halves[Width / 2];
    for (int i = 0; i < Width / 2; ++i) halves[i] = number(c + i, tile) + number(c + Width / 2 + i, tile);
    for (int half = Width / 4; half > 2; half /= 2)
      for (int i = 0; i < half; ++i) halves[i] += halves[half + i];
    sums[tile] = (halves[0] + halves[2]) + (halves[1] + halves[3]);
  }
}

// For one row of tiles: `places` numbers each.
class TileSums {
 public:
  TileSums(std::int64_t tile_rows, std::int64_t tile_cols, std::int64_t places, double* room)
      : tile_rows_(tile_rows), tile_cols_(tile_cols), places_(places), room_(room) {}

  // Whether a row of n columns can be summed at once, in registers.
  bool at_once(std::int64_t n) const {
    return tile_rows_ == 1 && (tile_cols_ == 16 || tile_cols_ == 32) && n % tile_cols_ == 0;
  }

  template <class Number>
  MIXPREC_MEMBER void sum_row(const Number& number, std::int64_t n, double* sums) const {
    if (tile_cols_ == 16) return sum_row_tiles<16>(number, n / 16, sums);
    sum_row_tiles<32>(number, n / 32, sums);
  }

  void clear(std::int64_t tiles) const {
    std::memset(room_, 0, static_cast<std::size_t>(tiles * places_) * sizeof *room_);
  }

  // Row r of the tiles, n columns. The numbers of a tile lie together, but for tiles of one column, whose rows do.
  template <class Number>
  MIXPREC_MEMBER void add_row(const Number& number, std::int64_t r, std::int64_t n) const {
    if (tile_cols_ == 1) {
      double* MIXPREC_RESTRICT row = room_ + r * n;
      for (std::int64_t c = 0; c < n; ++c) row[c] = number(c, c);
      return;
    }
    for (std::int64_t c = 0, tile = 0; c < n; c += tile_cols_, ++tile) {
      double* MIXPREC_RESTRICT row = room_ + tile * places_ + r * tile_cols_;
      const std::int64_t width = smaller(tile_cols_, n - c);
      for (std::int64_t i = 0; i < width; ++i) row[i] = number(c + i, tile);
    }
  }

  void sum(std::int64_t tiles, double* sums) const {
    if (tile_cols_ == 1) {
      sum_by_halving(room_, places_ * tiles, tiles);
      std::memcpy(sums, room_, static_cast<std::size_t>(tiles) * sizeof *sums);
      return;
    }
    for (std::int64_t i = 0; i < tiles; ++i) {
      sum_by_halving(room_ + i * places_, places_, 1);
      sums[i] = room_[i * places_];
    }
  }

 private:
  std::int64_t tile_rows_, tile_cols_, places_;
  double* room_;
};

}  // namespace
