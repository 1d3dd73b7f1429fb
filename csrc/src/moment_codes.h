// 8-bit moments: pieces of whole blocks to fp32 values and back, as src/mixprec/kernels/reference/_moment_codes.py says.
#pragma once

#include "bit_stream.h"
#include "mixprec/optimizer.h"
#include "moment_numbers.h"

namespace {

using mixprec::MomentKind;
using mixprec::StoredMoment;

constexpr float kLeastScale = 0x1p-100f;
constexpr std::uint32_t kPlaceFactor = 0x9e3779b9u, kWordFactor = 0x85ebca6bu;

#if defined(MIXPREC_LANES)
typedef std::uint32_t LaneUnsigned __attribute__((vector_size(kLanes * 4)));  // whose products wrap

MIXPREC_INLINE LaneBits chance_lanes(LaneBits magnitude, LaneBits places) {
  return (LaneBits)(((LaneUnsigned)magnitude + (LaneUnsigned)places) * kWordFactor);
}
#endif
MIXPREC_INLINE std::uint32_t chance(std::uint32_t magnitude, std::uint32_t place) {
  return (magnitude + place) * kWordFactor;
}

// A second moment that is not 0 has no code of 0.
MIXPREC_INLINE std::uint32_t at_least_one(std::uint32_t code, std::uint32_t magnitude) {
  return code == 0 && magnitude != 0 ? 1u : code;
}

// Codes of e4m3. Places are j * kPlaceFactor.
template <bool Signed, int Power>
class RaisedCodes {
 public:
  explicit RaisedCodes(float quantize) : quantize_(quantize), rounder_(grid()), coder_(grid()) {}

  MIXPREC_MEMBER std::uint32_t operator()(float x, std::uint32_t place) const {
    const std::uint32_t magnitude = to_bits(x) & kMagnitude;
    const float z = raised(from_bits(magnitude) * quantize_) * grid().max_value;
    if constexpr (Signed) return coder_.encode(rounder_(from_bits(to_bits(z) | (to_bits(x) & kSign)), 0u));
    return at_least_one(coder_.encode(rounder_(z, chance(magnitude, place))), magnitude);
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats x, LaneBits places) const {
    const LaneBits magnitude = as_bits(x) & all_lanes(kMagnitude);
    const LaneBits z = as_bits(raised(as_floats(magnitude) * all_lanes(quantize_)) * all_lanes(grid().max_value));
    constexpr int drop = 23 - grid().mantissa_bits;
    if constexpr (Signed) return rounder_.code_lanes(z, LaneBits{}, drop) | (as_bits(x) >> 24 & all_lanes(0x80u));
    const LaneBits code = rounder_.code_lanes(z, chance_lanes(magnitude, places), drop);
    return larger_unsigned(code, smaller_unsigned(magnitude, all_lanes(1u)));
  }
#endif

 private:
  static constexpr const Grid& grid() { return Signed ? kE4M3 : kE4M4; }

  static MIXPREC_MEMBER float root(float u) { return __builtin_sqrtf(u); }
#if defined(MIXPREC_LANES)
  static MIXPREC_MEMBER LaneFloats root(LaneFloats u) { return ::root(u); }
#endif

  template <class T>
  static MIXPREC_MEMBER T raised(T u) {
    if constexpr (Power == 0) return root(u);
    if constexpr (Power == 1) return u;
    const T square = u * u;
    return Power == 2 ? square : square * square;
  }

  float quantize_;
  FloatRounder<float, Signed ? Rounding::nearest_even : Rounding::stochastic, false, true> rounder_;
  FloatCoder<float> coder_;
};

// Codes of the signed dynamic map: to nearest.
class SignedPlaces {
 public:
  SignedPlaces(float quantize, const MomentNumbers& numbers) : quantize_(quantize), middles_(numbers.middles) {}

  MIXPREC_MEMBER std::uint32_t operator()(float x, std::uint32_t) const {
    const std::uint32_t j = middles_(from_bits(to_bits(x) & kMagnitude) * quantize_);
    if ((to_bits(x) & kSign) == 0) return kSignedZero + j;
    return kSignedZero - (j < kSignedZero ? j : kSignedZero);
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats x, LaneBits) const {
    const LaneFloats magnitude = as_floats(as_bits(x) & all_lanes(kMagnitude));
    const LaneBits negative = as_bits(x) >> 31;  // all ones, or 0
    const LaneBits j = smaller_unsigned(middles_.lanes(magnitude * all_lanes(quantize_)),
                                        all_lanes(kSignedZero + 1u) + negative);
    return ((j ^ negative) - negative) + all_lanes(std::uint32_t{kSignedZero});
  }
#endif

 private:
  float quantize_;
  const Places& middles_;
};

// Codes of the dynamic map without a sign: by chance.
class UnsignedPlaces {
 public:
  UnsignedPlaces(float quantize, const MomentNumbers& numbers) : quantize_(quantize), numbers_(numbers) {}

  MIXPREC_MEMBER std::uint32_t operator()(float x, std::uint32_t place) const {
    const std::uint32_t magnitude = to_bits(x) & kMagnitude;
    const float u = from_bits(magnitude) * quantize_;
    const std::uint32_t below = numbers_.numbers(u);
    float fraction = (u - numbers_.dynamic[0][below]) * numbers_.inverse[below];
    fraction = fraction > kBelowOne ? kBelowOne : fraction;
    const auto threshold = static_cast<std::uint32_t>(fraction * 0x1p32f);
    return at_least_one(below + (chance(magnitude, place) < threshold ? 1u : 0u), magnitude);
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats x, LaneBits places) const {
    const LaneBits magnitude = as_bits(x) & all_lanes(kMagnitude);
    const LaneFloats u = as_floats(magnitude) * all_lanes(quantize_);
    const LaneBits below = numbers_.numbers.lanes(u);
    const LaneFloats fraction = (u - gathered(numbers_.dynamic[0], below)) * gathered(numbers_.inverse, below);
    const LaneFloats threshold = limited(fraction, all_lanes(kBelowOne)) * all_lanes(0x1p32f);
    const LaneBits code = step_where_below(below, chance_lanes(magnitude, places), threshold);
    return larger_unsigned(code, smaller_unsigned(magnitude, all_lanes(1u)));
  }
#endif

 private:
  static constexpr float kBelowOne = 0x1.fffffep-1f;
  float quantize_;
  const MomentNumbers& numbers_;
};

template <class Codes>
MIXPREC_INLINE void write_block(const Codes& code, const float* MIXPREC_RESTRICT x, std::int64_t n,
                                std::uint8_t* MIXPREC_RESTRICT out) {
  std::int64_t i = 0;
#if defined(MIXPREC_LANES)
  alignas(64) std::uint32_t first[kLanes];
  for (std::uint32_t j = 0; j < kLanes; ++j) first[j] = j * kPlaceFactor;
  LaneBits places = load_lanes(first);
  for (; i + kLanes <= n; i += kLanes) {
    store_bytes(code.lanes(load_lanes(x + i), places), out + i);
    places = (LaneBits)((LaneUnsigned)places + kLanes * kPlaceFactor);
  }
#endif
  for (; i < n; ++i) out[i] = static_cast<std::uint8_t>(code(x[i], static_cast<std::uint32_t>(i) * kPlaceFactor));
}

template <bool Signed>
MIXPREC_INLINE void write_raised(int power, float quantize, const float* x, std::int64_t n, std::uint8_t* out) {
  switch (power) {
    case 0: return write_block(RaisedCodes<Signed, 0>(quantize), x, n, out);
    case 1: return write_block(RaisedCodes<Signed, 1>(quantize), x, n, out);
    case 2: return write_block(RaisedCodes<Signed, 2>(quantize), x, n, out);
    default: return write_block(RaisedCodes<Signed, 3>(quantize), x, n, out);
  }
}

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

// One block, whose scale and power are written too.
MIXPREC_INLINE void store_block(const StoredMoment& stored, std::int64_t block, const float* x, std::int64_t n,
                                std::uint8_t* out) {
  const mixprec::MomentLayout& layout = stored.layout;
  const bool raised = layout.kind == MomentKind::e4m3;
  Extent extent = extent_of(x, n);
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
  if (raised) return layout.is_signed ? write_raised<true>(power, quantize, x, n, out)
                                      : write_raised<false>(power, quantize, x, n, out);
  if (layout.is_signed) return write_block(SignedPlaces(quantize, moment_numbers()), x, n, out);
  write_block(UnsignedPlaces(quantize, moment_numbers()), x, n, out);
}

// Keeps n values from element `start` on, which begins a block.
MIXPREC_INLINE void store_codes(const StoredMoment& stored, std::int64_t start, std::int64_t n, const float* values) {
  const std::int64_t extent = stored.layout.block;
  std::uint8_t* out = static_cast<std::uint8_t*>(stored.values) + start;
  for (std::int64_t i = 0; i < n; i += extent)
    store_block(stored, (start + i) / extent, values + i, smaller(extent, n - i), out + i);
}

MIXPREC_INLINE void load_block(const float* table, float scale, const std::uint8_t* MIXPREC_RESTRICT codes,
                               std::int64_t n, float* MIXPREC_RESTRICT y) {
  std::int64_t i = 0;
#if defined(MIXPREC_LANES)
  for (; i + kLanes <= n; i += kLanes)
    store_lanes(gathered(table, load_bytes(codes + i)) * all_lanes(scale), y + i);
#endif
  for (; i < n; ++i) y[i] = table[codes[i]] * scale;
}

// n values from element `start` on, which begins a block.
MIXPREC_INLINE void load_codes(const StoredMoment& stored, std::int64_t start, std::int64_t n, float* values) {
  const MomentNumbers& numbers = moment_numbers();
  const std::int64_t extent = stored.layout.block;
  const auto* codes = static_cast<const std::uint8_t*>(stored.values) + start;
  const int is_signed = stored.layout.is_signed ? 1 : 0;
  for (std::int64_t i = 0; i < n; i += extent) {
    const std::int64_t block = (start + i) / extent;
    const bool raised = stored.layout.kind == MomentKind::e4m3;
    const float* table = raised ? numbers.powers[is_signed][stored.powers[block] & 3u] : numbers.dynamic[is_signed];
    load_block(table, stored.scales[block], codes + i, smaller(extent, n - i), values + i);
  }
}

}  // namespace
