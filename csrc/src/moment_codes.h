// 8-bit moments: pieces of whole blocks to fp32 values and back. What is computed is said in
// src/mixprec/kernels/reference/_moment_codes.py.
#pragma once

#include "moment_decoding.h"
#include "moment_encoding.h"

namespace {

constexpr float kLeastScale = 0x1p-100f;

// Magnitude bits of a block: the largest, and the smallest but 0 (0 if there is none).
struct Extent {
  std::uint32_t largest, smallest;
};

MIXPREC_INLINE Extent extent_of(const float* MIXPREC_RESTRICT x, std::int64_t n) {
  std::uint32_t largest = 0, below = 0xffffffffu;  // one less than the smallest: 0 comes last
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

// Codes of one block, whose scale and power are written too.
MIXPREC_INLINE void store_block(const StoredMoment& stored, std::int64_t block, Extent extent, const float* x,
                                std::int64_t n, std::uint8_t* out) {
  const mixprec::MomentLayout& layout = stored.layout;
  const bool raised = layout.kind == MomentKind::e4m3;
  const bool finite = extent.largest < kInfinity;
  if (!finite) extent = {0, 0};
  const float amax = from_bits(extent.largest);
  const float scale = amax < kLeastScale ? kLeastScale : amax;
  const int power = raised ? power_of(layout, scale, extent.smallest) : 0;
  stored.scales[block] = finite ? scale : quiet_nan();
  if (raised) stored.powers[block] = static_cast<std::uint8_t>(power);
  if (!finite) {
    std::memset(out, !raised && layout.is_signed ? kSignedZero : 0, static_cast<std::size_t>(n));
    return;
  }
  const float quantize = 1.0f / scale;
  if (raised && layout.is_signed) return write_raised<SignedRaised>(power, quantize, x, n, out);
  if (raised) return write_raised<UnsignedRaised>(power, quantize, x, n, out);
  if (layout.is_signed) return write_block(SignedPlaces(quantize, moment_numbers()), x, n, out);
  write_block(UnsignedPlaces(quantize, moment_numbers()), x, n, out);
}

// Keeps n values from element `start` on, which begins a block. Extents of several blocks are found in a row: one's
// reduction then waits for no other's.
MIXPREC_INLINE void store_codes(const StoredMoment& stored, std::int64_t start, std::int64_t n, const float* values) {
  constexpr std::int64_t row = 8;
  Extent extents[row];
  const std::int64_t size = stored.layout.block;
  std::uint8_t* out = static_cast<std::uint8_t*>(stored.values) + start;
  for (std::int64_t first = 0; first < n; first += row * size) {
    const std::int64_t last = smaller(first + row * size, n);
    Extent* extent = extents;
    for (std::int64_t i = first; i < last; i += size) *extent++ = extent_of(values + i, smaller(size, n - i));
    extent = extents;
    for (std::int64_t i = first; i < last; i += size)
      store_block(stored, (start + i) / size, *extent++, values + i, smaller(size, n - i), out + i);
  }
}

// n values from element `start` on, which begins a block.
MIXPREC_INLINE void load_codes(const StoredMoment& stored, std::int64_t start, std::int64_t n, float* values) {
  const std::int64_t size = stored.layout.block;
  const auto* codes = static_cast<const std::uint8_t*>(stored.values) + start;
  for (std::int64_t i = 0; i < n; i += size)
    load_block(stored, (start + i) / size, codes + i, smaller(size, n - i), values + i);
}

}  // namespace
