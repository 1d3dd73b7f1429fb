// Tiles that share a scale: largest magnitudes, scales, rounding, over panels that stay in the nearest cache.
#pragma once

#include "level.h"
#include "load.h"
#include "philox.h"
#include "row_kernels.h"
#include "scales.h"

namespace {

using mixprec::BlockTask;
using mixprec::kMaxBlock;
using mixprec::Random;
using mixprec::Rect;

constexpr std::int64_t kPiece = 1024;  // elements of a row that are handled at once; fits the nearest cache

// Scratch of one call, about 100 KiB of stack.
struct Scratch {
  alignas(64) float widened[kMaxBlock];
  alignas(64) float result[kMaxBlock];
  alignas(64) std::uint32_t words[kMaxBlock + 2 * kGroup];
  alignas(64) std::uint32_t amax[kMaxBlock];
  alignas(64) std::uint32_t column_amax[kMaxBlock];
  alignas(64) float quantize[kMaxBlock];
  alignas(64) float scale[kMaxBlock];
};

// Where a run's results go first, and how they leave.
MIXPREC_INLINE float* result_place(float* target, bool past_caches, Scratch& scratch) {
  return past_caches ? scratch.result : target;
}
MIXPREC_INLINE void result_leave(float* target, std::int64_t n, bool past_caches, const Scratch& scratch) {
  if (past_caches) store_past_caches(scratch.result, n, target);
}

MIXPREC_INLINE std::uint32_t amax_run(const float* MIXPREC_RESTRICT x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude;
    largest = m > largest ? m : largest;
  }
  return largest;
}

template <int Width>
MIXPREC_INLINE void amax_fixed_blocks(const float* MIXPREC_RESTRICT x, std::int64_t blocks,
                                      std::uint32_t* MIXPREC_RESTRICT amax) {
  for (std::int64_t b = 0; b < blocks; ++b) amax[b] = amax_run(x + b * Width, Width);
}

// Largest magnitudes of consecutive blocks of `width` in a run of n.
MIXPREC_INLINE void amax_blocks(const float* x, std::int64_t n, std::int64_t width, std::uint32_t* amax) {
  const std::int64_t whole = n / width;
  if (width == 16) {
    amax_fixed_blocks<16>(x, whole, amax);
  } else if (width == 32) {
    amax_fixed_blocks<32>(x, whole, amax);
  } else {
    for (std::int64_t b = 0; b < whole; ++b) amax[b] = amax_run(x + b * width, width);
  }
  if (whole * width < n) amax[whole] = amax_run(x + whole * width, n - whole * width);
}

MIXPREC_INLINE void amax_into_columns(const float* MIXPREC_RESTRICT x, std::int64_t n,
                                      std::uint32_t* MIXPREC_RESTRICT amax) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude;
    amax[i] = m > amax[i] ? m : amax[i];
  }
}

MIXPREC_INLINE std::uint32_t largest_of(const std::uint32_t* MIXPREC_RESTRICT values, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

// Largest magnitudes of the tiles of one panel: one row of tiles, at most kMaxBlock columns.
MIXPREC_INLINE void amax_tiles(const BlockTask& task, const Rect& panel, Scratch& scratch) {
  const std::int64_t n = panel.col_end - panel.col_begin;
  if (panel.row_end - panel.row_begin == 1) {
    const float* x = load(task.x, panel.row_begin * task.x.cols + panel.col_begin, n, scratch.widened);
    amax_blocks(x, n, task.tile_cols, scratch.amax);
    return;
  }
  std::uint32_t* columns = task.tile_cols == 1 ? scratch.amax : scratch.column_amax;
  std::memset(columns, 0, static_cast<std::size_t>(n) * sizeof *columns);
  for (std::int64_t r = panel.row_begin; r < panel.row_end; ++r)
    amax_into_columns(load(task.x, r * task.x.cols + panel.col_begin, n, scratch.widened), n, columns);
  if (task.tile_cols == 1) return;
  for (std::int64_t c = 0, b = 0; c < n; c += task.tile_cols, ++b)
    scratch.amax[b] = largest_of(columns + c, smaller(task.tile_cols, n - c));
}

// Where a panel's first tile lies in an array of all tiles, row by row.
MIXPREC_INLINE std::int64_t tile_index(const BlockTask& task, const Rect& panel) {
  return panel.row_begin / task.tile_rows * ceil_div(task.x.cols, task.tile_cols) + panel.col_begin / task.tile_cols;
}

MIXPREC_INLINE void write_scales(const BlockTask& task, const Rect& panel, std::int64_t blocks, const float* scale) {
  float* target = task.block_scales + panel.row_begin / task.tile_rows * task.scale_row_stride +
                  panel.col_begin / task.tile_cols * task.scale_col_stride;
  for (std::int64_t b = 0; b < blocks; ++b) target[b * task.scale_col_stride] = scale[b];
}

// Scales of the panel's tiles from their largest magnitudes.
MIXPREC_INLINE void scale_tiles(const BlockTask& task, const Rect& panel, Scratch& scratch) {
  const std::int64_t blocks = ceil_div(panel.col_end - panel.col_begin, task.tile_cols);
  if (task.rule == ScaleRule::two_level) {
    two_level_scales(scratch.amax, blocks, task.quant_scale, task.target, scratch.quantize, scratch.scale);
  } else {
    exponent_scales(scratch.amax, blocks, exponent_rule(task.rule, task.element), scratch.quantize, scratch.scale);
  }
  if (task.block_scales) write_scales(task, panel, blocks, scratch.scale);
  if (!task.apply_scale)
    for (std::int64_t b = 0; b < blocks; ++b) scratch.scale[b] = 1.0f;
}

MIXPREC_INLINE void round_panel(const BlockTask& task, const Rect& panel, const RowKernels& kernels,
                                Philox& philox, Scratch& scratch) {
  const std::int64_t tiles = ceil_div(panel.col_end - panel.col_begin, task.tile_cols);
  if (task.block_amax) {
    std::memcpy(scratch.amax, task.block_amax + tile_index(task, panel), static_cast<std::size_t>(tiles) * sizeof *scratch.amax);
  } else {
    amax_tiles(task, panel, scratch);
  }
  scale_tiles(task, panel, scratch);
  const std::int64_t n = panel.col_end - panel.col_begin;
  for (std::int64_t r = panel.row_begin; r < panel.row_end; ++r) {
    const std::int64_t start = r * task.x.cols + panel.col_begin;
    const bool stochastic = task.rounding == Rounding::stochastic;
    const std::uint32_t* words = stochastic ? philox_fill(philox, start, n, scratch.words) : nullptr;
    const float* x = load(task.x, start, n, scratch.widened);
    float* y = result_place(task.carrier + start, task.past_caches, scratch);
    round_block_run(kernels, task.element, {x, y, n, scratch.quantize, scratch.scale, words}, task.tile_cols);
    result_leave(task.carrier + start, n, task.past_caches, scratch);
  }
}

// body(panel): one row of tiles, at most kPiece columns (or one tile).
template <class Body>
MIXPREC_INLINE void for_panels(const BlockTask& task, const Rect& rect, const Body& body) {
  const std::int64_t width = larger(kPiece / task.tile_cols, 1) * task.tile_cols;
  for (std::int64_t r = rect.row_begin; r < rect.row_end; r += task.tile_rows)
    for (std::int64_t c = rect.col_begin; c < rect.col_end; c += width)
      body(Rect{r, smaller(r + task.tile_rows, rect.row_end), c, smaller(c + width, rect.col_end)});
}

// Writes the largest magnitudes of the tiles in rect; returns the largest of all.
std::uint32_t amax_tiles_of(const BlockTask& task, const Rect& rect, std::uint32_t* block_amax) {
  Scratch scratch;
  std::uint32_t largest = 0;
  for_panels(task, rect, [&](const Rect& panel) {
    const std::int64_t tiles = ceil_div(panel.col_end - panel.col_begin, task.tile_cols);
    amax_tiles(task, panel, scratch);
    std::memcpy(block_amax + tile_index(task, panel), scratch.amax, static_cast<std::size_t>(tiles) * sizeof *block_amax);
    const std::uint32_t m = largest_of(scratch.amax, tiles);
    largest = m > largest ? m : largest;
  });
  return largest;
}

void round_blocks(const BlockTask& task, const Rect& rect) {
  Scratch scratch;
  const RowKernels kernels = row_kernels(task.element, task.rounding);
  Philox philox(task.random);
  for_panels(task, rect, [&](const Rect& panel) { round_panel(task, panel, kernels, philox, scratch); });
  if (task.past_caches) finish_stores();
}

}  // namespace
