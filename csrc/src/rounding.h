// Rounding one fp32 value to a format's grid. Written as selects, so that loops over it vectorise.
//
// Three methods, the fastest that is exact for the format:
//  - IntegerRounder: formats with fp32's exponent range (bf16, tf32, fp32). The dropped bits are the same
//    number everywhere, subnormals included, so the integer view rounds by adding and masking.
//  - FloatRounder<float>: narrower exponents. Adding and subtracting 2^(e + 23 - M) rounds the magnitude
//    to nearest, ties to even, at the spacing 2^(e - M), with e clamped below at the format's smallest
//    exponent; the other roundings correct that result by one spacing. Vectors are written out too, in lanes().
//  - FloatRounder<double>: the same in fp64, for formats whose spacing or range fp32 arithmetic cannot hold.
#pragma once

#include "lanes.h"
#include "mixprec/kernels.h"

namespace {

using mixprec::Grid;
using mixprec::Rounding;

template <class F>
struct FloatLayout;
template <>
struct FloatLayout<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa = 23;
  static constexpr int bias = 127;
  static constexpr Bits exponent_mask = 0x7f800000u;
};
template <>
struct FloatLayout<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa = 52;
  static constexpr int bias = 1023;
  static constexpr Bits exponent_mask = 0x7ff0000000000000u;
};

template <class F>
MIXPREC_INLINE F power_of_two(int exponent) {
  using L = FloatLayout<F>;
  return from_bits(static_cast<typename L::Bits>(exponent + L::bias) << L::mantissa);
}

template <class F, Rounding R, bool Propagate, bool KeepsZeroSign>
struct FloatRounder {
  using L = FloatLayout<F>;
  using Bits = typename L::Bits;
  static constexpr bool has_lanes = sizeof(F) == 4;

  F limit;          // magnitudes are cut here first; lies on the grid
  F max_value;
  F overflow;
  Bits min_exponent;
  Bits magic;       // exponent bits to 2^(e + L::mantissa - M)
  Bits spacing;     // exponent bits to 2^(e - M), subtracted
  Bits fraction;    // 2^(32 + M - e): bits of the constant from which e's bits are subtracted

  explicit FloatRounder(const Grid& grid) {
    const int m = grid.mantissa_bits;
    // Nearest and stochastic rounding may pass max_value, which `propagate` must see; one binade more is enough.
    const bool watch = Propagate && R != Rounding::toward_zero;
    limit = watch ? power_of_two<F>(grid.max_exponent + 1) : static_cast<F>(grid.max_value);
    max_value = static_cast<F>(grid.max_value);
    overflow = static_cast<F>(grid.overflow);
    min_exponent = static_cast<Bits>(grid.min_exponent + L::bias) << L::mantissa;
    magic = static_cast<Bits>(L::mantissa - m) << L::mantissa;
    spacing = static_cast<Bits>(m) << L::mantissa;
    fraction = static_cast<Bits>(2 * L::bias + 32 + m) << L::mantissa;
  }

  MIXPREC_MEMBER float operator()(float value, std::uint32_t word) const {
    const std::uint32_t bits = to_bits(value);
    F a = static_cast<F>(from_bits(bits & kMagnitude));
    a = limit < a ? limit : a;  // a NaN compares false and stays
    Bits e = to_bits(a) & L::exponent_mask;
    e = e < min_exponent ? min_exponent : e;
    const F c = from_bits(static_cast<Bits>(e + magic));
    F r = (a + c) - c;
    if constexpr (R != Rounding::nearest_even) {
      const F ulp = from_bits(static_cast<Bits>(e - spacing));
      const F low = r > a ? r - ulp : r;
      r = low;
      if constexpr (R == Rounding::stochastic) {
        // a - low and its product with a power of two are exact, so the truncation is floor(2^32 * fraction).
        const F threshold = (a - low) * from_bits(static_cast<Bits>(fraction - e));
        r = word < static_cast<std::uint32_t>(threshold) ? low + ulp : low;
      }
    }
    if constexpr (Propagate && R != Rounding::toward_zero) r = r > max_value ? overflow : r;
    if constexpr (Propagate && R == Rounding::toward_zero) r = (bits & kMagnitude) == kInfinity ? overflow : r;
    const float result = from_bits(to_bits(static_cast<float>(r)) | (bits & kSign));
    return KeepsZeroSign ? result : result + 0.0f;
  }

#if defined(MIXPREC_LANES)
  // A vector's magnitudes, rounded: sum - c is their value, the bits by which sum exceeds c their number of spacings.
  struct Rounded {
    LaneBits exponent;
    LaneFloats c, sum;
  };

  MIXPREC_MEMBER Rounded round_lanes(LaneBits magnitude, LaneBits words) const {
    const LaneFloats a = limited(as_floats(magnitude), all_lanes(limit));
    const LaneBits e = larger_unsigned(as_bits(a) & all_lanes(L::exponent_mask), all_lanes(min_exponent));
    const LaneFloats c = as_floats(e + all_lanes(magic));
    if constexpr (R == Rounding::nearest_even) return {e, c, a + c};
    LaneFloats sum = add_toward_zero(a, c);
    if constexpr (R == Rounding::stochastic) {
      const LaneFloats threshold = (a - (sum - c)) * as_floats(all_lanes(fraction) - e);
      sum = as_floats(step_where_below(as_bits(sum), words, threshold));
    }
    return {e, c, sum};
  }

  // The operator for a vector of magnitudes.
  MIXPREC_MEMBER LaneFloats magnitude_lanes(LaneBits magnitude, LaneBits words) const {
    const Rounded rounded = round_lanes(magnitude, words);
    const LaneFloats r = rounded.sum - rounded.c;
    if constexpr (Propagate && R != Rounding::toward_zero) return replace_above(r, r, max_value, overflow);
    if constexpr (Propagate && R == Rounding::toward_zero)
      return replace_above(r, as_floats(magnitude), kLargestFinite, overflow);
    return r;
  }

  // The operator for a vector.
  MIXPREC_MEMBER LaneFloats lanes(LaneFloats value, LaneBits words) const {
    LaneFloats r = magnitude_lanes(as_bits(value) & all_lanes(kMagnitude), words);
    r = as_floats(as_bits(r) | (as_bits(value) & all_lanes(kSign)));
    return KeepsZeroSign ? r : r + all_lanes(0.0f);
  }

  // Codes of a vector's magnitudes in a format that saturates; anything for a NaN.
  MIXPREC_MEMBER LaneBits code_lanes(LaneBits magnitude, LaneBits words, int drop) const {
    const Rounded rounded = round_lanes(magnitude, words);
    // The number of spacings has the leading bit of a normal value, which adds one to the field.
    return ((rounded.exponent - all_lanes(min_exponent)) >> drop) + as_bits(rounded.sum) - as_bits(rounded.c);
  }
#endif
};

template <Rounding R>
struct IntegerRounder {
  static constexpr bool has_lanes = false;
  std::uint32_t drop;  // low bits of an fp32 that the format does not have
  std::uint32_t mask;
  std::uint32_t max_bits;
  std::uint32_t overflow_bits;

  explicit IntegerRounder(const Grid& grid)
      : drop(static_cast<std::uint32_t>(23 - grid.mantissa_bits)),
        mask((1u << drop) - 1),
        max_bits(to_bits(grid.max_value)),
        overflow_bits(to_bits(grid.overflow)) {}

  MIXPREC_MEMBER float operator()(float value, std::uint32_t word) const {
    const std::uint32_t bits = to_bits(value);
    const std::uint32_t magnitude = bits & kMagnitude;
    std::uint32_t m = magnitude;
    if constexpr (R == Rounding::nearest_even) m += (mask >> 1) + ((m >> drop) & 1u);
    // word < dropped << (32 - drop), as a carry out of the dropped bits.
    if constexpr (R == Rounding::stochastic) m += mask - (word >> (32 - drop));
    m &= ~mask;
    if constexpr (R == Rounding::toward_zero) m = m > max_bits && m < kInfinity ? max_bits : m;
    m = m > max_bits ? overflow_bits : m;
    m = magnitude > kInfinity ? magnitude | kQuiet : m;
    return from_bits(m | (bits & kSign));
  }

#if defined(MIXPREC_LANES)
  // The operator for a vector of magnitudes, to nearest; anything for a NaN.
  MIXPREC_MEMBER LaneFloats magnitude_lanes(LaneBits magnitude, LaneBits) const {
    static_assert(R == Rounding::nearest_even, "the other roundings are not written out");
    const LaneBits odd = (magnitude >> static_cast<int>(drop)) & all_lanes(1u);
    const LaneFloats r = as_floats((magnitude + all_lanes(mask >> 1) + odd) & all_lanes(~mask));
    return replace_above(r, r, from_bits(max_bits), from_bits(overflow_bits));
  }
#endif
};

enum class Method { integer, single, wide };

// The fastest method that is exact for the format; see the top of this file.
MIXPREC_INLINE Method method_for(const Grid& grid) {
  const int m = grid.mantissa_bits;
  if (grid.min_exponent == -126 && m >= 1 && grid.negative_zero) return Method::integer;
  const bool magic_fits = grid.max_exponent + 1 + 23 - m <= 127 && m <= 22;
  const bool spacing_fits = grid.min_exponent - m >= -126;
  const bool fraction_fits = 32 + m - grid.min_exponent <= 127 && 32 + m - grid.max_exponent - 1 >= -126;
  return magic_fits && spacing_fits && fraction_fits ? Method::single : Method::wide;
}

}  // namespace
