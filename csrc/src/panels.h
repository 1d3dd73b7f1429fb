// One cast over panels of a matrix: whole tiles whose rows are prepared, measured, scaled, rounded and written while
// they are in the nearest caches.
#pragma once

#include "choice.h"
#include "code_kernels.h"
#include "level.h"
#include "magnitudes.h"
#include "philox.h"
#include "reach.h"
#include "row_kernels.h"
#include "scales.h"
#include "source.h"

namespace {

using mixprec::kPiece;
using mixprec::Pass;
using mixprec::Scratch;
using mixprec::Task;

// How tiles of that width share scales along a row of a panel: `all` if one tile covers it.
MIXPREC_INLINE Spread spread_of(const Task& task) {
  if (!task.tiled || task.tile_cols >= task.panel_cols) return Spread::all;
  if (task.tile_cols % 32 == 0) return Spread::thirty_two;
  return task.tile_cols % 16 == 0 ? Spread::sixteen : Spread::one;
}

MIXPREC_INLINE std::int64_t width_of(Spread spread) {
  if (spread == Spread::sixteen) return 16;
  return spread == Spread::thirty_two ? 32 : 1;
}

class Panels {
 public:
  Panels(const Task& task, const Scratch& scratch)
      : task_(task),
        scratch_(scratch),
        stage_(task.source, task.strip_rows, scratch.staged),
        philox_(task.random),
        spread_(spread_of(task)),
        kernel_(row_kernel(task.grid, task.rounding, spread_)),
        code_kernel_(task.out.codes ? code_kernel(task.grid, task.rounding, spread_) : nullptr),
        first_{scratch.tile_scales[0], scratch.tile_scales[1], scratch.tile_scales[2]},
        second_{scratch.tile_scales[3], scratch.tile_scales[4], scratch.tile_scales[5]},
        quantize_(&task_.quantize),
        scale_(scratch.ones),
        largest_(0) {
    for (std::int64_t i = 0; i < kPiece; ++i) scratch.ones[i] = 1.0f;
  }

  std::uint32_t largest() const { return largest_; }

  // Only finds largest magnitudes: of the tiles, if they are kept, and of all.
  void measure(const Rect& unit) {
    for_panels(unit, [&](const Rect& rows) {
      const std::int64_t tiles = tiles_across(rows);
      if (task_.tile_amax) {
        amax_tiles(rows, scratch_.amax);
        std::memcpy(task_.tile_amax + tile_index(rows), scratch_.amax, static_cast<std::size_t>(tiles) * sizeof(std::uint32_t));
        see(largest_of(scratch_.amax, tiles));
      } else {
        for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) see(amax_run(stage_.row(r), columns_of(rows)));
      }
    });
  }

  void round(const Rect& unit) {
    for_panels(unit, [&](const Rect& rows) {
      if (task_.tiled) scale_tiles(rows);
      for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) round_row(r, rows);
    });
  }

 private:
  static MIXPREC_MEMBER std::int64_t columns_of(const Rect& rows) { return rows.col_end - rows.col_begin; }

  MIXPREC_MEMBER std::int64_t tiles_across(const Rect& rows) const { return ceil_div(columns_of(rows), task_.tile_cols); }

  // Where the first tile of a row of tiles lies in an array of all, laid out as the matrix is.
  MIXPREC_MEMBER std::int64_t tile_index(const Rect& rows) const {
    return rows.row_begin / task_.tile_rows * ceil_div(task_.source.cols, task_.tile_cols) +
           rows.col_begin / task_.tile_cols;
  }

  MIXPREC_MEMBER void see(std::uint32_t amax) { largest_ = amax > largest_ ? amax : largest_; }

  // body(rows): one row of tiles of a panel after the other.
  template <class Body>
  MIXPREC_MEMBER void for_panels(const Rect& unit, const Body& body) {
    const std::int64_t row_end = smaller(unit.row_end, task_.source.rows);
    const std::int64_t col_end = smaller(unit.col_end, task_.source.cols);
    for (std::int64_t r = unit.row_begin; r < row_end; r += task_.panel_rows) {
      for (std::int64_t c = unit.col_begin; c < col_end; c += task_.panel_cols) {
        const Rect panel{r, smaller(r + task_.panel_rows, row_end), c, smaller(c + task_.panel_cols, col_end)};
        stage_.set_panel(panel);
        const std::int64_t height = task_.tiled ? task_.tile_rows : task_.panel_rows;
        for (std::int64_t top = panel.row_begin; top < panel.row_end; top += height)
          body(Rect{top, smaller(top + height, panel.row_end), panel.col_begin, panel.col_end});
      }
    }
  }

  MIXPREC_MEMBER void amax_tiles(const Rect& rows, std::uint32_t* amax) {
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

  MIXPREC_MEMBER void scale_tiles(const Rect& rows) {
    const std::int64_t tiles = tiles_across(rows), index = tile_index(rows);
    const std::uint32_t* amax = task_.tile_amax ? task_.tile_amax + index : scratch_.amax;
    if (!task_.tile_amax) amax_tiles(rows, scratch_.amax);
    if (task_.scaling.from_deviation) {
      reach_scales(rows);
    } else {
      tile_scales(task_.scaling, task_.scaling.target, amax, tiles, first_);
    }
    if (task_.scaling.second_target > 0.0) choose(rows, amax);
    if (!task_.scaling.in_carrier)
      std::memcpy(task_.out.outer + index, first_.outer, static_cast<std::size_t>(tiles) * sizeof(float));
    if (task_.out.scales) write_scales(tiles, task_.out.scales + index);
    quantize_ = spread(first_.quantize, columns_of(rows), scratch_.spread_quantize);
    if (!task_.out.codes && task_.scaling.in_carrier) {
      scale_ = spread(first_.scale, columns_of(rows), scratch_.spread_scale);
    }
  }

  // Numbers of tiles as numbers of what shares an entry in a run.
  MIXPREC_MEMBER const float* spread(const float* tiles, std::int64_t columns, float* room) const {
    const std::int64_t width = width_of(spread_);
    if (spread_ == Spread::all || task_.tile_cols == width) return tiles;
    const std::int64_t entries = ceil_div(columns, width), repeats = task_.tile_cols / width;
    for (std::int64_t i = 0, tile = 0; i < entries; i += repeats, ++tile)
      for (std::int64_t j = i; j < smaller(i + repeats, entries); ++j) room[j] = tiles[tile];
    return room;
  }

  MIXPREC_MEMBER void write_scales(std::int64_t tiles, std::uint8_t* codes) {
    for (std::int64_t i = 0; i < tiles; i += kPiece) {
      const std::int64_t n = smaller(kPiece, tiles - i);
      const float* scale = first_.scale + i;
      if (task_.scaling.kind == ScaleKind::power) {
        for (std::int64_t j = 0; j < n; ++j)
          codes[i + j] = scale[j] == scale[j] ? static_cast<std::uint8_t>(to_bits(scale[j]) >> 23) : 255;
      } else {
        encode_run(task_.scaling.grid, scale, n, scratch_.code_words);
        for (std::int64_t j = 0; j < n; ++j) codes[i + j] = static_cast<std::uint8_t>(scratch_.code_words[j]);
      }
    }
  }

  MIXPREC_MEMBER void sum_tiles(const Rect& rows, bool squared, double* sums) {
    const std::int64_t tiles = tiles_across(rows), places = places_of(task_);
    std::memset(scratch_.squares[0], 0, static_cast<std::size_t>(tiles * places) * sizeof(double));
    for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r)
      lay_out(stage_.row(r), columns_of(rows), task_.tile_cols, squared, places,
              scratch_.squares[0] + (r - rows.row_begin) * task_.tile_cols);
    for (std::int64_t i = 0; i < tiles; ++i) sums[i] = sum_by_halving(scratch_.squares[0] + i * places, places);
  }

  MIXPREC_MEMBER void reach_scales(const Rect& rows) {
    const std::int64_t n = columns_of(rows), height = rows.row_end - rows.row_begin;
    sum_tiles(rows, false, scratch_.errors[0]);
    sum_tiles(rows, true, scratch_.errors[1]);
    for (std::int64_t i = 0; i < tiles_across(rows); ++i) {
      const std::int64_t count = height * smaller(task_.tile_cols, n - i * task_.tile_cols);
      const std::int32_t e = reach_exponent(scratch_.errors[0][i], scratch_.errors[1][i], static_cast<double>(count));
      first_.quantize[i] = (e > 127 ? quiet_nan() : scale_from_exponent(-e)) * task_.scaling.prescale;
      first_.scale[i] = e > 127 ? quiet_nan() : scale_from_exponent(e);
    }
  }

  // Puts the better of two scales of each tile into the first.
  MIXPREC_MEMBER void choose(const Rect& rows, const std::uint32_t* amax) {
    const std::int64_t tiles = tiles_across(rows);
    tile_scales(task_.scaling, task_.scaling.second_target, amax, tiles, second_);
    find_errors(rows);
    for (std::int64_t i = 0; i < tiles; ++i) {
      const bool better = scratch_.errors[1][i] < scratch_.errors[0][i];
      first_.quantize[i] = better ? second_.quantize[i] : first_.quantize[i];
      first_.scale[i] = better ? second_.scale[i] : first_.scale[i];
      first_.outer[i] = better ? second_.outer[i] : first_.outer[i];
    }
  }

  MIXPREC_MEMBER void find_errors(const Rect& rows) {
    const std::int64_t n = columns_of(rows), tiles = tiles_across(rows), places = places_of(task_);
    const float* quantize[2] = {spread(first_.quantize, n, scratch_.spread_quantize),
                                spread(second_.quantize, n, scratch_.spread_scale)};
    const bool scaled = task_.scaling.in_carrier;
    const Candidate candidates[2] = {{scratch_.elements[0], scaled ? first_.scale : first_.outer},
                                     {scratch_.elements[1], scaled ? second_.scale : second_.outer}};
    const bool sixteens = task_.tile_rows == 1 && task_.tile_cols == 16 && n % 16 == 0;
    if (!sixteens)
      for (double* squares : scratch_.squares) std::memset(squares, 0, static_cast<std::size_t>(tiles * places) * sizeof(double));
    for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) {
      const ErrorRow row{stage_.row(r), n, static_cast<double>(task_.scaling.above)};
      for (int k = 0; k < 2; ++k) round_elements(row.x, n, quantize[k], scratch_.elements[k]);
      if (sixteens) return errors_of_sixteens(row, candidates, scratch_.errors[0], scratch_.errors[1]);
      for (int k = 0; k < 2; ++k) square_row(row, candidates[k], r - rows.row_begin, scratch_.squares[k]);
    }
    for (int k = 0; k < 2; ++k) sum_squares(tiles, scratch_.squares[k], scratch_.errors[k]);
  }

  // The squares of a tile lie together, but for tiles of one column, whose rows do.
  MIXPREC_MEMBER void square_row(const ErrorRow& row, const Candidate& candidate, std::int64_t r, double* squares) const {
    if (task_.tile_cols == 1) return square_error_columns(row, candidate, squares + r * row.n);
    square_error_row(row, candidate, task_.tile_cols, places_of(task_), squares + r * task_.tile_cols);
  }

  MIXPREC_MEMBER void sum_squares(std::int64_t tiles, double* squares, double* errors) const {
    const std::int64_t places = places_of(task_);
    if (task_.tile_cols == 1) return sum_columns_by_halving(squares, places, tiles, errors);
    for (std::int64_t i = 0; i < tiles; ++i) errors[i] = sum_by_halving(squares + i * places, places);
  }

  MIXPREC_MEMBER void round_elements(const float* x, std::int64_t n, const float* quantize, float* elements) const {
    for (std::int64_t c = 0; c < n; c += kPiece)
      kernel_(task_.grid, {x + c, elements + c, smaller(kPiece, n - c), quantize + entry(c), scratch_.ones, nullptr});
  }

  // Index of the entry of `quantize_` and `scale_` for column c of a panel.
  MIXPREC_MEMBER std::int64_t entry(std::int64_t c) const { return spread_ == Spread::all ? 0 : c / width_of(spread_); }

  MIXPREC_MEMBER void round_row(std::int64_t r, const Rect& rows) {
    const float* x = stage_.row(r);
    const std::int64_t n = columns_of(rows);
    for (std::int64_t c = 0; c < n; c += kPiece)
      round_piece(x + c, r, rows.col_begin + c, smaller(kPiece, n - c), entry(c));
  }

  MIXPREC_MEMBER void round_piece(const float* x, std::int64_t r, std::int64_t c, std::int64_t n, std::int64_t entry) {
    const std::int64_t start = r * task_.source.cols + c;
    if (task_.track_amax) see(amax_run(x, n));
    const bool stochastic = task_.rounding == Rounding::stochastic;
    const std::uint32_t* words = stochastic ? philox_fill(philox_, start, n, scratch_.words) : nullptr;
    if (task_.out.codes) return write_piece(x, words, r, c, n, entry);
    const float* scale = scale_ == scratch_.ones ? scale_ : scale_ + entry;
    float* y = task_.past_caches ? scratch_.result : task_.out.carrier + start;
    kernel_(task_.grid, {x, y, n, quantize_ + entry, scale, words});
    if (task_.past_caches) store_past_caches(y, n, task_.out.carrier + start);
  }

  MIXPREC_MEMBER void write_piece(const float* x, const std::uint32_t* words, std::int64_t r, std::int64_t c,
                                  std::int64_t n, std::int64_t entry) {
    const int bits = task_.grid.bits;
    std::uint8_t* codes = task_.out.codes + r * ceil_div(task_.source.cols * bits, 8) + c * bits / 8;
    if (code_kernel_ && code_kernel_(task_.grid, {x, codes, n, quantize_ + entry, words})) return;
    kernel_(task_.grid, {x, scratch_.result, n, quantize_ + entry, scratch_.ones, words});
    encode_run(task_.grid, scratch_.result, n, scratch_.code_words);
    write_bits(scratch_.code_words, n, bits, codes);
  }

  const Task task_;
  const Scratch scratch_;
  Stage stage_;
  Philox philox_;
  Spread spread_;
  RowKernel kernel_;
  CodeKernel code_kernel_;
  TileScales first_, second_;
  const float* quantize_;
  const float* scale_;
  std::uint32_t largest_;
};

MIXPREC_INLINE Rect unit_rect(const Pass& pass, std::int64_t unit) {
  const std::int64_t r = unit / pass.units_across * pass.unit_rows, c = unit % pass.units_across * pass.unit_cols;
  return {r, r + pass.unit_rows, c, c + pass.unit_cols};
}

// body(first, second or null) ... of each unit, then what each saw.
template <class Body>
MIXPREC_INLINE void for_units(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                              std::uint32_t* largest, const Body& body) {
  Panels first(pass.tasks[0], scratch[0]), second(pass.tasks[pass.count - 1], scratch[pass.count - 1]);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    body(first, unit_rect(pass, unit));
    if (pass.count > 1) body(second, unit_rect(pass, unit));
  }
  largest[0] = first.largest();
  if (pass.count > 1) largest[1] = second.largest();
}

void amax_units(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch, std::uint32_t* largest) {
  for_units(pass, begin, end, scratch, largest, [](Panels& panels, const Rect& unit) { panels.measure(unit); });
}

void round_units(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                 std::uint32_t* largest) {
  for_units(pass, begin, end, scratch, largest, [](Panels& panels, const Rect& unit) { panels.round(unit); });
  finish_stores();
}

}  // namespace
