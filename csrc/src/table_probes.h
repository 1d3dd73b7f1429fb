// Probes of formats that are short tables: places are found in registers.
#pragma once

#include "lane_counts.h"
#include "probe_kernels.h"
#include "table.h"

namespace {

// Whether an element lay more than half a step beyond the last number of its sign, which is q: in fp64, where products of two
// numbers of fp32 are exact.
MIXPREC_INLINE bool beyond_the_end(const Grid& grid, float y, float q, float v) {
  double end = grid.max_value, half_step = power_of_two<double>(grid.max_exponent - grid.mantissa_bits - 1);
  if (grid.table) {
    const float* last = grid.table->values + grid.table->size - 1;
    end = q < 0.0f ? -static_cast<double>(grid.table->values[0]) : static_cast<double>(*last);
    half_step = (static_cast<double>(*last) - static_cast<double>(last[-1])) / 2.0;
  }
  if (static_cast<double>(from_bits(to_bits(q) & kMagnitude)) != end) return false;
  return static_cast<double>(y) * end > static_cast<double>(v) * (end + half_step);
}

constexpr int kShortTable = 16;

#if defined(MIXPREC_LANES)

// The numbers of a table to nearest or toward zero.
class ShortTable {
 public:
  // Null, or of up to kShortTable numbers.
  ShortTable(const Table* given, Rounding rounding) : suspicious_(0.0f) {
    if (!given) return;
    const Table& table = *given;
    const TableSteps steps(table, rounding);
    for (int i = 0; i < kShortTable; ++i) {
      steps_[i] = i < steps.count ? steps.steps[i] : from_bits(kInfinity);
      values_[i] = i < table.size ? table.values[i] : 0.0f;
    }
    const float low = -table.values[0], high = table.values[table.size - 1];
    const float half_step = (high - table.values[table.size - 2]) / 2.0f;
    constexpr float kAlmost = 1.0f - 0x1p-10f;
    suspicious_ = ((low < high ? low : high) + half_step) * kAlmost;
  }

  // What a scaled magnitude that is below cannot be beyond the end.
  MIXPREC_MEMBER float suspicious() const { return suspicious_; }

#if defined(__AVX512F__)
  MIXPREC_MEMBER LaneFloats rounded(LaneFloats x) const {
    const __m512 steps = _mm512_load_ps(steps_);
    __m512i place = _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int half = kShortTable / 2; half > 0; half /= 2) {
      const __m512i middle = _mm512_add_epi32(place, _mm512_set1_epi32(half - 1));
      const __mmask16 above_it = _mm512_cmp_ps_mask(x, _mm512_permutexvar_ps(middle, steps), _CMP_GE_OQ);
      place = _mm512_mask_add_epi32(place, above_it, place, _mm512_set1_epi32(half));
    }
    return _mm512_permutexvar_ps(place, _mm512_load_ps(values_));
  }
#else
  MIXPREC_MEMBER LaneFloats rounded(LaneFloats x) const {
    __m256i less = _mm256_setzero_si256();
#pragma GCC unroll 16
    for (int i = 0; i < kShortTable - 1; ++i)
      less = _mm256_add_epi32(less, _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_set1_ps(steps_[i]), _CMP_GE_OQ)));
    const __m256i place = _mm256_sub_epi32(_mm256_setzero_si256(), less);
    const __m256 first = _mm256_permutevar8x32_ps(_mm256_load_ps(values_), place);
    const __m256 second = _mm256_permutevar8x32_ps(_mm256_load_ps(values_ + kLanes), place);
    return _mm256_blendv_ps(first, second, _mm256_castsi256_ps(_mm256_slli_epi32(place, 28)));  // the bit of 8
  }
#endif

 private:
  alignas(64) float steps_[kShortTable];
  alignas(64) float values_[kShortTable];
  float suspicious_;
};

// One entry per Width elements (0: one for all). x with signs; magnitudes go to `values`.
template <int Width>
Shares table_run(const ShortTable& table, const Grid& grid, const ProbeRun& given) {
  const ProbeRun run = given;
  const LaneFloats second = all_lanes(run.second_factor), suspicious = all_lanes(table.suspicious());
  const LaneBits magnitude = all_lanes(kMagnitude);
  LaneCount kept;
  std::int32_t saturated = 0;
  for (std::int64_t i = 0, v = 0; i < run.n; i += kLanes, ++v) {
    const std::int64_t entry = Width == 0 ? 0 : i / (Width == 0 ? 1 : Width);
    const LaneFloats quantize = Width == 1 ? load_lanes(run.quantize + i) : all_lanes(run.quantize[entry]);
    const LaneFloats factor = Width == 1 ? load_lanes(run.factor + i) : all_lanes(run.factor[entry]);
    const LaneFloats scaled = load_lanes(run.x + i) * quantize, q = table.rounded(scaled);
    const LaneFloats m = as_floats(as_bits(q) & magnitude);
    kept.add(v, nonzero(m));
    store_lanes(m * factor * second, run.values + i);
    if (__builtin_expect(any(above(as_floats(as_bits(scaled) & magnitude), suspicious)), 0))
      for (int k = 0; k < kLanes; ++k)
        saturated += beyond_the_end(grid, from_bits(to_bits(run.x[i + k]) & kMagnitude), q[k], run.values[i + k]) ? 1 : 0;
  }
  const std::int32_t nonzeros = kept.total(run.n / kLanes);
  return {nonzeros, static_cast<std::int32_t>(run.n) - nonzeros, saturated};
}

using TableKernel = Shares (*)(const ShortTable&, const Grid&, const ProbeRun&);

MIXPREC_INLINE TableKernel table_probe(Spread spread) {
  switch (spread) {
    case Spread::all: return table_run<0>;
    case Spread::one: return table_run<1>;
    case Spread::sixteen: return table_run<16>;
    default: return table_run<32>;
  }
}

#endif

}  // namespace
