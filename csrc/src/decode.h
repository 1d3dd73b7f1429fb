// From packed codes and scales to values: element * scale, then * outer.
#pragma once

#include "level.h"
#include "load.h"
#include "numbers.h"

namespace {

using mixprec::DecodeTask;
using mixprec::kPiece;
using mixprec::OuterLayout;
using mixprec::ScaleKind;

class Decoder {
 public:
  explicit Decoder(const Grid& grid) : grid_(grid) {
    if (grid.bits <= 8) decode_all(grid, numbers_);
  }

  // n <= kPiece codes, from a byte on.
  MIXPREC_MEMBER void decode(const std::uint8_t* codes, std::int64_t n, const ScaleRun& run, float* y) {
    if (grid_.bits == 4) {
      const std::int64_t done = multiply_nibbles(codes, numbers_, n, run, y);
      if (done < n) decode_listed(codes + done / 2, n - done, rest_of(run, done), y + done);
    } else if (grid_.bits == 8 && ByteFloats::fit(grid_)) {
      multiply_numbers(ByteFloats(grid_, codes), n, run, y);
    } else if (grid_.bits == 8 && grid_.integer) {
      multiply_numbers(ByteIntegers(grid_, codes), n, run, y);
    } else {
      decode_listed(codes, n, run, y);
    }
  }

 private:
  // What vectors left of a run may begin within a block: one scale per element then.
  MIXPREC_MEMBER ScaleRun rest_of(const ScaleRun& run, std::int64_t done) {
    if (run.spread == Spread::all || done == 0) return run;
    if (run.spread == Spread::one) return {run.scale + done, run.spread};
    for (std::int64_t i = 0; i < kLeft; ++i) left_[i] = run.scale[entry_of(run.spread, done)];
    return {left_, Spread::one};
  }

  void decode_listed(const std::uint8_t* codes, std::int64_t n, const ScaleRun& run, float* y) {
    read_bits(codes, n, grid_.bits, words_);
    if (grid_.bits <= 8) {
      multiply_numbers(ListedNumbers{words_, numbers_}, n, run, y);
    } else if (grid_.integer) {
      multiply_numbers(CodedNumbers<IntegerCoder>{words_, IntegerCoder(grid_)}, n, run, y);
    } else {
      multiply_numbers(CodedNumbers<FloatCoder<double>>{words_, FloatCoder<double>(grid_)}, n, run, y);
    }
  }

  static constexpr std::int64_t kLeft = 16;  // vectors leave fewer
  Grid grid_;
  alignas(64) float numbers_[256];
  alignas(64) std::uint32_t words_[kPiece];
  float left_[kLeft];
};

// The number of each code of a scale.
MIXPREC_INLINE void decode_all_scales(const DecodeTask& task, float* numbers) {
  if (task.scale_kind == ScaleKind::floating) return decode_all(task.scale_grid, numbers);
  for (std::uint32_t code = 0; code < 255; ++code) numbers[code] = from_bits(code == 0 ? 0x00400000u : code << 23);
  numbers[255] = from_bits(kInfinity | kQuiet);
}

MIXPREC_INLINE void multiply_in_place(float* MIXPREC_RESTRICT y, std::int64_t n, const float* MIXPREC_RESTRICT factor,
                                      bool each) {
  if (each) {
    for (std::int64_t i = 0; i < n; ++i) y[i] *= factor[i];
  } else {
    const float f = *factor;
    for (std::int64_t i = 0; i < n; ++i) y[i] *= f;
  }
}

class RowDecoder {
 public:
  // `scratch`: task.panel_cols numbers.
  RowDecoder(const DecodeTask& task, float* scratch) : task_(task), elements_(task.grid), scales_(scratch) {
    if (task.scales) decode_all_scales(task, numbers_);
    has_scales_ = task.scales != nullptr || task.outer_layout == OuterLayout::per_tile;
    spread_ = has_scales_ ? spread_of(task.tile_cols, task.panel_cols) : Spread::all;
    *scales_ = 1.0f;
  }

  // Rows [begin, end) of one row of tiles, columns [c, c + n).
  void decode(std::int64_t begin, std::int64_t end, std::int64_t c, std::int64_t n) {
    if (has_scales_) read_scales(begin, c, n);
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t i = 0; i < n; i += kPiece) decode_piece(r, c + i, smaller(kPiece, n - i), i);
  }

 private:
  MIXPREC_MEMBER void read_scales(std::int64_t r, std::int64_t c, std::int64_t n) {
    const std::int64_t entries = spread_ == Spread::all ? 1 : ceil_div(n, width_of(spread_));
    const std::int64_t repeats = spread_ == Spread::all ? 1 : task_.tile_cols / width_of(spread_);
    std::int64_t tile = r / task_.tile_rows * ceil_div(task_.cols, task_.tile_cols) + c / task_.tile_cols;
    for (std::int64_t i = 0; i < entries; i += repeats, ++tile) {
      const float scale = task_.scales ? numbers_[task_.scales[tile]] : task_.outer[tile];
      for (std::int64_t j = i; j < smaller(i + repeats, entries); ++j) scales_[j] = scale;
    }
  }

  MIXPREC_MEMBER void decode_piece(std::int64_t r, std::int64_t c, std::int64_t n, std::int64_t offset) {
    float* target = task_.values + r * task_.cols + c;
    float* y = task_.past_caches ? result_ : target;
    const ScaleRun run{scales_ + entry_of(spread_, offset), spread_};
    elements_.decode(task_.codes + r * task_.row_bytes + c * task_.grid.bits / 8, n, run, y);
    if (task_.outer_layout == OuterLayout::one) multiply_in_place(y, n, task_.outer, false);
    if (task_.outer_layout == OuterLayout::per_row) multiply_in_place(y, n, task_.outer + r, false);
    if (task_.outer_layout == OuterLayout::per_column) multiply_in_place(y, n, task_.outer + c, true);
    if (task_.past_caches) store_past_caches(y, n, target);
  }

  const DecodeTask task_;
  Decoder elements_;
  float* scales_;
  bool has_scales_;  // whether tiles have scales, or fp32 numbers in their place
  Spread spread_;
  alignas(64) float numbers_[256];
  alignas(64) float result_[kPiece];
};

// Units [begin, end): panels of one row of tiles.
void decode_units(const DecodeTask& task, std::int64_t begin, std::int64_t end, float* scratch) {
  RowDecoder decoder(task, scratch);
  const std::int64_t across = ceil_div(task.cols, task.panel_cols);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t r = unit / across * task.panel_rows, c = unit % across * task.panel_cols;
    decoder.decode(r, smaller(r + task.panel_rows, task.rows), c, smaller(task.panel_cols, task.cols - c));
  }
  finish_stores();
}

}  // namespace
