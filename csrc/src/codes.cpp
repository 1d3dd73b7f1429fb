// Grid values to packed codes and back.

#include <limits>
#include <stdexcept>
#include <vector>

#include "bits.h"
#include "dispatch.h"
#include "level.h"
#include "mixprec/kernels.h"
#include "parallel.h"

namespace mixprec {

namespace {

constexpr std::int64_t kGrain = 4096;
constexpr std::int64_t kColumns = 16;  // columns that are transposed together: one cache line of values

constexpr Element kE4m3{3, -6, 8, 448.0f, 448.0f, true};
constexpr Encoding kE4m3Codes{8, false, 0x7f, 0};
constexpr Run kOneThread{1, Level::plain};  // scales are few

void check_encoding(const Encoding& encoding) {
  if (encoding.bits < 2 || encoding.bits > 32) throw std::invalid_argument("a code has 2 to 32 bits");
}

// body(first, count, codes): rows or columns [first, first + count) and room for their codes, `extent` each.
template <class Body>
void for_lines(std::int64_t lines, std::int64_t extent, std::int64_t at_once, int threads, const Body& body) {
  const std::int64_t grain = ceil_div(kGrain, std::max<std::int64_t>(1, extent * at_once)) * at_once;
  parallel_parts(lines, grain, threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> codes(static_cast<std::size_t>(extent * at_once));
    for (std::int64_t i = begin; i < end; i += at_once) body(i, std::min(at_once, end - i), codes.data());
  });
}

// row[c] *= the scale of the tile that holds column c
void multiply_tiles(float* MIXPREC_RESTRICT row, std::int64_t cols, std::int64_t tile_cols,
                    const float* MIXPREC_RESTRICT scales, std::int64_t stride) {
  for (std::int64_t c = 0, tile = 0; c < cols; c += tile_cols, ++tile) {
    const float scale = scales[tile * stride];
    for (std::int64_t i = c; i < smaller(c + tile_cols, cols); ++i) row[i] *= scale;
  }
}

float decode_power_of_two(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return from_bits(code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23);
}

std::uint8_t encode_power_of_two(float scale) {
  return scale == scale ? static_cast<std::uint8_t>(to_bits(scale) >> 23) : 255;
}

}  // namespace

std::int64_t packed_bytes(std::int64_t n, int bits) { return (n * bits + 7) / 8; }

void pack(const float* values, std::int64_t rows, std::int64_t cols, bool transpose, const Element& element,
          const Encoding& encoding, std::uint8_t* codes, const Run& run) {
  check_encoding(encoding);
  const LevelKernels& kernels = kernels_for(run.level);
  const std::int64_t lines = transpose ? cols : rows, extent = transpose ? rows : cols;
  const std::int64_t bytes = packed_bytes(extent, encoding.bits);
  for_lines(lines, extent, transpose ? kColumns : 1, run.threads,
            [&](std::int64_t first, std::int64_t count, std::uint32_t* room) {
    if (transpose) {
      std::uint32_t line[kColumns];
      for (std::int64_t r = 0; r < rows; ++r) {
        kernels.encode(element, encoding, values + r * cols + first, count, line);
        for (std::int64_t j = 0; j < count; ++j) room[j * extent + r] = line[j];
      }
    } else {
      kernels.encode(element, encoding, values + first * cols, cols, room);
    }
    for (std::int64_t j = 0; j < count; ++j)
      kernels.write_bits(room + j * extent, extent, encoding.bits, codes + (first + j) * bytes);
  });
}

void unpack(const std::uint8_t* codes, std::int64_t rows, std::int64_t cols, bool transpose, const Element& element,
            const Encoding& encoding, float* values, const Run& run) {
  check_encoding(encoding);
  const LevelKernels& kernels = kernels_for(run.level);
  const std::int64_t lines = transpose ? cols : rows, extent = transpose ? rows : cols;
  const std::int64_t bytes = packed_bytes(extent, encoding.bits);
  for_lines(lines, extent, transpose ? kColumns : 1, run.threads,
            [&](std::int64_t first, std::int64_t count, std::uint32_t* room) {
    for (std::int64_t j = 0; j < count; ++j)
      kernels.read_bits(codes + (first + j) * bytes, extent, encoding.bits, room + j * extent);
    if (!transpose) return kernels.decode(element, encoding, room, cols, values + first * cols);
    std::uint32_t line[kColumns];
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < count; ++j) line[j] = room[j * extent + r];
      kernels.decode(element, encoding, line, count, values + r * cols + first);
    }
  });
}

void encode_scales(const float* scales, std::int64_t n, ScaleRule rule, std::uint8_t* codes) {
  if (rule == ScaleRule::two_level) return pack(scales, 1, n, false, kE4m3, kE4m3Codes, codes, kOneThread);
  for (std::int64_t i = 0; i < n; ++i) codes[i] = encode_power_of_two(scales[i]);
}

void decode_scales(const std::uint8_t* codes, std::int64_t n, ScaleRule rule, float* scales) {
  if (rule == ScaleRule::two_level) return unpack(codes, 1, n, false, kE4m3, kE4m3Codes, scales, kOneThread);
  for (std::int64_t i = 0; i < n; ++i) scales[i] = decode_power_of_two(codes[i]);
}

void apply_scales(float* values, std::int64_t rows, std::int64_t cols, const Cast& cast, int axis,
                  const float* block_scales, const float* outer, const Run& run) {
  const bool blocks = cast.granularity == Granularity::block, by_row = cast.granularity == Granularity::row;
  const bool outer_by_column = by_row && axis == 0, outer_by_row = by_row && axis == 1;
  const std::int64_t tile_rows = axis == 1 ? cast.outer : cast.reduction;
  const std::int64_t tile_cols = axis == 1 ? cast.reduction : cast.outer;
  // Scales lie as [outer tiles, reduction tiles].
  const std::int64_t row_stride = axis == 1 ? ceil_div(cols, tile_cols) : 1;
  const std::int64_t col_stride = axis == 1 ? 1 : ceil_div(rows, tile_rows);
  const std::int64_t grain = ceil_div(kGrain, std::max<std::int64_t>(1, cols));
  parallel_parts(rows, grain, run.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* MIXPREC_RESTRICT row = values + r * cols;
      if (blocks) multiply_tiles(row, cols, tile_cols, block_scales + r / tile_rows * row_stride, col_stride);
      for (std::int64_t c = 0; c < cols; ++c) row[c] *= outer_by_column ? outer[c] : outer[outer_by_row ? r : 0];
    }
  });
}

}  // namespace mixprec
