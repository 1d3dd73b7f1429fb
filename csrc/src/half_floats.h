// 16-bit floats from fp32, as the reference's _sixteen_bits.py makes them; reading them is in load.h.
#pragma once

#include "load.h"

namespace {

constexpr std::uint16_t kBf16Nan = 0x7fc0u, kF16Nan = 0x7e00u;
constexpr std::uint32_t kUpperHalf = 0x8000u;  // half of bf16's last place, in the bits of an fp32

// To nearest, ties to even.
MIXPREC_INLINE std::uint16_t nearest_bf16(float value) {
  const std::uint32_t bits = to_bits(value);
  const std::uint32_t rounded = bits + (kUpperHalf - 1) + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? kBf16Nan : rounded >> 16);
}

// To nearest, ties away from zero.
MIXPREC_INLINE std::uint16_t nearest_away_bf16(float value) {
  const std::uint32_t bits = to_bits(value);
  return static_cast<std::uint16_t>((bits & kMagnitude) > kInfinity ? kBf16Nan : (bits + kUpperHalf) >> 16);
}

MIXPREC_INLINE std::uint16_t nearest_f16(float value) {
  const std::uint32_t bits = to_bits(value), magnitude = bits & kMagnitude;
  // Normal: the dropped 13 bits round as integers do, into the exponent and on to infinity; rebias from 127 to 15.
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  // Subnormal: adding 0.5 puts the last place of the sum at 2^-24.
  const std::uint32_t subnormal = to_bits(from_bits(magnitude) + 0.5f) - to_bits(0.5f);
  std::uint32_t m = magnitude < (113u << 23) ? subnormal : normal;
  m = magnitude >= 0x477ff000u ? 0x7c00u : m;  // 65520, midway to 2^16
  const std::uint32_t result = m | (bits & kSign) >> 16;
  return static_cast<std::uint16_t>(magnitude > kInfinity ? kF16Nan : result);
}

// Writes n 16-bit floats past the caches, which need not read the lines that are overwritten.
MIXPREC_INLINE void store_past_caches(const std::uint16_t* source, std::int64_t n, std::uint16_t* target) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i < n && (reinterpret_cast<std::uintptr_t>(target + i) & 63u) != 0; ++i) target[i] = source[i];
  for (; i + 32 <= n; i += 32)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(target + i), _mm512_loadu_si512(source + i));
#elif defined(__AVX2__)
  for (; i < n && (reinterpret_cast<std::uintptr_t>(target + i) & 31u) != 0; ++i) target[i] = source[i];
  for (; i + 16 <= n; i += 16)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(target + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + i)));
#endif
  for (; i < n; ++i) target[i] = source[i];
}

}  // namespace
