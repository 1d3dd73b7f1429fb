// From largest magnitudes to scales. Arrays, so that the loops vectorise.
#pragma once

#include "level.h"
#include "rounding.h"

namespace {

using mixprec::ExponentRule;
using mixprec::ScaleKind;
using mixprec::Scaling;

// One entry per tile: what its elements are multiplied by before and after rounding, and what the carrier is
// multiplied by to give values (written where that differs between tiles).
struct TileScales {
  float* quantize;
  float* scale;
  float* outer;
};

MIXPREC_INLINE float quiet_nan() { return from_bits(kInfinity | kQuiet); }

// quant_scale = min(fp32(target / amax), 2^127), 1 where all is zero, NaN where amax is not finite.
MIXPREC_INLINE float quant_scale(double target, float amax) {
  float scale = static_cast<float>(target / static_cast<double>(amax));
  scale = scale > kLargestScale ? kLargestScale : scale;
  scale = amax == 0.0f ? 1.0f : scale;
  return amax <= kLargestFinite ? scale : quiet_nan();
}

// 2^exponent for exponent in [-127, 127]; 2^-127 is subnormal.
MIXPREC_INLINE float scale_from_exponent(std::int32_t exponent) {
  return from_bits(exponent == -127 ? 0x00400000u : static_cast<std::uint32_t>(exponent + 127) << 23);
}

MIXPREC_INLINE void set_exponent_rule(ExponentRule rule, const Grid& grid, Scaling& scaling) {
  constexpr std::uint32_t never = 0x007fffffu;
  scaling.threshold = never;
  scaling.carry = 0;
  scaling.max_exponent = grid.max_exponent;
  if (rule == ExponentRule::ceil) scaling.threshold = 0;
  if (rule == ExponentRule::rceil) scaling.threshold = to_bits(grid.max_value) & 0x007fffffu;
  if (rule == ExponentRule::even) scaling.carry = (1u << 22) >> grid.mantissa_bits;
}

// amax: magnitude bits. NaN for a tile with a non-finite element; 2^-127 for one of zeros.
MIXPREC_INLINE void power_scales(const Scaling& scaling, const std::uint32_t* MIXPREC_RESTRICT amax, std::int64_t n,
                                 float* MIXPREC_RESTRICT quantize, float* MIXPREC_RESTRICT scale,
                                 float* MIXPREC_RESTRICT outer) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t a = amax[i];
    // A subnormal is an integer times 2^-149, which as a float is normal.
    const std::uint32_t whole = to_bits(static_cast<float>(static_cast<std::int32_t>(a)));
    const std::uint32_t normal = a < 0x00800000u ? whole : a;
    const std::uint32_t mantissa = normal & 0x007fffffu;
    std::int32_t e = static_cast<std::int32_t>(normal >> 23) - (a < 0x00800000u ? 127 + 149 : 127);
    e += mantissa > scaling.threshold ? 1 : 0;
    e += static_cast<std::int32_t>((mantissa + scaling.carry) >> 23);
    e -= scaling.max_exponent;
    e = e < -127 || a == 0 ? -127 : e;
    e = e > 127 ? 127 : e;
    const float power = a >= kInfinity ? quiet_nan() : scale_from_exponent(e);
    const float inverse = a >= kInfinity ? quiet_nan() : scale_from_exponent(-e);
    quantize[i] = inverse * scaling.prescale;
    scale[i] = power;
  }
  if (scaling.in_carrier) return;
  for (std::int64_t i = 0; i < n; ++i) {
    outer[i] = scale[i] / scaling.prescale;
    scale[i] = 1.0f;
  }
}

// Where QuEST clips a Gaussian for the grid of E2M1, over its largest element, in standard deviations
// (arXiv:2502.05003).
constexpr double kQuestReach = 2.92247856 / 6.0;

// Powers of two from the sums of `counts` elements and of their squares, instead of a largest magnitude.
MIXPREC_INLINE void deviation_scales(const Scaling& scaling, const double* const* sums,
                                     const double* MIXPREC_RESTRICT counts, std::int64_t n, const TileScales& out) {
  const double* MIXPREC_RESTRICT elements = sums[0];
  const double* MIXPREC_RESTRICT squares = sums[1];
  for (std::int64_t i = 0; i < n; ++i) {
    const double mean = elements[i] / counts[i];
    double variance = squares[i] / counts[i] - mean * mean;
    variance = variance < 0.0 ? 0.0 : variance;
    const auto field = static_cast<std::int32_t>(to_bits(__builtin_sqrt(variance) * kQuestReach) >> 52 & 0x7ffu);
    std::int32_t e = field - 1023;  // -1023 for zero
    e = e < -127 ? -127 : e;
    e = e > 127 ? 127 : e;
    const bool finite = field != 0x7ff;
    out.quantize[i] = (finite ? scale_from_exponent(-e) : quiet_nan()) * scaling.prescale;
    out.scale[i] = finite ? scale_from_exponent(e) : quiet_nan();
  }
}

MIXPREC_INLINE void fp32_scales(double target, const std::uint32_t* MIXPREC_RESTRICT amax, std::int64_t n,
                                float* MIXPREC_RESTRICT quantize, float* MIXPREC_RESTRICT scale,
                                float* MIXPREC_RESTRICT outer) {
  for (std::int64_t i = 0; i < n; ++i) {
    quantize[i] = quant_scale(target, from_bits(amax[i]));
    scale[i] = 1.0f;
    outer[i] = 1.0f / quantize[i];
  }
}

// Short floats under the tensor's quant_scale `above`; round_scale: to the scale's grid, saturating. The quotient of
// two fp32 numbers is the same whether it is rounded to fp32 at once or through fp64, so a target that fp32 holds is
// divided by in fp32 (T).
template <class T, class RoundScale>
MIXPREC_INLINE void floating_scales_with(const RoundScale& round_scale, float above, float least, T target,
                                         const std::uint32_t* MIXPREC_RESTRICT amax, std::int64_t n,
                                         float* MIXPREC_RESTRICT quantize, float* MIXPREC_RESTRICT scale) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float b = from_bits(amax[i]) * above;
    float s = round_scale(static_cast<float>(static_cast<T>(b) / target), 0u);
    s = s == 0.0f ? 1.0f : s;
    s = s < least ? least : s;
    s = b <= kLargestFinite ? s : quiet_nan();
    const float q = above / s;
    scale[i] = s;
    quantize[i] = q > kLargestScale ? kLargestScale : q;
  }
}

template <class RoundScale>
MIXPREC_INLINE void floating_scales(const RoundScale& round_scale, const Scaling& scaling, double target,
                                    const std::uint32_t* amax, std::int64_t n, const TileScales& out) {
  const auto single = static_cast<float>(target);
  if (static_cast<double>(single) == target)
    return floating_scales_with(round_scale, scaling.above, scaling.least, single, amax, n, out.quantize, out.scale);
  floating_scales_with(round_scale, scaling.above, scaling.least, target, amax, n, out.quantize, out.scale);
}

// The scales of n tiles; `outer` is written where the carrier is not multiplied by them.
MIXPREC_INLINE void tile_scales(const Scaling& scaling, double target, const std::uint32_t* amax, std::int64_t n,
                                const TileScales& out) {
  if (scaling.kind == ScaleKind::power) return power_scales(scaling, amax, n, out.quantize, out.scale, out.outer);
  if (scaling.kind == ScaleKind::fp32) return fp32_scales(target, amax, n, out.quantize, out.scale, out.outer);
  if (method_for(scaling.grid) == Method::single) {
    const FloatRounder<float, Rounding::nearest_even, false, true> round_scale(scaling.grid);
    return floating_scales(round_scale, scaling, target, amax, n, out);
  }
  const FloatRounder<double, Rounding::nearest_even, false, true> round_scale(scaling.grid);
  floating_scales(round_scale, scaling, target, amax, n, out);
}

}  // namespace
