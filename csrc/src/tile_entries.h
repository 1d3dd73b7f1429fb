// The numbers of tiles along a piece of one row, as kernels over runs take them.
#pragma once

#include "level.h"
#include "scales.h"
#include "spread.h"

namespace {

using mixprec::kChunk;
using mixprec::ProbeTask;

// Where the tiles of a piece lie: n columns from column c of row r on.
struct Piece {
  std::int64_t r, c, n;
};

// a / width; most widths are powers of two.
MIXPREC_INLINE std::int64_t over_width(const ProbeTask& task, std::int64_t a) {
  return task.tile_shift >= 0 ? a >> task.tile_shift : a / task.tile_cols;
}

// Whether n elements from `start` on lie in one row.
MIXPREC_INLINE bool in_one_row(const ProbeTask& task, std::int64_t start, std::int64_t n) {
  return start + n <= task.cols || start % task.cols + n <= task.cols;
}

// What elements are multiplied by before and after rounding: one for all, or one per tile from a piece's first on.
struct TileNumbers {
  const float* quantize;
  const float* factor;
};

// Scales of a piece's tiles that are made where they are needed, and entries of its columns.
struct TileRoom {
  alignas(64) float scales[3][kChunk];
  alignas(64) float quantize[kChunk];
  alignas(64) float factor[kChunk];
};

MIXPREC_INLINE TileNumbers tile_numbers(const ProbeTask& task, const Piece& piece, TileRoom& room) {
  if (!task.tiled) return {task.quantize, task.factor};
  const std::int64_t column = over_width(task, piece.c);
  const std::int64_t row = piece.r == 0 ? 0 : piece.r / task.tile_rows;
  const std::int64_t first = row * over_width(task, task.cols + task.tile_cols - 1) + column;
  if (!task.tile_amax) return {task.quantize + first, task.factor + first};
  const std::int64_t tiles = over_width(task, piece.c + piece.n - 1) - column + 1;
  auto& [quantize, scale, outer] = room.scales;
  tile_scales(task.scaling, task.scaling.target, task.tile_amax + first, tiles, {quantize, scale, outer});
  return {quantize, task.scaling.in_carrier ? scale : outer};
}

MIXPREC_INLINE Spread piece_spread(const ProbeTask& task, const Piece& piece) {
  const std::int64_t width = task.tile_cols;
  if (!task.tiled || over_width(task, piece.c) == over_width(task, piece.c + piece.n - 1)) return Spread::all;
  if (width % 32 == 0 && piece.c % 32 == 0) return Spread::thirty_two;
  return width % 16 == 0 && piece.c % 16 == 0 ? Spread::sixteen : Spread::one;
}

// `tiles` as entries: they themselves, or repeated in `room`, which holds as many as the piece has columns.
MIXPREC_INLINE const float* piece_entries(const ProbeTask& task, const Piece& piece, Spread spread, const float* tiles,
                                          float* room) {
  const std::int64_t width = task.tile_cols, step = width_of(spread);
  if (!task.tiled || spread == Spread::all || width == step) return tiles;
  for (std::int64_t i = 0, within = piece.c % width; i * step < piece.n; ++i)
    room[i] = tiles[(within + i * step) / width];
  return room;
}

// The number of its tile for each column of a piece.
MIXPREC_INLINE void spread_over(const ProbeTask& task, const Piece& piece, const float* tiles,
                                float* MIXPREC_RESTRICT entries) {
  const std::int64_t width = task.tile_cols;
  if (width == 1) return void(std::memcpy(entries, tiles, static_cast<std::size_t>(piece.n) * sizeof *entries));
  std::int64_t i = 0, end = smaller(width - piece.c % width, piece.n);
  for (; i < piece.n; end = smaller(end + width, piece.n), ++tiles)
    for (const float number = *tiles; i < end; ++i) entries[i] = number;
}

}  // namespace
