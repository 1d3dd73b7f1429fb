// Between grid values and their codes: sign | exponent | mantissa, two's complement, or those of a table.
#pragma once

#include "bit_stream.h"
#include "rounding.h"
#include "table.h"

namespace {

// The exponent field of F's values, shifted by the format's smallest exponent, is the code's. F is float where
// its subnormals hold no normal value of the format but its own, else double.
template <class F>
class FloatCoder {
 public:
  explicit FloatCoder(const Grid& grid)
      : drop_(L::mantissa - grid.mantissa_bits),
        mantissa_bits_(grid.mantissa_bits),
        first_field_(static_cast<Bits>(grid.min_exponent + L::bias - 1) << grid.mantissa_bits),
        sign_(grid.is_signed ? 1u << (grid.bits - 1) : 0u),
        body_(grid.is_signed ? sign_ - 1 : 0xffffffffu >> (32 - grid.bits)),
        nan_(grid.nan_code),
        infinity_(grid.infinity_code),
        // Where F's exponent range is the format's, the shift gives subnormal codes too.
        smallest_(grid.min_exponent == 1 - L::bias ? F(0) : power_of_two<F>(grid.min_exponent)),
        units_(grid.min_exponent == 1 - L::bias ? F(0) : power_of_two<F>(grid.mantissa_bits - grid.min_exponent)),
        unit_(power_of_two<double>(grid.min_exponent - grid.mantissa_bits)) {}

  MIXPREC_MEMBER std::uint32_t encode(float value) const {
    const std::uint32_t bits = to_bits(value), magnitude = bits & kMagnitude;
    const F a = static_cast<F>(from_bits(magnitude));
    const bool subnormal = a < smallest_;
    const auto position = static_cast<std::uint32_t>(static_cast<std::int32_t>(subnormal ? a * units_ : F(0)));
    const auto shifted = static_cast<std::uint32_t>((to_bits(a) >> drop_) - first_field_);
    std::uint32_t code = subnormal ? position : shifted;
    code = magnitude == kInfinity ? infinity_ : code;
    code |= (bits & kSign) != 0 ? sign_ : 0;
    return magnitude > kInfinity ? nan_ : code;
  }

  MIXPREC_MEMBER float decode(std::uint32_t code) const {
    const std::uint32_t magnitude = code & body_;
    const std::uint64_t field = magnitude >> mantissa_bits_;
    const std::uint64_t mantissa = magnitude & ((1u << mantissa_bits_) - 1);
    const std::uint64_t hidden = std::uint64_t{1} << mantissa_bits_;
    // (mantissa + hidden) * 2^(field - 1) units; an exact product of fp64.
    const double factor = from_bits((field == 0 ? 1023 : field + 1022) << 52) * unit_;
    double value = static_cast<double>(static_cast<std::int64_t>(field == 0 ? mantissa : mantissa + hidden)) * factor;
    const double infinity = from_bits(std::uint64_t{0x7ff} << 52), nan = from_bits(std::uint64_t{0xfff} << 51);
    if (infinity_ != 0 && magnitude >= infinity_) value = magnitude == infinity_ ? infinity : nan;
    if (nan_ != 0 && (magnitude == nan_ || code == nan_)) value = nan;
    return static_cast<float>((code & sign_) != 0 ? -value : value);
  }

 private:
  using L = FloatLayout<F>;
  using Bits = typename L::Bits;
  int drop_, mantissa_bits_;
  Bits first_field_;
  std::uint32_t sign_, body_, nan_, infinity_;
  F smallest_, units_;
  double unit_;
};

class IntegerCoder {
 public:
  explicit IntegerCoder(const Grid& grid)
      : mask_(0xffffffffu >> (32 - grid.bits)),
        sign_(1u << (grid.bits - 1)),
        units_(power_of_two<float>(grid.mantissa_bits)),
        unit_(power_of_two<float>(-grid.mantissa_bits)) {}

  MIXPREC_MEMBER std::uint32_t encode(float value) const {
    const float units = value != value ? 0.0f : value * units_;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(units)) & mask_;
  }

  MIXPREC_MEMBER float decode(std::uint32_t code) const {
    return static_cast<float>(static_cast<std::int32_t>(code ^ sign_) - static_cast<std::int32_t>(sign_)) * unit_;
  }

 private:
  std::uint32_t mask_, sign_;
  float units_, unit_;
};

template <class Coder>
MIXPREC_INLINE void encode_with(const Coder& coder, const float* MIXPREC_RESTRICT values, std::int64_t n,
                                std::uint32_t* MIXPREC_RESTRICT codes) {
  for (std::int64_t i = 0; i < n; ++i) codes[i] = coder.encode(values[i]);
}

// Codes of n values of the grid.
MIXPREC_INLINE void encode_run(const Grid& grid, const float* values, std::int64_t n, std::uint32_t* codes) {
  if (grid.table) return encode_in_table(*grid.table, values, n, codes);
  if (grid.integer) return encode_with(IntegerCoder(grid), values, n, codes);
  const bool single = grid.min_exponent >= -126 && grid.mantissa_bits - grid.min_exponent <= 127;
  if (single || grid.min_exponent == -126) return encode_with(FloatCoder<float>(grid), values, n, codes);
  encode_with(FloatCoder<double>(grid), values, n, codes);
}

// The number of each code of a format of at most 8 bits.
MIXPREC_INLINE void decode_all(const Grid& grid, float* MIXPREC_RESTRICT numbers) {
  if (grid.table) {
    for (int i = 0; i < grid.table->size; ++i) numbers[grid.table->codes[i]] = grid.table->values[i];
    return;
  }
  const FloatCoder<double> coder(grid);
  const IntegerCoder integers(grid);
  for (std::uint32_t code = 0; code < 1u << grid.bits; ++code)
    numbers[code] = grid.integer ? integers.decode(code) : coder.decode(code);
}

}  // namespace
