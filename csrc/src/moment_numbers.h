// The numbers that codes of E4M3 stand for under each power, and the lines of the dynamic map.
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

// The dynamic map as lines. Region r of values lies around the crossing from decade r - 1 to decade r: from exponent
// 3 r - 24 on, the first region from 0 and the last one to 1. Its line is that of decade r.
struct DynamicLines {
  static constexpr int kRegions = 8;  // the last one twice, so that three bits tell a region
  float least;  // what serves for all below it: 2^-24, or the map's smallest number that is not 0
  float offset[kRegions], inverse[kRegions], place[kRegions];                 // by region
  float offset_at[32], inverse_at[32], place_at[32];  // by the lowest five bits of a value's exponent field
  float base[16];  // of a place's line, by the lowest four bits of its exponent field

  DynamicLines(bool is_signed, float unit, float added) {
    double power = 1e7;
    for (int r = 0; r < kRegions; ++r) {
      if (r > 0 && r < kDecades) power /= 10.0;
      const int parts = (is_signed ? 1 : 2) << smaller(r, kDecades - 1);
      offset[r] = static_cast<float>((2 * parts + 9) / -18.0) * unit;
      inverse[r] = static_cast<float>(parts * power / 9.0) * unit;
      place[r] = (static_cast<float>(parts) + added) * unit;
    }
    least = is_signed ? 0x1p-24f : static_cast<float>(13.0 / 4e7);
    for (int i = 0; i < 32; ++i) {
      const auto r = static_cast<std::size_t>(i < 7 ? 0 : (i - 7) / 3);
      offset_at[i] = offset[r < kRegions ? r : kRegions - 1];
      inverse_at[i] = inverse[r < kRegions ? r : kRegions - 1];
      place_at[i] = place[r < kRegions ? r : kRegions - 1];
    }
    set_bases(is_signed);
  }

 private:
  // Of eight entries the one of 0 is that of 1: a factor of 0 tells them apart there.
  void set_bases(bool is_signed) {
    for (float& each : base) each = 0.0f;
    double power = 1e7;
    for (int decade = 0; decade < kDecades; ++decade, power /= 10.0)
      base[(decade + (is_signed ? 15 : 16)) & 15] = static_cast<float>(1.0 / power);
    base[is_signed ? 6 : 7] = 1.0f;
    if (is_signed) base[7] = base[15];
  }
};

constexpr float kCrossing = 5.0f / 3.0f;  // slope from one decade to the next, in that of the next one
constexpr float kDecadeBelow = 5.0f;      // slope of the decade before, in the same
constexpr float kChanceUnit = 0x1p16f;    // a place, where its fraction is kept

// Where a value in [0, 1] lies among the numbers of the map that are not negative, in fp32: its place with a sign, and
// 1/2 more; without, 2^16 times its place, of a value that is not 0.
template <bool Signed>
class DynamicPlaces {
 public:
  explicit DynamicPlaces(const DynamicLines& lines) : lines_(lines) {
#if defined(__AVX512F__)
    for (int i = 0; i < 2; ++i) {
      offset_[i] = _mm512_loadu_ps(lines.offset_at + 16 * i);
      inverse_[i] = _mm512_loadu_ps(lines.inverse_at + 16 * i);
      place_[i] = _mm512_loadu_ps(lines.place_at + 16 * i);
    }
#elif defined(__AVX2__)
    offset_ = load_lanes(lines.offset);
    inverse_ = load_lanes(lines.inverse);
    place_ = load_lanes(lines.place);
#endif
  }

  MIXPREC_MEMBER float operator()(float u) const {
    u = u < lines_.least ? lines_.least : u;
    const std::uint32_t i = to_bits(u) >> 23 & 31u;
    const double product = static_cast<double>(u) * static_cast<double>(lines_.inverse_at[i]);
    // The sum is exact before it is rounded.
    const auto w = static_cast<float>(product + static_cast<double>(lines_.offset_at[i]));
    const float crossing = w * kCrossing;
    const auto below = static_cast<float>(static_cast<double>(w) * kDecadeBelow + 2.0 * kUnit);
    const auto top = static_cast<float>(static_cast<double>(w) * 2.0 - kLast * kUnit);
    float at = w < crossing ? w : crossing;
    at = at < below ? at : below;
    at = at > top ? at : top;
    return at + lines_.place_at[i];
  }

#if defined(MIXPREC_LANES)
  MIXPREC_MEMBER LaneFloats lanes(LaneFloats value) const {
    const LaneFloats u = at_least(value, all_lanes(lines_.least));
    LaneFloats offset, inverse, place;
    line_of(as_bits(u), offset, inverse, place);
    const LaneFloats w = multiply_add(u, inverse, offset);
    const LaneFloats below = multiply_add(w, all_lanes(kDecadeBelow), all_lanes(2.0f * kUnit));
    const LaneFloats top = multiply_add(w, all_lanes(2.0f), all_lanes(-kLast * kUnit));
    const LaneFloats at = limited(limited(w * all_lanes(kCrossing), w), below);
    return at_least(at, top) + place;
  }
#endif

 private:
  static constexpr float kUnit = Signed ? 1.0f : kChanceUnit;
  static constexpr float kLast = Signed ? 63.0f : 127.0f;  // from the last decade's first number to its last one

#if defined(__AVX512F__)
  MIXPREC_MEMBER void line_of(LaneBits bits, LaneFloats& offset, LaneFloats& inverse, LaneFloats& place) const {
    const __m512i i = _mm512_srli_epi32((__m512i)bits, 23);
    offset = _mm512_permutex2var_ps(offset_[0], i, offset_[1]);
    inverse = _mm512_permutex2var_ps(inverse_[0], i, inverse_[1]);
    place = _mm512_permutex2var_ps(place_[0], i, place_[1]);
  }
  __m512 offset_[2], inverse_[2], place_[2];
#elif defined(__AVX2__)
  MIXPREC_MEMBER void line_of(LaneBits bits, LaneFloats& offset, LaneFloats& inverse, LaneFloats& place) const {
    const __m256i exponent = _mm256_sub_epi32(_mm256_srli_epi32((__m256i)bits, 23), _mm256_set1_epi32(127 - 24));
    const __m256i third = _mm256_mulhi_epu16(exponent, _mm256_set1_epi32(0x5580));  // 2^16 / 3 and a little more
    const __m256i r = _mm256_min_epi16(third, _mm256_set1_epi32(DynamicLines::kRegions - 1));
    offset = _mm256_permutevar8x32_ps(offset_, r);
    inverse = _mm256_permutevar8x32_ps(inverse_, r);
    place = _mm256_permutevar8x32_ps(place_, r);
  }
  LaneFloats offset_, inverse_, place_;
#endif
  const DynamicLines& lines_;
};

struct MomentNumbers {
  float powers[2][kPowers][256];  // e4m3: without and with a sign
  float largest[2][kPowers];      // twice the largest of these formats, under a power's root
  DynamicLines chances{false, kChanceUnit, -1.0f}, nearest{true, 1.0f, 0.5f};

  MomentNumbers() {
    for (std::uint32_t code = 0; code < 256; ++code) {
      set_powers(kE4M4, code, powers[0]);
      set_powers(kE4M3, code, powers[1]);
    }
    // By chance, what lies above the largest by a rounding would go on to a code that there is not.
    set_largest(2.0 * static_cast<double>(kE4M4.max_value), 1.0 - 0x1p-21, largest[0]);
    set_largest(2.0 * static_cast<double>(kE4M3.max_value), 1.0, largest[1]);
  }

 private:
  static void set_largest(double largest, double factor, float* roots) {
    const double root = __builtin_sqrt(largest);
    const double each[kPowers] = {largest, largest, root, __builtin_sqrt(root)};
    for (int power = 0; power < kPowers; ++power) roots[power] = static_cast<float>(each[power] * factor);
  }

  static void set_powers(const Grid& grid, std::uint32_t code, float (*numbers)[256]) {
    const bool negative = grid.is_signed && code >= 0x80u;
    const std::uint32_t body = negative ? code - 0x80u : code;
    const double z = static_cast<double>(FloatCoder<double>(grid).decode(body)) / static_cast<double>(grid.max_value);
    const double root = __builtin_sqrt(z);
    const double raised[kPowers] = {z * z, z, root, __builtin_sqrt(root)};
    for (int power = 0; power < kPowers; ++power)
      numbers[power][code] = static_cast<float>(negative ? -raised[power] : raised[power]);
  }
};

// Made at the first use.
MIXPREC_INLINE const MomentNumbers& moment_numbers() {
  static const MomentNumbers numbers;
  return numbers;
}

}  // namespace
