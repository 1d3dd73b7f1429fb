// From largest magnitudes to scales. Arrays, so that the loops vectorise.
#pragma once

#include "bits.h"
#include "mixprec/kernels.h"

namespace {

using mixprec::ScaleRule;

// What a block's elements are multiplied by before and after rounding.
struct ScalePair {
  float* quantize;
  float* scale;
};

// quant_scale = min(fp32(target / amax), 2^127), 1 for an all-zero tensor, NaN where amax is not finite.
MIXPREC_INLINE float quant_scale(double target, float amax) {
  if (!(amax <= 0x1.fffffep127f)) return from_bits(kInfinity | kQuiet);
  if (amax == 0.0f) return 1.0f;
  const float scale = static_cast<float>(target / static_cast<double>(amax));
  return scale > kLargestScale ? kLargestScale : scale;
}

// 2^exponent for exponent in [-127, 127]; 2^-127 is subnormal.
MIXPREC_INLINE float scale_from_exponent(std::int32_t exponent) {
  return from_bits(exponent == -127 ? 0x00400000u : static_cast<std::uint32_t>(exponent + 127) << 23);
}

struct ExponentRule {
  std::uint32_t threshold;  // a mantissa above it adds one
  std::uint32_t carry;      // added before the exponent is read
  std::int32_t max_exponent;
};

MIXPREC_INLINE ExponentRule exponent_rule(ScaleRule rule, const mixprec::Element& element) {
  constexpr std::uint32_t never = 0x007fffffu;
  const std::uint32_t max_mantissa = to_bits(element.max_value) & 0x007fffffu;
  switch (rule) {
    case ScaleRule::ceil: return {0, 0, element.max_exponent};
    case ScaleRule::rceil: return {max_mantissa, 0, element.max_exponent};
    case ScaleRule::even: return {never, (1u << 22) >> element.mantissa_bits, element.max_exponent};
    default: return {never, 0, element.max_exponent};
  }
}

// amax: magnitude bits. The scale is NaN for a block with a non-finite element; 2^-127 for one of zeros.
MIXPREC_INLINE void exponent_scales(const std::uint32_t* MIXPREC_RESTRICT amax, std::int64_t n,
                                    const ExponentRule& rule, float* MIXPREC_RESTRICT quantize,
                                    float* MIXPREC_RESTRICT scale) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t a = amax[i];
    // A subnormal at or above 2^-127 is shifted once to read its mantissa; any below it ends at 2^-127.
    const std::uint32_t normal = (a < 0x00800000u ? a << 1 : a) & 0x007fffffu;
    std::int32_t e = static_cast<std::int32_t>(a >> 23) - 127 - rule.max_exponent;
    e += normal > rule.threshold ? 1 : 0;
    e += static_cast<std::int32_t>((normal + rule.carry) >> 23);
    e = a < 0x00400000u ? -127 : e;
    e = e < -127 ? -127 : e;
    e = e > 127 ? 127 : e;
    const float nan = from_bits(kInfinity | kQuiet);
    quantize[i] = a >= kInfinity ? nan : scale_from_exponent(-e);
    scale[i] = a >= kInfinity ? nan : scale_from_exponent(e);
  }
}

// Nearest-even rounding of a non-negative value to E4M3, saturating at 448.
MIXPREC_INLINE float round_scale_e4m3(float value) {
  const float a = 448.0f < value ? 448.0f : value;
  std::uint32_t e = to_bits(a) & kInfinity;
  e = e < (121u << 23) ? (121u << 23) : e;  // smallest normal: 2^-6
  const float c = from_bits(e + (20u << 23));
  return (a + c) - c;
}

// The two-level (NVFP4) scale of each block, under the tensor's quant_scale `tensor`.
MIXPREC_INLINE void two_level_scales(const std::uint32_t* MIXPREC_RESTRICT amax, std::int64_t n, float tensor,
                                     double target, float* MIXPREC_RESTRICT quantize, float* MIXPREC_RESTRICT scale) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float b = from_bits(amax[i]) * tensor;
    const float s = round_scale_e4m3(static_cast<float>(static_cast<double>(b) / target));
    scale[i] = s == 0.0f ? 1.0f : s;
    const float q = tensor / scale[i];
    quantize[i] = q > kLargestScale ? kLargestScale : q;
  }
}

}  // namespace
