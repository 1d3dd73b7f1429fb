// Between grid values, their codes (sign | exponent | mantissa, or two's complement) and packed bit streams.
#pragma once

#include "rounding.h"

namespace {

using mixprec::Encoding;

// The exponent field of F's values, shifted by the format's smallest exponent, is the code's. F is float where
// its subnormals hold no normal value of the format but its own, else double.
template <class F>
class FloatCoder {
 public:
  FloatCoder(const Element& element, const Encoding& encoding)
      : drop_(L::mantissa - element.mantissa_bits),
        mantissa_bits_(element.mantissa_bits),
        first_field_(static_cast<Bits>(element.min_exponent + L::bias - 1) << element.mantissa_bits),
        sign_(1u << (encoding.bits - 1)),
        nan_(encoding.nan),
        infinity_(encoding.infinity),
        // Where F's exponent range is the format's, the shift gives subnormal codes too.
        smallest_(element.min_exponent == 1 - L::bias ? F(0) : power_of_two<F>(element.min_exponent)),
        units_(element.min_exponent == 1 - L::bias ? F(0) : power_of_two<F>(element.mantissa_bits - element.min_exponent)),
        unit_(power_of_two<double>(element.min_exponent - element.mantissa_bits)) {}

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
    const std::uint32_t magnitude = code & (sign_ - 1);
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
  std::uint32_t sign_, nan_, infinity_;
  F smallest_, units_;
  double unit_;
};

class IntegerCoder {
 public:
  IntegerCoder(const Element& element, const Encoding& encoding)
      : mask_((1u << encoding.bits) - 1),
        sign_(1u << (encoding.bits - 1)),
        units_(power_of_two<float>(element.mantissa_bits)),
        unit_(power_of_two<float>(-element.mantissa_bits)) {}

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
void encode_with(const Coder& coder, const float* MIXPREC_RESTRICT values, std::int64_t n,
                 std::uint32_t* MIXPREC_RESTRICT codes) {
  for (std::int64_t i = 0; i < n; ++i) codes[i] = coder.encode(values[i]);
}

void encode_run(const Element& element, const Encoding& encoding, const float* values, std::int64_t n,
                std::uint32_t* codes) {
  if (encoding.integer) return encode_with(IntegerCoder(element, encoding), values, n, codes);
  const bool single = element.min_exponent >= -126 && element.mantissa_bits - element.min_exponent <= 127;
  if (single || element.min_exponent == -126) return encode_with(FloatCoder<float>(element, encoding), values, n, codes);
  encode_with(FloatCoder<double>(element, encoding), values, n, codes);
}

template <class Coder>
void decode_with(const Coder& coder, const std::uint32_t* MIXPREC_RESTRICT codes, std::int64_t n, int bits,
                 float* MIXPREC_RESTRICT values) {
  if (bits > 8) {
    for (std::int64_t i = 0; i < n; ++i) values[i] = coder.decode(codes[i]);
    return;
  }
  float table[256];
  for (std::uint32_t code = 0; code < 1u << bits; ++code) table[code] = coder.decode(code);
  for (std::int64_t i = 0; i < n; ++i) values[i] = table[codes[i]];
}

void decode_run(const Element& element, const Encoding& encoding, const std::uint32_t* codes, std::int64_t n,
                float* values) {
  if (encoding.integer) return decode_with(IntegerCoder(element, encoding), codes, n, encoding.bits, values);
  decode_with(FloatCoder<double>(element, encoding), codes, n, encoding.bits, values);
}

// Four codes of six bits in three bytes.
MIXPREC_INLINE void write_six_bits(const std::uint32_t* MIXPREC_RESTRICT codes, std::int64_t quads,
                                   std::uint8_t* MIXPREC_RESTRICT out) {
  for (std::int64_t i = 0; i < quads; ++i) {
    const std::uint32_t* c = codes + 4 * i;
    const std::uint32_t word = c[0] | c[1] << 6 | c[2] << 12 | c[3] << 18;
    out[3 * i] = static_cast<std::uint8_t>(word);
    out[3 * i + 1] = static_cast<std::uint8_t>(word >> 8);
    out[3 * i + 2] = static_cast<std::uint8_t>(word >> 16);
  }
}

// A little-endian bit stream of n codes that ends in a whole byte.
void write_bits(const std::uint32_t* MIXPREC_RESTRICT codes, std::int64_t n, int bits, std::uint8_t* MIXPREC_RESTRICT out) {
  std::int64_t done = 0;
  if (bits == 8) {
    for (; done < n; ++done) out[done] = static_cast<std::uint8_t>(codes[done]);
  } else if (bits == 4) {
    for (std::int64_t i = 0; i < n / 2; ++i) out[i] = static_cast<std::uint8_t>(codes[2 * i] | codes[2 * i + 1] << 4);
    done = n / 2 * 2;
  } else if (bits == 6) {
    write_six_bits(codes, n / 4, out);
    done = n / 4 * 4;
  }
  out += done * bits / 8;
  std::uint64_t pending = 0;
  int held = 0;
  for (; done < n; ++done) {
    pending |= static_cast<std::uint64_t>(codes[done]) << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *out++ = static_cast<std::uint8_t>(pending);
  }
  if (held > 0) *out = static_cast<std::uint8_t>(pending);
}

void read_bits(const std::uint8_t* MIXPREC_RESTRICT in, std::int64_t n, int bits, std::uint32_t* MIXPREC_RESTRICT codes) {
  std::int64_t done = 0;
  if (bits == 8) {
    for (; done < n; ++done) codes[done] = in[done];
  } else if (bits == 4) {
    for (; done < n / 2 * 2; ++done) codes[done] = in[done / 2] >> (done % 2 * 4) & 15u;
  }
  in += done * bits / 8;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  std::uint64_t pending = 0;
  int held = 0;
  for (; done < n; ++done) {
    for (; held < bits; held += 8) pending |= static_cast<std::uint64_t>(*in++) << held;
    codes[done] = static_cast<std::uint32_t>(pending & mask);
    pending >>= bits;
    held -= bits;
  }
}

}  // namespace
