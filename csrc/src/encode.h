// From grid values to packed codes.
#pragma once

#include "coder.h"

namespace {

template <class Coder>
MIXPREC_INLINE void encode_with(const Coder& coder, const float* MIXPREC_RESTRICT values, std::int64_t n,
                                std::uint32_t* MIXPREC_RESTRICT codes) {
  for (std::int64_t i = 0; i < n; ++i) codes[i] = coder.encode(values[i]);
}

// Whether FloatCoder<float> codes the format.
MIXPREC_INLINE bool is_single(const Grid& grid) {
  return !grid.table && !grid.integer && grid.min_exponent >= -126 && grid.mantissa_bits - grid.min_exponent <= 127;
}

MIXPREC_INLINE void encode_run(const Grid& grid, const float* values, std::int64_t n, std::uint32_t* codes) {
  if (grid.table) return encode_in_table(*grid.table, values, n, codes);
  if (grid.integer) return encode_with(IntegerCoder(grid), values, n, codes);
  if (is_single(grid) || grid.min_exponent == -126) return encode_with(FloatCoder<float>(grid), values, n, codes);
  encode_with(FloatCoder<double>(grid), values, n, codes);
}

#if defined(MIXPREC_LANES)

// Finite values of a short float format, a vector at a time.
class CodeLanes {
 public:
  explicit CodeLanes(const Grid& grid)
      : drop_(23 - grid.mantissa_bits),
        sign_shift_(32 - grid.bits),
        smallest_((grid.min_exponent + 127) << 23),
        first_field_((grid.min_exponent + 126) << grid.mantissa_bits),
        integers_(power_of_two<float>(grid.min_exponent - grid.mantissa_bits + 23)),
        sign_(grid.is_signed ? 1 << (grid.bits - 1) : 0),
        beyond_{} {}

  static bool fit(const Grid& grid) {
    return is_single(grid) && grid.min_exponent > -126 && grid.min_exponent < 100 && (grid.bits == 8 || grid.bits == 4);
  }

  MIXPREC_MEMBER LaneBits encode(const float* values) {
    const LaneBits bits = as_bits(load_lanes(values)), magnitude = bits & all_lanes(kMagnitude);
    const LaneBits normal = (magnitude >> drop_) - first_field_;
    // A subnormal is as many units as the last bits of itself plus 2^23 units say.
    const LaneBits subnormal = as_bits(as_floats(magnitude) + integers_) - static_cast<std::int32_t>(to_bits(integers_));
    beyond_ |= all_lanes(kInfinity - 1) - magnitude;  // negative where not finite
    return select_smaller(magnitude, LaneBits{} + smallest_, subnormal, normal) | (bits >> sign_shift_ & sign_);
  }

  // Whether all values were.
  MIXPREC_MEMBER bool finite() const { return !any_negative(beyond_); }

 private:
  int drop_, sign_shift_;
  std::int32_t smallest_, first_field_;
  float integers_;
  std::int32_t sign_;
  LaneBits beyond_;
};

// Writes the codes of whole vectors; returns of how many values, or 0 where one of them is not finite.
MIXPREC_INLINE std::int64_t write_lanes(const Grid& grid, const float* values, std::int64_t n, std::uint8_t* out) {
  if (!CodeLanes::fit(grid)) return 0;
  CodeLanes lanes(grid);
  std::int64_t i = 0;
  if (grid.bits == 8) {
    for (; i + kLanes <= n; i += kLanes) store_bytes(lanes.encode(values + i), out + i);
  } else {
    for (; i + kLanes <= n; i += kLanes) store_nibbles(lanes.encode(values + i), out + i / 2);
  }
  return lanes.finite() ? i : 0;
}

#else

MIXPREC_INLINE std::int64_t write_lanes(const Grid&, const float*, std::int64_t, std::uint8_t*) { return 0; }

#endif

// The codes of n values, from a byte on; `room` holds n.
MIXPREC_INLINE void write_codes(const Grid& grid, const float* values, std::int64_t n, std::uint32_t* room,
                                std::uint8_t* out) {
  const std::int64_t done = write_lanes(grid, values, n, out);
  if (done == n) return;
  encode_run(grid, values + done, n - done, room);
  write_bits(room, n - done, grid.bits, out + done * grid.bits / 8);
}

}  // namespace
