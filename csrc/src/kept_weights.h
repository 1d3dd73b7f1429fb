// A piece of a weight as fp32 values, and back: what a weight is kept as, one function each.
#pragma once

#include "half_floats.h"
#include "level.h"
#include "philox.h"

namespace {

using mixprec::StoredWeight;
using mixprec::WeightKind;
using mixprec::kStepPiece;

// What one thread needs to keep weights.
struct WeightScratch {
  alignas(64) std::uint16_t halves[kStepPiece];
  alignas(64) std::uint32_t words[kStepPiece + 2 * kGroup];
};

template <class T>
MIXPREC_INLINE T* elements(void* data, std::int64_t start) {
  return static_cast<T*>(data) + start;
}

// Elements [start, start + n) in fp32: where they lie, if memory holds them, or in the buffer.
MIXPREC_INLINE float* open_weight(const StoredWeight& stored, std::int64_t start, std::int64_t n,
                                  float* MIXPREC_RESTRICT buffer) {
  if (stored.kind == WeightKind::master) return elements<float>(stored.extra, start);
  if (stored.dtype == Dtype::f32) return elements<float>(stored.weight, start);
  const auto* MIXPREC_RESTRICT weight = elements<std::uint16_t>(stored.weight, start);
  if (stored.kind == WeightKind::split) {
    const auto* MIXPREC_RESTRICT rest = elements<std::int16_t>(stored.extra, start);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t upper = static_cast<std::uint32_t>(weight[i]) << 16;
      const std::uint32_t bits = upper + static_cast<std::uint32_t>(static_cast<std::int32_t>(rest[i]));
      // A pair that no storing gives: the weight was written over, and its remainder was not.
      buffer[i] = from_bits((bits & kMagnitude) > kInfinity ? upper : bits);
    }
  } else if (stored.kind == WeightKind::kahan) {
    const auto* MIXPREC_RESTRICT rest = elements<std::uint16_t>(stored.extra, start);
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = widen_bf16(weight[i]) + widen_bf16(rest[i]);
  } else if (stored.dtype == Dtype::f16) {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = widen_f16(weight[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = widen_bf16(weight[i]);
  }
  return buffer;
}

MIXPREC_INLINE void round_halves(const float* MIXPREC_RESTRICT values, std::int64_t n, Dtype dtype,
                                 std::uint16_t* MIXPREC_RESTRICT weight) {
  if (dtype == Dtype::f16) {
    for (std::int64_t i = 0; i < n; ++i) weight[i] = nearest_f16(values[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) weight[i] = nearest_bf16(values[i]);
  }
}

MIXPREC_INLINE void split(const float* MIXPREC_RESTRICT values, std::int64_t n, std::uint16_t* MIXPREC_RESTRICT weight,
                          std::int16_t* MIXPREC_RESTRICT rest) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = to_bits(values[i]);
    weight[i] = nearest_away_bf16(values[i]);
    // The lower half as a signed number is the difference: from 2^15 on the upper half is one more.
    rest[i] = static_cast<std::int16_t>((bits & kMagnitude) > kInfinity ? 0u : bits & 0xffffu);
  }
}

MIXPREC_INLINE void compensate(const float* MIXPREC_RESTRICT values, std::int64_t n,
                               std::uint16_t* MIXPREC_RESTRICT weight, std::uint16_t* MIXPREC_RESTRICT rest) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint16_t rounded = nearest_bf16(values[i]);
    const std::uint16_t lost = nearest_bf16(values[i] - widen_bf16(rounded));
    weight[i] = rounded;
    rest[i] = (rounded & 0x7f80u) == 0x7f80u ? std::uint16_t{0} : lost;
  }
}

MIXPREC_INLINE void round_at_random(const float* MIXPREC_RESTRICT values, std::int64_t n,
                                    const std::uint32_t* MIXPREC_RESTRICT words,
                                    std::uint16_t* MIXPREC_RESTRICT weight) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = to_bits(values[i]);
    // The upper half of the word lies below the lower half of the bits: a carry out of it.
    const std::uint32_t rounded = bits + (0xffffu - (words[i] >> 16));
    weight[i] = static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? kBf16Nan : rounded >> 16);
  }
}

// Keeps the values that open_weight gave and an update changed.
MIXPREC_INLINE void close_weight(const StoredWeight& stored, std::int64_t start, std::int64_t n, const float* values,
                                 Philox& philox, WeightScratch& scratch) {
  if (stored.dtype == Dtype::f32) return;
  auto* weight = elements<std::uint16_t>(stored.weight, start);
  switch (stored.kind) {
    case WeightKind::plain: return round_halves(values, n, stored.dtype, weight);
    case WeightKind::master:
      round_halves(values, n, stored.dtype, scratch.halves);
      return store_past_caches(scratch.halves, n, weight);
    case WeightKind::split: return split(values, n, weight, elements<std::int16_t>(stored.extra, start));
    case WeightKind::kahan: return compensate(values, n, weight, elements<std::uint16_t>(stored.extra, start));
    case WeightKind::stochastic:
      return round_at_random(values, n, philox_fill(philox, start, n, scratch.words), weight);
  }
}

}  // namespace
