// The numbers that 8-bit codes of moments stand for, and where a value lies among those of the dynamic map.
#pragma once

#include "coder.h"
#include "scales.h"

namespace {

// Neither has a NaN here: the code that is E4M3's is not written, and read as the number that would follow.
constexpr Grid kE4M3{3, -6, 8, 448.0f, 448.0f, true, 8, true, false, 0, 0, nullptr};
constexpr Grid kE4M4{4, -6, 8, 496.0f, 496.0f, true, 8, false, false, 0, 0, nullptr};

constexpr int kPowers = 4;        // |x|^(1/2), |x|, |x|^2, |x|^4
constexpr int kDecades = 7;
constexpr int kSignedZero = 127;  // the code of 0 in the signed dynamic map

// The place of a value in [0, 1 + 2^-16) among ascending steps, of which none lies below 2^-22 and no two share the
// upper half of their bits: the number of steps at or below it. An entry holds the count at the smallest value with its
// upper half, times 2^16, and what the lower half must exceed for one more, as the addend that then carries.
class Places {
 public:
  static constexpr std::uint32_t first = 0x34800000u >> 16, last = 0x3f800000u >> 16;  // 2^-22, 1

  Places() = default;
  Places(const float* steps, int count) {
    int below = 0;
    for (std::uint32_t upper = first; upper <= last; ++upper) {
      while (below < count && to_bits(steps[below]) <= upper << 16) ++below;
      const bool inside = below < count && to_bits(steps[below]) >> 16 == upper;
      const std::uint32_t carry = inside ? 0x10000u - (to_bits(steps[below]) & 0xffffu) : 0u;
      entries_[upper - first] = (static_cast<std::uint32_t>(below) << 16) + carry;
    }
  }

  MIXPREC_MEMBER std::uint32_t operator()(float value) const {
    std::uint32_t bits = to_bits(value);
    bits = bits < first << 16 ? first << 16 : bits;
    return (entries_[(bits >> 16) - first] + (bits & 0xffffu)) >> 16;
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneBits lanes(LaneFloats value) const {
    const LaneBits bits = larger_unsigned(as_bits(value), all_lanes(first << 16));
    const LaneBits entry = gathered(entries_, (bits >> 16) - all_lanes(first));
    return (entry + (bits & all_lanes(0xffffu))) >> 16;
  }
#endif

 private:
  std::uint32_t entries_[last - first + 1];
};

struct MomentNumbers {
  float powers[2][kPowers][256];  // e4m3: without and with a sign
  float dynamic[2][256];
  float inverse[256];             // of the gap above each number of the dynamic map without a sign
  Places numbers;                 // among those from the second on but the last, without a sign
  Places middles;                 // among the thresholds of those that are not negative, with a sign

  MomentNumbers() {
    for (std::uint32_t code = 0; code < 256; ++code) {
      set_powers(kE4M4, code, powers[0]);
      set_powers(kE4M3, code, powers[1]);
    }
    set_dynamic();
    const float* each = dynamic[0];
    for (int j = 0; j < 255; ++j)
      inverse[j] = static_cast<float>(1.0 / (static_cast<double>(each[j + 1]) - static_cast<double>(each[j])));
    inverse[255] = 0.0f;
    numbers = Places(each + 1, 254);
    float thresholds[128];
    const float* positive = dynamic[1] + kSignedZero;
    for (int j = 0; j < 128; ++j)
      thresholds[j] =
          static_cast<float>((static_cast<double>(positive[j]) + static_cast<double>(positive[j + 1])) * 0.5);
    middles = Places(thresholds, 128);
  }

 private:
  static void set_powers(const Grid& grid, std::uint32_t code, float (*numbers)[256]) {
    const bool negative = grid.is_signed && code >= 0x80u;
    const std::uint32_t body = negative ? code - 0x80u : code;
    const double z = static_cast<double>(FloatCoder<double>(grid).decode(body)) / static_cast<double>(grid.max_value);
    const double root = __builtin_sqrt(z);
    const double raised[kPowers] = {z * z, z, root, __builtin_sqrt(root)};
    for (int power = 0; power < kPowers; ++power)
      numbers[power][code] = static_cast<float>(negative ? -raised[power] : raised[power]);
  }

  void set_dynamic() {
    int place[2] = {1, kSignedZero + 1};
    dynamic[0][0] = dynamic[1][kSignedZero] = 0.0f;
    double power = 1e6;
    for (int decade = 0; decade < kDecades; ++decade, power /= 10.0) {
      for (int is_signed = 0; is_signed < 2; ++is_signed) {
        const int parts = (is_signed ? 1 : 2) << decade;
        for (int j = 0; j < parts; ++j) {
          const double middle = static_cast<double>(2 * parts + 9 * (2 * j + 1)) / (20.0 * parts * power);
          dynamic[is_signed][place[is_signed]++] = static_cast<float>(middle);
        }
      }
    }
    dynamic[0][255] = dynamic[1][255] = 1.0f;
    for (int j = 1; j <= kSignedZero; ++j) dynamic[1][kSignedZero - j] = -dynamic[1][kSignedZero + j];
  }
};

// Made at the first use.
MIXPREC_INLINE const MomentNumbers& moment_numbers() {
  static const MomentNumbers numbers;
  return numbers;
}

}  // namespace
