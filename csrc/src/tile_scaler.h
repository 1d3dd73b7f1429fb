// The scales of one row of tiles of a panel: from its values to what its elements are multiplied by.
#pragma once

#include "coder.h"
#include "level.h"
#include "magnitudes.h"
#include "row_kernels.h"
#include "scales.h"
#include "source.h"
#include "spread.h"
#include "tile_sums.h"

namespace {

using mixprec::kPiece;
using mixprec::Scratch;
using mixprec::Task;

MIXPREC_INLINE std::int64_t columns_of(const Rect& rows) { return rows.col_end - rows.col_begin; }

MIXPREC_INLINE std::int64_t tiles_across(const Task& task, const Rect& rows) {
  return tiles_in(task, columns_of(rows));
}

// Where the first tile of a row of tiles lies in an array of all, laid out as the matrix is.
MIXPREC_INLINE std::int64_t tile_index(const Task& task, const Rect& rows) {
  return rows.row_begin / task.tile_rows * tiles_in(task, task.source.cols) + tiles_in(task, rows.col_begin);
}

// What the choice between two scales of a tile sums: the squared error of an element times `compared`, one per tile.
struct SquaredError {
  const float* x;
  double above;
  const float* elements;
  const float* compared;
  MIXPREC_MEMBER double operator()(std::int64_t c, std::int64_t tile) const {
    const double d = static_cast<double>(elements[c]) * static_cast<double>(compared[tile]) -
                     static_cast<double>(x[c]) * above;
    return d * d;
  }
};

// What a deviation is made of: the elements and their squares.
struct Element {
  const float* x;
  MIXPREC_MEMBER double operator()(std::int64_t c, std::int64_t) const { return static_cast<double>(x[c]); }
};
struct Square {
  const float* x;
  MIXPREC_MEMBER double operator()(std::int64_t c, std::int64_t) const {
    return static_cast<double>(x[c]) * static_cast<double>(x[c]);
  }
};

class TileScaler {
 public:
  // The values come from the stage, one row of tiles after the other.
  TileScaler(const Task& task, const Scratch& scratch, Spread spread, Stage& stage)
      : task_(task),
        scratch_(scratch),
        spread_(spread),
        stage_(stage),
        round_(row_kernel(task.grid, task.rounding, spread)),
        first_{scratch.tile_scales[0], scratch.tile_scales[1], scratch.tile_scales[2]},
        second_{scratch.tile_scales[3], scratch.tile_scales[4], scratch.tile_scales[5]},
        sums_{{task.tile_rows, task.tile_cols, places_of(task), scratch.places[0]},
              {task.tile_rows, task.tile_cols, places_of(task), scratch.places[1]}},
        quantize_(nullptr),
        scale_(nullptr) {}
  TileScaler(const TileScaler&) = delete;
  TileScaler& operator=(const TileScaler&) = delete;

  // Largest magnitude bits of the tiles.
  void measure(const Rect& rows, std::uint32_t* amax) {
    const std::int64_t n = columns_of(rows);
    if (rows.row_end - rows.row_begin == 1 && task_.tile_cols > 1 && task_.interleaved == 1)
      return amax_blocks(stage_.row(rows.row_begin), n, task_.tile_cols, amax);
    std::uint32_t* by_column = task_.tile_cols == 1 ? amax : scratch_.column_amax;
    std::memset(by_column, 0, static_cast<std::size_t>(n) * sizeof *by_column);
    for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) amax_into_columns(stage_.row(r), n, by_column);
    if (task_.tile_cols == 1) return;
    for (std::int64_t c = 0; c < n; c += task_.tile_cols, amax += task_.interleaved) {
      const std::int64_t width = smaller(task_.tile_cols, n - c);
      if (task_.interleaved == 1) {
        *amax = largest_of(by_column + c, width);
      } else {
        largest_of_interleaved(by_column + c, width, task_.interleaved, amax);
      }
    }
  }

  // Finds the scales and writes what is stored of them.
  void scale(const Rect& rows) {
    const std::int64_t n = columns_of(rows), tiles = tiles_across(task_, rows), index = tile_index(task_, rows);
    if (task_.scaling.from_deviation) {
      scale_by_deviation(rows);
    } else {
      scale_by_amax(rows);
    }
    if (!task_.scaling.in_carrier)
      std::memcpy(task_.out.outer + index, first_.outer, static_cast<std::size_t>(tiles) * sizeof(float));
    if (task_.out.scales) write_codes(tiles, task_.out.scales + index);
    if (task_.kept_scales[0]) {
      std::memcpy(task_.kept_scales[0] + index, first_.quantize, static_cast<std::size_t>(tiles) * sizeof(float));
      std::memcpy(task_.kept_scales[1] + index, first_.scale, static_cast<std::size_t>(tiles) * sizeof(float));
    }
    quantize_ = spread(first_.quantize, n, scratch_.spread_quantize);
    scale_ = spread(first_.scale, n, scratch_.spread_scale);
  }

  // What elements are multiplied by before and after rounding, for the row of tiles that was scaled last.
  MIXPREC_MEMBER const float* quantize() const { return quantize_; }
  MIXPREC_MEMBER const float* scale() const { return scale_; }

 private:
  const float* spread(const float* tiles, std::int64_t n, float* room) const {
    return task_.interleaved > 1 ? spread_interleaved(tiles, task_.interleaved, task_.tile_cols, n, room)
                                 : spread_tiles(tiles, spread_, task_.tile_cols, n, room);
  }

  void write_codes(std::int64_t tiles, std::uint8_t* codes) const {
    if (task_.scaling.kind == ScaleKind::power) {
      for (std::int64_t i = 0; i < tiles; ++i) {
        const float scale = first_.scale[i];
        codes[i] = scale == scale ? static_cast<std::uint8_t>(to_bits(scale) >> 23) : 255;
      }
      return;
    }
    for (std::int64_t i = 0; i < tiles; i += kPiece) {
      const std::int64_t n = smaller(kPiece, tiles - i);
      encode_run(task_.scaling.grid, first_.scale + i, n, scratch_.code_words);
      for (std::int64_t j = 0; j < n; ++j) codes[i + j] = static_cast<std::uint8_t>(scratch_.code_words[j]);
    }
  }

  void scale_by_amax(const Rect& rows) {
    const std::uint32_t* amax = task_.tile_amax ? task_.tile_amax + tile_index(task_, rows) : scratch_.amax;
    if (!task_.tile_amax) measure(rows, scratch_.amax);
    tile_scales(task_.scaling, task_.scaling.target, amax, tiles_across(task_, rows), first_);
    if (task_.scaling.second_target > 0.0) choose(rows, amax);
  }

  // Puts the better of two scales of each tile into the first.
  void choose(const Rect& rows, const std::uint32_t* amax) {
    const std::int64_t tiles = tiles_across(task_, rows), n = columns_of(rows);
    tile_scales(task_.scaling, task_.scaling.second_target, amax, tiles, second_);
    const float* quantize[2] = {spread(first_.quantize, n, scratch_.spread_quantize),
                                spread(second_.quantize, n, scratch_.spread_scale)};
    sum_tiles(
        rows, [&](const float* x) { return errors_of(x, n, quantize[0], first_); },
        [&](const float* x) { return errors_of(x, n, quantize[1], second_); });
    take_better(tiles, second_.quantize, first_.quantize);
    if (task_.scaling.in_carrier) return take_better(tiles, second_.scale, first_.scale);
    take_better(tiles, second_.outer, first_.outer);
  }

  // Replaces numbers where the second error is smaller.
  MIXPREC_MEMBER void take_better(std::int64_t tiles, const float* MIXPREC_RESTRICT second,
                                  float* MIXPREC_RESTRICT numbers) const {
    const double* MIXPREC_RESTRICT first_error = scratch_.sums[0];
    const double* MIXPREC_RESTRICT second_error = scratch_.sums[1];
    for (std::int64_t i = 0; i < tiles; ++i) numbers[i] = second_error[i] < first_error[i] ? second[i] : numbers[i];
  }

  SquaredError errors_of(const float* x, std::int64_t n, const float* quantize, const TileScales& scales) const {
    for (std::int64_t c = 0; c < n; c += kPiece) {
      const float* entries = quantize + entry_of(spread_, c);
      round_(task_.grid, {x + c, scratch_.elements + c, smaller(kPiece, n - c), entries, scratch_.ones, nullptr});
    }
    const float* compared = task_.scaling.in_carrier ? scales.scale : scales.outer;
    return {x, static_cast<double>(task_.scaling.above), scratch_.elements, compared};
  }

  void scale_by_deviation(const Rect& rows) {
    const std::int64_t n = columns_of(rows), height = rows.row_end - rows.row_begin;
    sum_tiles(
        rows, [](const float* x) { return Element{x}; }, [](const float* x) { return Square{x}; });
    for (std::int64_t i = 0; i < tiles_across(task_, rows); ++i) {
      const std::int64_t count = height * smaller(task_.tile_cols, n - i * task_.tile_cols);
      scratch_.counts[i] = static_cast<double>(count);
    }
    deviation_scales(task_.scaling, scratch_.sums, scratch_.counts, tiles_across(task_, rows), first_);
  }

  // Sums over each tile of two numbers per element. first(x), second(x) give those of a row.
  template <class First, class Second>
  void sum_tiles(const Rect& rows, const First& first, const Second& second) {
    const std::int64_t n = columns_of(rows), tiles = tiles_across(task_, rows);
    if (sums_[0].at_once(n)) {
      const float* x = stage_.row(rows.row_begin);
      sums_[0].sum_row(first(x), n, scratch_.sums[0]);
      return sums_[1].sum_row(second(x), n, scratch_.sums[1]);
    }
    for (const TileSums& sums : sums_) sums.clear(tiles);
    for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) {
      const float* x = stage_.row(r);
      sums_[0].add_row(first(x), r - rows.row_begin, n);
      sums_[1].add_row(second(x), r - rows.row_begin, n);
    }
    for (int k = 0; k < 2; ++k) sums_[k].sum(tiles, scratch_.sums[k]);
  }

  const Task& task_;
  const Scratch& scratch_;
  Spread spread_;
  Stage& stage_;
  RowKernel round_;
  TileScales first_, second_;
  TileSums sums_[2];
  const float* quantize_;
  const float* scale_;
};

}  // namespace
