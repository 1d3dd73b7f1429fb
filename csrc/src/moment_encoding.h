// Codes of the elements of a block.
#pragma once

#include "bit_stream.h"
#include "moment_numbers.h"

namespace {

constexpr std::uint32_t kPlaceFactor = 0x9e3779b9u, kWordFactor = 0x85ebca6bu;

MIXPREC_INLINE float root(float u) { return __builtin_sqrtf(u); }

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

template <int Power, class T>
MIXPREC_INLINE T raised(T u) {
  if constexpr (Power == 0) return root(u);
  if constexpr (Power == 1) return u;
  const T square = u * u;
  return Power == 2 ? square : square * square;
}

// Codes of E4M3: to nearest.
template <int Power>
class SignedRaised {
 public:
  explicit SignedRaised(float quantize) : quantize_(quantize), rounder_(kE4M3), coder_(kE4M3) {}

  MIXPREC_MEMBER std::uint32_t operator()(float x, std::uint32_t) const {
    const float z = raised<Power>(from_bits(to_bits(x) & kMagnitude) * quantize_) * kE4M3.max_value;
    return coder_.encode(from_bits(to_bits(rounder_(z, 0u)) | (to_bits(x) & kSign)));
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats x, LaneBits) const {
    const LaneFloats u = as_floats(as_bits(x) & all_lanes(kMagnitude)) * all_lanes(quantize_);
    const LaneBits z = as_bits(raised<Power>(u) * all_lanes(kE4M3.max_value));
    return rounder_.code_lanes(z, LaneBits{}, 23 - kE4M3.mantissa_bits) | (as_bits(x) >> 24 & all_lanes(0x80u));
  }
#endif

 private:
  float quantize_;
  FloatRounder<float, Rounding::nearest_even, false, true> rounder_;
  FloatCoder<float> coder_;
};

// Codes of E4M4: by chance.
template <int Power>
class UnsignedRaised {
 public:
  explicit UnsignedRaised(float quantize) : quantize_(quantize) {}

  MIXPREC_MEMBER std::uint32_t operator()(float x, std::uint32_t place) const {
    const std::uint32_t magnitude = to_bits(x) & kMagnitude;
    float z = raised<Power>(from_bits(magnitude) * quantize_) * kE4M4.max_value;
    const bool normal = z >= kSmallest;
    z = normal ? z : z + kSmallest;
    const std::uint32_t cut = (to_bits(z) + (chance(magnitude, place) >> kBits)) >> kDrop;
    return at_least_one(cut - (normal ? kFirst - 16u : kFirst), magnitude);
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats x, LaneBits places) const {
    const LaneBits magnitude = as_bits(x) & all_lanes(kMagnitude);
    const LaneFloats z = raised<Power>(as_floats(magnitude) * all_lanes(quantize_)) * all_lanes(kE4M4.max_value);
    const LaneBits normal = z >= all_lanes(kSmallest);
    const LaneFloats lifted = normal ? z : z + all_lanes(kSmallest);
    const LaneUnsigned word = (LaneUnsigned)chance_lanes(magnitude, places) >> kBits;
    const LaneBits cut = (as_bits(lifted) + (LaneBits)word) >> kDrop;
    const LaneBits code = cut - (normal ? all_lanes(kFirst - 16u) : all_lanes(kFirst));
    return larger_unsigned(code, smaller_unsigned(magnitude, all_lanes(1u)));
  }
#endif

 private:
  static constexpr int kDrop = 23 - 4, kBits = 32 - kDrop;
  static constexpr float kSmallest = 0x1p-6f;
  static constexpr std::uint32_t kFirst = (127u - 6u) << 4;  // of the smallest normal number, its bits >> kDrop
  float quantize_;
};

// Codes of the signed dynamic map: to nearest.
class SignedPlaces {
 public:
  SignedPlaces(float quantize, const MomentNumbers& numbers) : quantize_(quantize), places_(numbers.nearest) {}

  MIXPREC_MEMBER std::uint32_t operator()(float x, std::uint32_t) const {
    const auto j = static_cast<std::uint32_t>(places_(from_bits(to_bits(x) & kMagnitude) * quantize_));
    if ((to_bits(x) & kSign) == 0) return kSignedZero + j;
    return kSignedZero - (j < kSignedZero ? j : kSignedZero);
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats x, LaneBits) const {
    const LaneFloats magnitude = as_floats(as_bits(x) & all_lanes(kMagnitude));
    const LaneBits place = as_bits(places_.lanes(magnitude * all_lanes(quantize_)));
    const LaneBits whole = truncated(as_floats(place | (as_bits(x) & all_lanes(kSign))));
    return larger_signed(whole + all_lanes(std::uint32_t{kSignedZero}), LaneBits{});
  }
#endif

 private:
  float quantize_;
  DynamicPlaces<true> places_;
};

// Codes of the dynamic map without a sign: by chance.
class UnsignedPlaces {
 public:
  UnsignedPlaces(float quantize, const MomentNumbers& numbers) : quantize_(quantize), places_(numbers.chances) {}

  MIXPREC_MEMBER std::uint32_t operator()(float x, std::uint32_t place) const {
    const std::uint32_t magnitude = to_bits(x) & kMagnitude;
    const auto at = static_cast<std::uint32_t>(places_(from_bits(magnitude) * quantize_));
    return magnitude == 0 ? 0u : (at + (chance(magnitude, place) >> 16)) >> 16;
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats x, LaneBits places) const {
    const LaneBits magnitude = as_bits(x) & all_lanes(kMagnitude);
    const LaneBits at = truncated(places_.lanes(as_floats(magnitude) * all_lanes(quantize_)));
    const LaneUnsigned word = (LaneUnsigned)chance_lanes(magnitude, places);
    return (at + (LaneBits)(word >> 16)) >> 16 & (magnitude != LaneBits{});
  }
#endif

 private:
  float quantize_;
  DynamicPlaces<false> places_;
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

template <template <int> class Codes>
MIXPREC_INLINE void write_raised(int power, float quantize, const float* x, std::int64_t n, std::uint8_t* out) {
  switch (power) {
    case 0: return write_block(Codes<0>(quantize), x, n, out);
    case 1: return write_block(Codes<1>(quantize), x, n, out);
    case 2: return write_block(Codes<2>(quantize), x, n, out);
    default: return write_block(Codes<3>(quantize), x, n, out);
  }
}

}  // namespace
