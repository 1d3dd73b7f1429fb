// What one instruction set's build of the kernels offers to the driver: functions over a part of the work, so
// that the driver alone knows threads.
#pragma once

#include <cstdint>

#include "mixprec/kernels.h"

namespace mixprec {

// Elements of a matrix rounded under scales that are known or that a whole row shares.
struct ElementTask {
  Matrix x;
  Element element;
  Rounding rounding;
  Random random;
  double target;              // row scales: what a row's largest magnitude is brought to
  const float* quant_scales;  // column scales: one per column
  float quant_scale;          // one for all
  float* carrier;
  float* outer;               // row scales: one per row, written
  bool past_caches;           // large results bypass the caches
};

// Elements of a matrix rounded under one scale per tile of tile_rows x tile_cols.
struct BlockTask {
  Matrix x;
  Element element;
  Rounding rounding;
  Random random;
  std::int64_t tile_rows, tile_cols;
  ScaleRule rule;
  double target;
  float quant_scale;  // two_level: of the tensor
  float* carrier;
  float* block_scales;  // null, or where tile (i, j)'s scale goes: [i * scale_row_stride + j * scale_col_stride]
  std::int64_t scale_row_stride, scale_col_stride;
  const std::uint32_t* block_amax;  // null, or magnitude bits of every tile, row by row of tiles
  bool apply_scale;
  bool past_caches;
};

struct HadamardTask {
  Matrix x;
  int size;
  float factor;  // fp32(1 / sqrt(size))
  const float* signs;
  bool inverse;
  float* y;
  std::int64_t y_cols;
};

// Rows [row_begin, row_end) and columns [col_begin, col_end); begins lie on tile boundaries.
struct Rect {
  std::int64_t row_begin, row_end, col_begin, col_end;
};

// Largest block along one axis; buffers on the stack are sized by it.
constexpr std::int64_t kMaxBlock = 4096;
// Largest Hadamard transform.
constexpr int kMaxTransform = 128;

struct LevelKernels {
  std::uint32_t (*amax)(const Matrix& x, std::int64_t begin, std::int64_t end);
  void (*amax_columns)(const Matrix& x, std::int64_t row_begin, std::int64_t row_end, std::uint32_t* amax);
  void (*word_range)(const Random& random, std::int64_t begin, std::int64_t end, std::uint32_t* words);
  void (*round_all)(const ElementTask& task, std::int64_t begin, std::int64_t end);
  void (*round_rows)(const ElementTask& task, std::int64_t row_begin, std::int64_t row_end);
  void (*round_columns)(const ElementTask& task, std::int64_t row_begin, std::int64_t row_end);
  std::uint32_t (*amax_blocks)(const BlockTask& task, const Rect& rect, std::uint32_t* block_amax);
  void (*round_blocks)(const BlockTask& task, const Rect& rect);
  void (*hadamard_rows)(const HadamardTask& task, std::int64_t row_begin, std::int64_t row_end);
  void (*hadamard_panels)(const HadamardTask& task, const Rect& rect);
  void (*encode)(const Element& element, const Encoding& encoding, const float* values, std::int64_t n,
                 std::uint32_t* codes);
  void (*decode)(const Element& element, const Encoding& encoding, const std::uint32_t* codes, std::int64_t n,
                 float* values);
  void (*write_bits)(const std::uint32_t* codes, std::int64_t n, int bits, std::uint8_t* out);
  void (*read_bits)(const std::uint8_t* in, std::int64_t n, int bits, std::uint32_t* codes);
};

// One of each per build of level.cpp; null where the build has no such level.
const LevelKernels* plain_kernels();
const LevelKernels* avx2_kernels();
const LevelKernels* avx512_kernels();

}  // namespace mixprec
