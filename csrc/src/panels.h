// One cast over panels of a matrix: whole tiles whose rows are prepared, measured, scaled, rounded and written while
// they are in the nearest caches.
#pragma once

#include "code_kernels.h"
#include "philox.h"
#include "tile_scaler.h"

namespace {

using mixprec::Pass;

class Panels {
 public:
  Panels(const Task& task, const Scratch& scratch)
      : task_(task),
        scratch_(scratch),
        stage_(task.source, task.strip_rows, scratch.staged),
        philox_(task.random),
        spread_(!task.tiled            ? Spread::all
                : task.interleaved > 1 ? Spread::one
                                       : spread_of(task.tile_cols, task.panel_cols)),
        tiles_(task_, scratch_, spread_, stage_),
        kernel_(row_kernel(task.grid, task.rounding, spread_)),
        code_kernel_(task.out.codes ? code_kernel(task.grid, task.rounding, spread_) : nullptr),
        scale_in_carrier_(task.tiled && task.scaling.in_carrier),
        largest_(0) {
    for (std::int64_t i = 0; i < kPiece; ++i) scratch.ones[i] = 1.0f;
  }

  // Largest magnitude bits of what was measured, or rounded by a task that tracks them.
  std::uint32_t largest() const { return largest_; }

  // Only finds largest magnitudes: of the tiles, if they are kept, and of all.
  void measure(const Rect& unit) {
    for_rows_of_tiles(unit, [&](const Rect& rows) {
      if (!task_.tile_amax) {
        for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) see(amax_run(stage_.row(r), columns_of(rows)));
        return;
      }
      const std::int64_t tiles = tiles_across(task_, rows);
      tiles_.measure(rows, scratch_.amax);
      see(largest_of(scratch_.amax, tiles));
      std::memcpy(task_.tile_amax + tile_index(task_, rows), scratch_.amax,
                  static_cast<std::size_t>(tiles) * sizeof(std::uint32_t));
    });
  }

  void round(const Rect& unit) {
    for_rows_of_tiles(unit, [&](const Rect& rows) {
      if (task_.tiled) tiles_.scale(rows);
      for (std::int64_t r = rows.row_begin; r < rows.row_end; ++r) round_row(r, rows);
    });
  }

  // Only finds scales, of tiles.
  void scale(const Rect& unit) {
    for_rows_of_tiles(unit, [&](const Rect& rows) { tiles_.scale(rows); });
  }

 private:
  MIXPREC_MEMBER void see(std::uint32_t amax) { largest_ = amax > largest_ ? amax : largest_; }

  // body(rows) for one row of tiles of a panel (or the panel) after the other.
  template <class Body>
  MIXPREC_MEMBER void for_rows_of_tiles(const Rect& unit, const Body& body) {
    const std::int64_t row_end = smaller(unit.row_end, task_.source.rows);
    const std::int64_t col_end = smaller(unit.col_end, task_.source.cols);
    const std::int64_t height = task_.tiled ? task_.tile_rows : task_.panel_rows;
    for (std::int64_t r = unit.row_begin; r < row_end; r += task_.panel_rows) {
      for (std::int64_t c = unit.col_begin; c < col_end; c += task_.panel_cols) {
        const Rect panel{r, smaller(r + task_.panel_rows, row_end), c, smaller(c + task_.panel_cols, col_end)};
        stage_.set_panel(panel);
        for (std::int64_t top = panel.row_begin; top < panel.row_end; top += height)
          body(Rect{top, smaller(top + height, panel.row_end), panel.col_begin, panel.col_end});
      }
    }
  }

  MIXPREC_MEMBER void round_row(std::int64_t r, const Rect& rows) {
    const float* x = stage_.row(r);
    const float* quantize = task_.tiled ? tiles_.quantize() : &task_.quantize;
    const float* scale = scale_in_carrier_ ? tiles_.scale() : nullptr;
    const std::int64_t columns = columns_of(rows);
    for (std::int64_t c = 0; c < columns; c += kPiece) {
      const std::int64_t n = smaller(kPiece, columns - c), entry = entry_of(spread_, c);
      const std::int64_t start = r * task_.source.cols + rows.col_begin + c;
      stage_.fetch_next(r, c, n);
      const bool stochastic = task_.rounding == Rounding::stochastic;
      const std::uint32_t* words = stochastic ? philox_fill(philox_, start, n, scratch_.words) : nullptr;
      if (task_.track_amax) see(amax_run(x + c, n));
      if (task_.out.codes) {
        write_codes({x + c, codes_at(r, rows.col_begin + c), n, quantize + entry, words});
      } else {
        const float* scales = scale ? scale + entry : scratch_.ones;
        write_carrier({x + c, task_.out.carrier + start, n, quantize + entry, scales, words});
      }
    }
  }

  MIXPREC_MEMBER void write_carrier(const Run1d& run) {
    if (!task_.past_caches) return kernel_(task_.grid, run);
    kernel_(task_.grid, {run.x, scratch_.result, run.n, run.quantize, run.scale, run.words});
    store_past_caches(scratch_.result, run.n, run.y);
  }

  // Where the codes from column c on lie; c is a multiple of 8, so that they start at a byte.
  MIXPREC_MEMBER std::uint8_t* codes_at(std::int64_t r, std::int64_t c) const {
    const int bits = task_.grid.bits;
    return task_.out.codes + r * ceil_div(task_.source.cols * bits, 8) + c * bits / 8;
  }

  MIXPREC_MEMBER void write_codes(const CodeRun& run) {
    if (code_kernel_ && code_kernel_(task_.grid, run)) return;
    kernel_(task_.grid, {run.x, scratch_.result, run.n, run.quantize, scratch_.ones, run.words});
    encode_run(task_.grid, scratch_.result, run.n, scratch_.code_words);
    write_bits(scratch_.code_words, run.n, task_.grid.bits, run.out);
  }

  const Task task_;
  const Scratch scratch_;
  Stage stage_;
  Philox philox_;
  Spread spread_;
  TileScaler tiles_;
  RowKernel kernel_;
  CodeKernel code_kernel_;
  bool scale_in_carrier_;
  std::uint32_t largest_;
};

MIXPREC_INLINE Rect unit_rect(const Pass& pass, std::int64_t unit) {
  const std::int64_t r = unit / pass.units_across * pass.unit_rows, c = unit % pass.units_across * pass.unit_cols;
  return {r, r + pass.unit_rows, c, c + pass.unit_cols};
}

// body(panels, rect) of each task, unit by unit; then what each task saw.
template <class Body>
MIXPREC_INLINE void for_units(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                              std::uint32_t* largest, const Body& body) {
  const int last = pass.count - 1;
  Panels first(pass.tasks[0], scratch[0]), second(pass.tasks[last], scratch[last]);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    body(first, unit_rect(pass, unit));
    if (last > 0) body(second, unit_rect(pass, unit));
  }
  largest[0] = first.largest();
  if (last > 0) largest[1] = second.largest();
}

void amax_units(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                std::uint32_t* largest) {
  for_units(pass, begin, end, scratch, largest, [](Panels& panels, const Rect& unit) { panels.measure(unit); });
}

void scale_units(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                 std::uint32_t* largest) {
  for_units(pass, begin, end, scratch, largest, [](Panels& panels, const Rect& unit) { panels.scale(unit); });
}

void round_units(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                 std::uint32_t* largest) {
  for_units(pass, begin, end, scratch, largest, [](Panels& panels, const Rect& unit) { panels.round(unit); });
  finish_stores();
}

}  // namespace
