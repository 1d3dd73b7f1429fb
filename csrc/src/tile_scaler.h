// The scales of one row of tiles of a panel: from its values to what its elements are multiplied by.
#pragma once

#include "choice.h"
#include "coder.h"
#include "level.h"
#include "magnitudes.h"
#include "reach.h"
#include "row_kernels.h"
#include "scales.h"
#include "source.h"
#include "spread.h"

namespace {

using mixprec::kPiece;
using mixprec::Scratch;
using mixprec::Task;

MIXPREC_INLINE std::int64_t columns_of(const Rect& rows) { return rows.col_end - rows.col_begin; }

MIXPREC_INLINE std::int64_t tiles_across(const Task& task, const Rect& rows) {
  return ceil_div(columns_of(rows), task.tile_cols);
}

// Where the first tile of a row of tiles lies in an array of all, laid out as the matrix is.
MIXPREC_INLINE std::int64_t tile_index(const Task& task, const Rect& rows) {
  return rows.row_begin / task.tile_rows * ceil_div(task.source.cols, task.tile_cols) + rows.col_begin / task.tile_cols;
}

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
        quantize_(nullptr),
        scale_(nullptr) {}
  TileScaler(const TileScaler&) = delete;
  TileScaler& operator=(const TileScaler&) = delete;

  // Largest magnitude bits of the tiles.
  void measure(const Rect& rows, std::uint32_t* amax) {
    const std::int64_t n = columns_of(rows);
    if (rows.row_end - rows.row_begin == 1 && task_.tile_cols > 1)
      return amax_blocks(stage_.row(rows.row_begin), n, task_.tile_cols, amax);
    std::uint32_t* by_column = task_.tile_cols == 1 ? amax : scratch_.column_amax;
    std::memset(by_column, 0, static_cast<std::size_t>(n) * sizeof *by_column);
    for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) amax_into_columns(stage_.row(r), n, by_column);
    if (task_.tile_cols == 1) return;
    for (std::int64_t c = 0, tile = 0; c < n; c += task_.tile_cols, ++tile)
      amax[tile] = largest_of(by_column + c, smaller(task_.tile_cols, n - c));
  }

  // Finds the scales and writes what is stored of them.
  void scale(const Rect& rows) {
    const std::int64_t n = columns_of(rows), tiles = tiles_across(task_, rows), index = tile_index(task_, rows);
    const std::uint32_t* amax = task_.tile_amax ? task_.tile_amax + index : scratch_.amax;
    if (task_.scaling.from_deviation) {
      reach(rows);
    } else {
      if (!task_.tile_amax) measure(rows, scratch_.amax);
      tile_scales(task_.scaling, task_.scaling.target, amax, tiles, first_);
    }
    if (task_.scaling.second_target > 0.0) choose(rows, amax);
    if (!task_.scaling.in_carrier)
      std::memcpy(task_.out.outer + index, first_.outer, static_cast<std::size_t>(tiles) * sizeof(float));
    if (task_.out.scales) write_codes(tiles, task_.out.scales + index);
    quantize_ = spread_tiles(first_.quantize, spread_, task_.tile_cols, n, scratch_.spread_quantize);
    scale_ = spread_tiles(first_.scale, spread_, task_.tile_cols, n, scratch_.spread_scale);
  }

  // What elements are multiplied by before and after rounding, for the row of tiles that was scaled last.
  MIXPREC_MEMBER const float* quantize() const { return quantize_; }
  MIXPREC_MEMBER const float* scale() const { return scale_; }

 private:
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

  // Powers of two from the deviation of each tile.
  void reach(const Rect& rows) {
    const std::int64_t n = columns_of(rows), height = rows.row_end - rows.row_begin;
    for (int k = 0; k < 2; ++k) sum_values(rows, k == 1, scratch_.errors[k]);
    for (std::int64_t i = 0; i < tiles_across(task_, rows); ++i) {
      const std::int64_t count = height * smaller(task_.tile_cols, n - i * task_.tile_cols);
      const std::int32_t e = reach_exponent(scratch_.errors[0][i], scratch_.errors[1][i], static_cast<double>(count));
      first_.quantize[i] = (e > 127 ? quiet_nan() : scale_from_exponent(-e)) * task_.scaling.prescale;
      first_.scale[i] = e > 127 ? quiet_nan() : scale_from_exponent(e);
    }
  }

  // The sum of each tile's values, or of their squares.
  void sum_values(const Rect& rows, bool squared, double* sums) {
    const std::int64_t tiles = tiles_across(task_, rows), places = places_of(task_);
    double* values = scratch_.squares[0];
    std::memset(values, 0, static_cast<std::size_t>(tiles * places) * sizeof(double));
    for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r)
      lay_out(stage_.row(r), columns_of(rows), task_.tile_cols, squared, places,
              values + (r - rows.row_begin) * task_.tile_cols);
    for (std::int64_t i = 0; i < tiles; ++i) sums[i] = sum_by_halving(values + i * places, places);
  }

  // Puts the better of two scales of each tile into the first.
  void choose(const Rect& rows, const std::uint32_t* amax) {
    const std::int64_t tiles = tiles_across(task_, rows);
    tile_scales(task_.scaling, task_.scaling.second_target, amax, tiles, second_);
    find_errors(rows);
    for (std::int64_t i = 0; i < tiles; ++i) {
      const bool better = scratch_.errors[1][i] < scratch_.errors[0][i];
      first_.quantize[i] = better ? second_.quantize[i] : first_.quantize[i];
      first_.scale[i] = better ? second_.scale[i] : first_.scale[i];
      first_.outer[i] = better ? second_.outer[i] : first_.outer[i];
    }
  }

  void find_errors(const Rect& rows) {
    const std::int64_t n = columns_of(rows), tiles = tiles_across(task_, rows), places = places_of(task_);
    const float* quantize[2] = {
        spread_tiles(first_.quantize, spread_, task_.tile_cols, n, scratch_.spread_quantize),
        spread_tiles(second_.quantize, spread_, task_.tile_cols, n, scratch_.spread_scale)};
    const bool scaled = task_.scaling.in_carrier;
    const Candidate candidates[2] = {{scratch_.elements[0], scaled ? first_.scale : first_.outer},
                                     {scratch_.elements[1], scaled ? second_.scale : second_.outer}};
    const bool sixteens = task_.tile_rows == 1 && task_.tile_cols == 16 && n % 16 == 0;
    const std::size_t bytes = sixteens ? 0 : static_cast<std::size_t>(tiles * places) * sizeof(double);
    for (double* squares : scratch_.squares) std::memset(squares, 0, bytes);
    for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) {
      const ErrorRow row{stage_.row(r), n, static_cast<double>(task_.scaling.above)};
      for (int k = 0; k < 2; ++k) round_elements(row.x, n, quantize[k], scratch_.elements[k]);
      if (sixteens) return errors_of_sixteens(row, candidates, scratch_.errors[0], scratch_.errors[1]);
      for (int k = 0; k < 2; ++k) square_row(row, candidates[k], r - rows.row_begin, scratch_.squares[k]);
    }
    for (int k = 0; k < 2; ++k) sum_squares(tiles, scratch_.squares[k], scratch_.errors[k]);
  }

  void round_elements(const float* x, std::int64_t n, const float* quantize, float* elements) const {
    for (std::int64_t c = 0; c < n; c += kPiece) {
      const float* entries = quantize + entry_of(spread_, c);
      round_(task_.grid, {x + c, elements + c, smaller(kPiece, n - c), entries, scratch_.ones, nullptr});
    }
  }

  // The squares of a tile lie together, but for tiles of one column, whose rows do.
  void square_row(const ErrorRow& row, const Candidate& candidate, std::int64_t r, double* squares) const {
    if (task_.tile_cols == 1) return square_error_columns(row, candidate, squares + r * row.n);
    square_error_row(row, candidate, task_.tile_cols, places_of(task_), squares + r * task_.tile_cols);
  }

  void sum_squares(std::int64_t tiles, double* squares, double* errors) const {
    const std::int64_t places = places_of(task_);
    if (task_.tile_cols == 1) return sum_columns_by_halving(squares, places, tiles, errors);
    for (std::int64_t i = 0; i < tiles; ++i) errors[i] = sum_by_halving(squares + i * places, places);
  }

  const Task& task_;
  const Scratch& scratch_;
  Spread spread_;
  Stage& stage_;
  RowKernel round_;
  TileScales first_, second_;
  const float* quantize_;
  const float* scale_;
};

}  // namespace
