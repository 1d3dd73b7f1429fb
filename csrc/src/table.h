// Rounding to the numbers of a table, and their codes.
#pragma once

#include "bits.h"
#include "mixprec/kernels.h"

namespace {

using mixprec::Rounding;
using mixprec::Table;

constexpr std::int64_t kTableRun = 64;  // elements that one pass over the steps serves: a few registers

MIXPREC_INLINE float next_up(float value) {
  const std::uint32_t bits = value == 0.0f ? 0u : to_bits(value);
  return from_bits((bits & kSign) != 0 ? bits - 1 : bits + 1);
}

// Where the result steps from value i to value i + 1: at x >= steps[i].
struct TableSteps {
  int count;
  float steps[255];

  // To nearest, ties to the even place.
  static MIXPREC_MEMBER float middle(const Table& table, int i) {
    const double exact = (static_cast<double>(table.values[i]) + static_cast<double>(table.values[i + 1])) * 0.5;
    const float step = static_cast<float>(exact);
    if (static_cast<double>(step) > exact) return step;
    const bool tie_goes_up = static_cast<double>(step) == exact && (i + 1) % 2 == 0;
    return tie_goes_up ? step : next_up(step);
  }

  MIXPREC_MEMBER TableSteps(const Table& table, Rounding rounding) : count(table.size - 1) {
    for (int i = 0; i < count; ++i) {
      if (rounding == Rounding::nearest_even) {
        steps[i] = middle(table, i);
      } else if (rounding == Rounding::toward_zero && table.values[i] < 0.0f) {
        steps[i] = next_up(table.values[i]);  // zero is in the table: no step crosses it
      } else {
        steps[i] = table.values[i + 1];
      }
    }
  }
};

// How many steps lie at or below each of n <= kTableRun values; 0 for a NaN.
MIXPREC_INLINE void count_steps(const TableSteps& steps, const float* MIXPREC_RESTRICT x, std::int64_t n,
                                std::int32_t* MIXPREC_RESTRICT places) {
  alignas(64) float values[kTableRun];
  alignas(64) std::int32_t counts[kTableRun];
  for (std::int64_t i = 0; i < kTableRun; ++i) {
    values[i] = i < n ? x[i] : 0.0f;
    counts[i] = 0;
  }
  for (int s = 0; s < steps.count; ++s)
    for (std::int64_t i = 0; i < kTableRun; ++i) counts[i] += values[i] >= steps.steps[s] ? 1 : 0;
  for (std::int64_t i = 0; i < n; ++i) places[i] = counts[i];
}

// The value between places `below` and the next one that the word decides on.
MIXPREC_INLINE float stochastic_in_table(const Table& table, float x, int below, std::uint32_t word) {
  const double exact = static_cast<double>(x);
  if (below + 1 >= table.size || static_cast<double>(table.values[below]) >= exact) return table.values[below];
  const float inner = exact > 0.0 ? table.values[below] : table.values[below + 1];
  const float outer = exact > 0.0 ? table.values[below + 1] : table.values[below];
  const double magnitude = exact > 0.0 ? exact : -exact;
  const double low = static_cast<double>(from_bits(to_bits(inner) & kMagnitude));
  const double high = static_cast<double>(from_bits(to_bits(outer) & kMagnitude));
  const auto threshold = static_cast<std::int64_t>((magnitude - low) / (high - low) * 0x1p32);
  return static_cast<std::int64_t>(word) < threshold ? outer : inner;
}

// Rounds n values in place; words for stochastic rounding only.
void round_in_table(const Table& table, const TableSteps& steps, Rounding rounding, float* values, std::int64_t n,
                    const std::uint32_t* words) {
  std::int32_t places[kTableRun];
  for (std::int64_t i = 0; i < n; i += kTableRun) {
    const std::int64_t m = smaller(kTableRun, n - i);
    count_steps(steps, values + i, m, places);
    for (std::int64_t j = 0; j < m; ++j) {
      const float x = values[i + j];
      const bool stochastic = rounding == Rounding::stochastic;
      const float rounded =
          stochastic ? stochastic_in_table(table, x, places[j], words[i + j]) : table.values[places[j]];
      values[i + j] = x != x ? x : rounded;
    }
  }
}

// Codes of n numbers of the table; that of 0 for a NaN.
MIXPREC_INLINE void encode_in_table(const Table& table, const float* values, std::int64_t n, std::uint32_t* codes) {
  const TableSteps steps(table, Rounding::stochastic);  // the number itself
  std::int32_t places[kTableRun];
  float numbers[kTableRun];
  for (std::int64_t i = 0; i < n; i += kTableRun) {
    const std::int64_t m = smaller(kTableRun, n - i);
    for (std::int64_t j = 0; j < m; ++j) numbers[j] = values[i + j] != values[i + j] ? 0.0f : values[i + j];
    count_steps(steps, numbers, m, places);
    for (std::int64_t j = 0; j < m; ++j) codes[i + j] = table.codes[places[j]];
  }
}

}  // namespace
