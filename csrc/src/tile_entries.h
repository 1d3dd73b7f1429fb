// The numbers of tiles along a piece of one row, as kernels over runs take them.
#pragma once

#include "level.h"
#include "spread.h"

namespace {

using mixprec::ProbeTask;

// Where the tiles of a piece lie: n columns from column c of row r on.
struct Piece {
  std::int64_t r, c, n;
};

MIXPREC_INLINE Spread piece_spread(const ProbeTask& task, const Piece& piece) {
  const std::int64_t width = task.tile_cols;
  if (!task.tiled || piece.c / width == (piece.c + piece.n - 1) / width) return Spread::all;
  if (width % 32 == 0 && piece.c % 32 == 0) return Spread::thirty_two;
  return width % 16 == 0 && piece.c % 16 == 0 ? Spread::sixteen : Spread::one;
}

MIXPREC_INLINE const float* row_of_tiles(const ProbeTask& task, const Piece& piece, const float* numbers) {
  return numbers + piece.r / task.tile_rows * ceil_div(task.cols, task.tile_cols);
}

// `numbers`: one, or one per tile; `room` holds as many as the piece has columns.
MIXPREC_INLINE const float* piece_entries(const ProbeTask& task, const Piece& piece, Spread spread,
                                          const float* numbers, float* room) {
  if (!task.tiled) return numbers;
  const std::int64_t width = task.tile_cols, step = spread == Spread::all ? width : width_of(spread);
  const float* tiles = row_of_tiles(task, piece, numbers);
  if (spread == Spread::all || width == step) return tiles + piece.c / width;
  for (std::int64_t i = 0; i * step < piece.n; ++i) room[i] = tiles[(piece.c + i * step) / width];
  return room;
}

// The number of its tile for each column of a piece.
MIXPREC_INLINE void spread_over(const ProbeTask& task, const Piece& piece, const float* numbers,
                                float* MIXPREC_RESTRICT entries) {
  const float* tile = row_of_tiles(task, piece, numbers) + piece.c / task.tile_cols;
  const std::int64_t width = task.tile_cols;
  if (width == 1) return void(std::memcpy(entries, tile, static_cast<std::size_t>(piece.n) * sizeof *entries));
  std::int64_t i = 0, end = smaller(width - piece.c % width, piece.n);
  for (; i < piece.n; end = smaller(end + width, piece.n), ++tile)
    for (const float number = *tile; i < end; ++i) entries[i] = number;
}

}  // namespace
