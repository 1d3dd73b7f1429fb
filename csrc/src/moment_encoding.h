// Codes of the elements of a block.
#pragma once

#include "bit_stream.h"
#include "moment_numbers.h"

namespace {

constexpr std::uint32_t kPlaceFactor = 0x9e3779b9u, kWordFactor = 0x85ebca6bu;
constexpr std::int64_t kLargestBlock = 256;

// What each place of a block adds to an element's bits before they are mixed.
struct PlaceWords {
  alignas(64) std::uint32_t words[kLargestBlock];
  constexpr PlaceWords() : words() {
    for (std::uint32_t j = 0; j < kLargestBlock; ++j) words[j] = j * kPlaceFactor;
  }
};
constexpr PlaceWords kPlaces;

MIXPREC_INLINE float root(float u) { return __builtin_sqrtf(u); }

#if defined(MIXPREC_LANES)
typedef std::uint32_t LaneUnsigned __attribute__((vector_size(kLanes * 4)));  // whose products wrap

MIXPREC_INLINE LaneUnsigned chance_lanes(LaneBits magnitude, std::int64_t place) {
  return ((LaneUnsigned)magnitude + (LaneUnsigned)load_lanes(kPlaces.words + place)) * kWordFactor;
}
#endif
MIXPREC_INLINE std::uint32_t chance(std::uint32_t magnitude, std::uint32_t place) {
  return (magnitude + place) * kWordFactor;
}

// A second moment that is not 0 has no code of 0.
MIXPREC_INLINE std::uint32_t at_least_one(std::uint32_t code, std::uint32_t magnitude) {
  return code == 0 && magnitude != 0 ? 1u : code;
}

// A block's values, their roots (of second moments alone), and what they are multiplied by before they are rounded.
struct BlockValues {
  const float* x;
  const float* roots;
  float quantize;
};

// |x| under a power, from its product with a constant: twice what is rounded.
template <int Power, class T>
MIXPREC_INLINE T raised(T u) {
  if constexpr (Power <= 1) return u;
  const T square = u * u;
  return Power == 2 ? square : square * square;
}

constexpr float kSmallestNormal = 0x1p-6f;  // of E4M3 and E4M4
constexpr std::uint32_t kFirstBits = (127u - 6u) << 23;

// Twice z or, where that is more, z + 2^-6: its bits, less those of 2^-6, are a code's and all that is dropped, below
// the smallest normal number too, where the spacing stays.
MIXPREC_INLINE std::uint32_t lifted(float twice) {
  const float sum = 0.5f * twice + kSmallestNormal;
  return to_bits(twice > sum ? twice : sum);
}
#if defined(MIXPREC_LANES)
MIXPREC_INLINE LaneBits lifted(LaneFloats twice) {
  return as_bits(at_least(twice, multiply_add(twice, all_lanes(0.5f), all_lanes(kSmallestNormal))));
}
#endif

// Codes of E4M3: to nearest.
template <int Power>
class SignedRaised {
 public:
  explicit SignedRaised(const BlockValues& values) : values_(values) {}

  MIXPREC_MEMBER std::uint32_t operator()(std::int64_t i) const {
    const float magnitude = from_bits(to_bits(values_.x[i]) & kMagnitude);
    const float base = Power == 0 ? root(magnitude) : magnitude;
    const std::uint32_t rounded = lifted(raised<Power>(base * values_.quantize)) + kRounding;
    return rounded >> kDrop | (to_bits(values_.x[i]) & kSign) >> 24;
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(std::int64_t i) const {
    const LaneFloats x = load_lanes(values_.x + i);
    LaneFloats base = Power >= 2 ? x : as_floats(as_bits(x) & all_lanes(kMagnitude));
    if constexpr (Power == 0) base = root(base);
    const LaneBits rounded = lifted(raised<Power>(base * all_lanes(values_.quantize))) + all_lanes(kRounding);
    return (LaneBits)((LaneUnsigned)with_signs(rounded << (24 - kDrop), x) >> 24);
  }
#endif

 private:
  static constexpr int kDrop = 23 - 3;
  static constexpr std::uint32_t kRounding = (1u << (kDrop - 1)) - kFirstBits;  // half a place
  const BlockValues& values_;
};

// Codes of E4M4: by chance.
template <int Power>
class UnsignedRaised {
 public:
  explicit UnsignedRaised(const BlockValues& values) : values_(values) {}

  MIXPREC_MEMBER std::uint32_t operator()(std::int64_t i) const {
    const std::uint32_t magnitude = to_bits(values_.x[i]) & kMagnitude;
    const float base = Power == 0 ? values_.roots[i] : from_bits(magnitude);
    const std::uint32_t bits = lifted(raised<Power>(base * values_.quantize)) - kFirstBits;
    return at_least_one((bits + (chance(magnitude, kPlaces.words[i]) >> kBits)) >> kDrop, magnitude);
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(std::int64_t i) const {
    const LaneBits magnitude = as_bits(load_lanes(values_.x + i)) & all_lanes(kMagnitude);
    const LaneFloats base = Power == 0 ? load_lanes(values_.roots + i) : as_floats(magnitude);
    const LaneUnsigned bits = (LaneUnsigned)lifted(raised<Power>(base * all_lanes(values_.quantize))) - kFirstBits;
    const LaneBits code = (LaneBits)((bits + (chance_lanes(magnitude, i) >> kBits)) >> kDrop);
    return larger_signed(code, smaller_unsigned(magnitude, all_lanes(1u)));
  }
#endif

 private:
  static constexpr int kDrop = 23 - 4, kBits = 32 - kDrop;
  const BlockValues& values_;
};

// Codes of the signed dynamic map: to nearest.
class SignedPlaces {
 public:
  explicit SignedPlaces(const BlockValues& values) : values_(values), places_(moment_numbers().nearest) {}

  MIXPREC_MEMBER std::uint32_t operator()(std::int64_t i) const {
    const std::uint32_t bits = to_bits(values_.x[i]);
    const auto j = static_cast<std::uint32_t>(places_(from_bits(bits & kMagnitude) * values_.quantize));
    if ((bits & kSign) == 0) return kSignedZero + j;
    return kSignedZero - (j < kSignedZero ? j : kSignedZero);
  }

#if defined(MIXPREC_LANES)
  // -1 for the place that the map lacks.
  MIXPREC_MEMBER LaneBits lanes(std::int64_t i) const {
    const LaneFloats x = load_lanes(values_.x + i);
    const LaneFloats magnitude = as_floats(as_bits(x) & all_lanes(kMagnitude));
    const LaneBits place = as_bits(places_.lanes(magnitude * all_lanes(values_.quantize)));
    return truncated(as_floats(with_signs(place, x))) + all_lanes(std::uint32_t{kSignedZero});
  }
#endif

 private:
  const BlockValues& values_;
  DynamicPlaces<true> places_;
};

// Codes of the dynamic map without a sign: by chance.
class UnsignedPlaces {
 public:
  explicit UnsignedPlaces(const BlockValues& values) : values_(values), places_(moment_numbers().chances) {}

  MIXPREC_MEMBER std::uint32_t operator()(std::int64_t i) const {
    const std::uint32_t magnitude = to_bits(values_.x[i]) & kMagnitude;
    const auto at = static_cast<std::uint32_t>(places_(from_bits(magnitude) * values_.quantize));
    return magnitude == 0 ? 0u : (at + (chance(magnitude, kPlaces.words[i]) >> 16)) >> 16;
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(std::int64_t i) const {
    const LaneBits magnitude = as_bits(load_lanes(values_.x + i)) & all_lanes(kMagnitude);
    const LaneBits at = truncated(places_.lanes(as_floats(magnitude) * all_lanes(values_.quantize)));
    const LaneUnsigned code = ((LaneUnsigned)at + (chance_lanes(magnitude, i) >> 16)) >> 16;
    return smaller_unsigned((LaneBits)code, magnitude);  // 0 for 0; what is not has a code of at least 1
  }
#endif

 private:
  const BlockValues& values_;
  DynamicPlaces<false> places_;
};

template <class Codes>
MIXPREC_INLINE void write_block(const BlockValues& values, std::int64_t n, std::uint8_t* MIXPREC_RESTRICT out) {
  const Codes code(values);
  std::int64_t i = 0;
#if defined(MIXPREC_LANES)
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const LaneBits codes[4] = {code.lanes(i), code.lanes(i + kLanes), code.lanes(i + 2 * kLanes),
                               code.lanes(i + 3 * kLanes)};
    store_bytes(codes, out + i);
  }
#endif
  for (; i < n; ++i) out[i] = static_cast<std::uint8_t>(code(i));
}

template <template <int> class Codes>
MIXPREC_INLINE void write_raised(int power, const BlockValues& values, std::int64_t n, std::uint8_t* out) {
  switch (power) {
    case 0: return write_block<Codes<0>>(values, n, out);
    case 1: return write_block<Codes<1>>(values, n, out);
    case 2: return write_block<Codes<2>>(values, n, out);
    default: return write_block<Codes<3>>(values, n, out);
  }
}

}  // namespace
