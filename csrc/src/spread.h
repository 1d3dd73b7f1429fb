// How the numbers of tiles lie along a row: kernels take one for all, one per element, or one per 16 or 32 of them.
#pragma once

#include "bits.h"

namespace {

// How many neighbours along a row share an entry; `all` of them do.
enum class Spread { all, one, sixteen, thirty_two };

// For tiles of `tile_cols` in panels of `panel_cols`: `all` where one tile covers the panel.
MIXPREC_INLINE Spread spread_of(std::int64_t tile_cols, std::int64_t panel_cols) {
  if (tile_cols >= panel_cols) return Spread::all;
  if (tile_cols % 32 == 0) return Spread::thirty_two;
  return tile_cols % 16 == 0 ? Spread::sixteen : Spread::one;
}

MIXPREC_INLINE std::int64_t width_of(Spread spread) {
  if (spread == Spread::sixteen) return 16;
  return spread == Spread::thirty_two ? 32 : 1;
}

// Index of the entry that column c of a run looks at.
MIXPREC_INLINE std::int64_t entry_of(Spread spread, std::int64_t c) {
  return spread == Spread::all ? 0 : c / width_of(spread);
}

// The numbers of tiles as entries: they themselves, or repeated in `room`.
MIXPREC_INLINE const float* spread_tiles(const float* tiles, Spread spread, std::int64_t tile_cols, std::int64_t n,
                                         float* room) {
  const std::int64_t width = width_of(spread);
  if (spread == Spread::all || tile_cols == width) return tiles;
  const std::int64_t entries = ceil_div(n, width), repeats = tile_cols / width;
  for (std::int64_t i = 0, tile = 0; i < entries; i += repeats, ++tile)
    for (std::int64_t j = i; j < smaller(i + repeats, entries); ++j) room[j] = tiles[tile];
  return room;
}

// As entries of one column each: in every `tile_cols` columns, `interleaved` tiles that alternate.
MIXPREC_INLINE const float* spread_interleaved(const float* tiles, std::int64_t interleaved, std::int64_t tile_cols,
                                               std::int64_t n, float* room) {
  for (std::int64_t c = 0; c < n; c += tile_cols, tiles += interleaved) {
    const std::int64_t width = smaller(tile_cols, n - c);
    std::memcpy(room + c, tiles, static_cast<std::size_t>(interleaved) * sizeof *room);
    // What is there is repeated, twice as much each time.
    for (std::int64_t filled = interleaved; filled < width; filled *= 2)
      std::memcpy(room + c + filled, room + c,
                  static_cast<std::size_t>(smaller(filled, width - filled)) * sizeof *room);
  }
  return room;
}

}  // namespace
