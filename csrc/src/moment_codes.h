// 8-bit moments: pieces of whole blocks to fp32 values and back. What is computed is said in
// src/mixprec/kernels/reference/_moment_codes.py.
#pragma once

#include "level.h"
#include "moment_decoding.h"
#include "moment_encoding.h"

namespace {

constexpr float kLeastScale = 0x1p-100f;

// Magnitude bits of a block: the largest, and the smallest but 0 (0 if there is none, or none is asked for).
struct Extent {
  std::uint32_t largest, smallest;
};

MIXPREC_INLINE Extent extent_of(const float* MIXPREC_RESTRICT x, std::int64_t n, bool with_smallest) {
  std::uint32_t largest = 0, below = 0xffffffffu;  // one less than the smallest: 0 comes last
  if (!with_smallest) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t m = to_bits(x[i]) & kMagnitude;
      largest = m > largest ? m : largest;
    }
    return {largest, 0};
  }
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t m = to_bits(x[i]) & kMagnitude;
    largest = m > largest ? m : largest;
    below = m - 1 < below ? m - 1 : below;
  }
  return {largest, below + 1};
}

MIXPREC_INLINE int power_of(const mixprec::MomentLayout& layout, float scale, std::uint32_t smallest) {
  if (!layout.expand) return layout.is_signed ? 1 : 0;
  const int range = static_cast<int>(to_bits(scale) >> 23) - static_cast<int>(smallest >> 23);
  const int limit = layout.is_signed ? 22 : 16;
  return (range <= limit ? 1 : 0) + (2 * range <= limit ? 1 : 0) + (4 * range <= limit ? 1 : 0);
}

// 1 / scale, or a little less, so that no value times it lies above 1: a subnormal quotient may be rounded by much.
MIXPREC_INLINE float inverse_of(float scale) {
  const float inverse = 1.0f / scale;
  return scale * inverse > 1.0f ? from_bits(to_bits(inverse) - 1) : inverse;
}

// What brings the largest magnitude of a block to twice the largest number of E4M3 or, a trifle below it, of E4M4: it
// is multiplied by this and then raised.
MIXPREC_INLINE float quantize_of(const mixprec::MomentLayout& layout, int power, float scale) {
  const float largest = moment_numbers().largest[layout.is_signed ? 1 : 0][power];
  return largest / (power == 0 ? root(scale) : scale);
}

// What coding a block needs to know of all its values.
struct BlockMeasure {
  float quantize;
  int power;
  bool finite;
};

// Of the blocks of a piece.
struct PieceMeasure {
  BlockMeasure blocks[kStepPiece / 128];
};

// Writes the block's scale and power.
MIXPREC_INLINE BlockMeasure measure_block(const StoredMoment& stored, std::int64_t block, const float* x,
                                          std::int64_t n) {
  const mixprec::MomentLayout& layout = stored.layout;
  const bool raised = layout.kind == MomentKind::e4m3;
  Extent extent = extent_of(x, n, raised && layout.expand);
  const bool finite = extent.largest < kInfinity;
  if (!finite) extent = {0, 0};
  const float amax = from_bits(extent.largest);
  const float scale = amax < kLeastScale ? kLeastScale : amax;
  const int power = raised ? power_of(layout, scale, extent.smallest) : 0;
  stored.scales[block] = finite ? scale : quiet_nan();
  if (raised) stored.powers[block] = static_cast<std::uint8_t>(power);
  return {raised ? quantize_of(layout, power, scale) : inverse_of(scale), power, finite};
}

MIXPREC_INLINE void write_codes(const StoredMoment& stored, const BlockMeasure& measure, const float* x,
                                const float* roots, std::int64_t n, std::uint8_t* out) {
  const bool raised = stored.layout.kind == MomentKind::e4m3, is_signed = stored.layout.is_signed;
  if (!measure.finite) {
    std::memset(out, !raised && is_signed ? kSignedZero : 0, static_cast<std::size_t>(n));
    return;
  }
  const BlockValues values{x, roots, measure.quantize};
  if (raised && is_signed) return write_raised<SignedRaised>(measure.power, values, n, out);
  if (raised) return write_raised<UnsignedRaised>(measure.power, values, n, out);
  if (is_signed) return write_block<SignedPlaces>(values, n, out);
  write_block<UnsignedPlaces>(values, n, out);
}

// Before n values of a piece, from element `start` on, are kept. All moments of a piece are measured before one is
// written: the wait for a block's scale is then spent on others.
MIXPREC_INLINE PieceMeasure measure_codes(const StoredMoment& stored, std::int64_t start, std::int64_t n,
                                          const float* values) {
  PieceMeasure measure;
  const std::int64_t size = stored.layout.block;
  for (std::int64_t i = 0; i < n; i += size)
    measure.blocks[i / size] = measure_block(stored, (start + i) / size, values + i, smaller(size, n - i));
  return measure;
}

MIXPREC_INLINE void store_codes(const StoredMoment& stored, std::int64_t start, std::int64_t n, const float* values,
                                const float* roots, const PieceMeasure& measure) {
  const std::int64_t size = stored.layout.block;
  std::uint8_t* out = static_cast<std::uint8_t*>(stored.values) + start;
  for (std::int64_t i = 0; i < n; i += size)
    write_codes(stored, measure.blocks[i / size], values + i, roots + i, smaller(size, n - i), out + i);
}

// n values of a piece, from element `start` on.
MIXPREC_INLINE void load_codes(const StoredMoment& stored, std::int64_t start, std::int64_t n, float* values) {
  const std::int64_t size = stored.layout.block;
  const auto* codes = static_cast<const std::uint8_t*>(stored.values) + start;
  for (std::int64_t i = 0; i < n; i += size)
    load_block(stored, (start + i) / size, codes + i, smaller(size, n - i), values + i);
}

}  // namespace
