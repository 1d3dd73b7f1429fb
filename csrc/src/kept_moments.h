// A piece of a moment as fp32 values, and back.
#pragma once

#include "half_floats.h"
#include "kept_weights.h"
#include "level.h"
#include "moment_codes.h"

namespace {

MIXPREC_INLINE bool in_codes(const StoredMoment& stored) {
  return stored.layout.kind == MomentKind::e4m3 || stored.layout.kind == MomentKind::dynamic;
}

MIXPREC_INLINE std::int64_t moment_size(MomentKind kind) {
  return kind == MomentKind::fp32 ? 4 : kind == MomentKind::bf16 ? 2 : 1;
}

// Elements [start, start + n) in fp32: where they lie, if memory holds them, or in the buffer.
MIXPREC_INLINE float* open_moment(const StoredMoment& stored, std::int64_t start, std::int64_t n,
                                  float* MIXPREC_RESTRICT buffer) {
  if (stored.layout.kind == MomentKind::fp32) return elements<float>(stored.values, start);
  if (in_codes(stored)) {
    load_codes(stored, start, n, buffer);
    return buffer;
  }
  const auto* MIXPREC_RESTRICT values = elements<std::uint16_t>(stored.values, start);
  for (std::int64_t i = 0; i < n; ++i) buffer[i] = widen_bf16(values[i]);
  return buffer;
}

// Second moments are rounded by chance, as those in 8 bits are; n elements from a multiple of 256 on.
MIXPREC_INLINE void round_second_moments(const float* MIXPREC_RESTRICT values, std::int64_t n,
                                         std::uint16_t* MIXPREC_RESTRICT out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = to_bits(values[i]), magnitude = bits & kMagnitude;
    const std::uint32_t place = static_cast<std::uint32_t>(i) % 256u * kPlaceFactor;
    const std::uint32_t rounded = (bits + (chance(magnitude, place) >> 16)) >> 16;
    out[i] = static_cast<std::uint16_t>(magnitude > kInfinity ? kBf16Nan : rounded);
  }
}

// What close_moment asks for.
MIXPREC_INLINE PieceMeasure measure_moment(const StoredMoment& stored, std::int64_t start, std::int64_t n,
                                           const float* values) {
  return in_codes(stored) ? measure_codes(stored, start, n, values) : PieceMeasure{};
}

MIXPREC_INLINE void close_moment(const StoredMoment& stored, std::int64_t start, std::int64_t n, const float* values,
                                 const float* roots, const PieceMeasure& measure) {
  if (stored.layout.kind == MomentKind::fp32) return;
  if (in_codes(stored)) return store_codes(stored, start, n, values, roots, measure);
  auto* out = elements<std::uint16_t>(stored.values, start);
  if (!stored.layout.is_signed) return round_second_moments(values, n, out);
  round_halves(values, n, Dtype::bf16, out);
}

}  // namespace
