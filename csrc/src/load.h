// Reading fp32, bf16 and fp16 as fp32, and writing past the caches.
#pragma once

#include "bits.h"
#include "mixprec/kernels.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

using mixprec::Dtype;
using mixprec::Matrix;

constexpr std::int64_t kCacheLine = 64;  // bytes

MIXPREC_INLINE float widen_bf16(std::uint16_t bits) { return from_bits(static_cast<std::uint32_t>(bits) << 16); }

MIXPREC_INLINE float widen_f16(std::uint16_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23);  // rebias from 15 to 127
  const std::uint32_t subnormal = to_bits(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  std::uint32_t m = magnitude < 0x0400u ? subnormal : normal;
  m = magnitude >= 0x7c00u ? (magnitude << 13) | kInfinity : m;
  return from_bits(m | static_cast<std::uint32_t>(bits & 0x8000u) << 16);
}

MIXPREC_INLINE std::int64_t dtype_size(Dtype dtype) { return dtype == Dtype::f32 ? 4 : 2; }

// Elements [start, start + n) as fp32: a view where x holds fp32, else widened into `buffer`.
MIXPREC_INLINE const float* load(const Matrix& x, std::int64_t start, std::int64_t n, float* MIXPREC_RESTRICT buffer) {
  if (x.dtype == Dtype::f32) return static_cast<const float*>(x.data) + start;
  const std::uint16_t* MIXPREC_RESTRICT half = static_cast<const std::uint16_t*>(x.data) + start;
  if (x.dtype == Dtype::bf16) {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = widen_bf16(half[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = widen_f16(half[i]);
  }
  return buffer;
}

// Copies with stores that bypass the caches: a large result would only displace them, and the processor need
// not read the lines that it overwrites.
MIXPREC_INLINE void store_past_caches(const float* source, std::int64_t n, float* target) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i < n && (reinterpret_cast<std::uintptr_t>(target + i) & 63u) != 0; ++i) target[i] = source[i];
  for (; i + 16 <= n; i += 16) _mm512_stream_ps(target + i, _mm512_loadu_ps(source + i));
#elif defined(__AVX2__)
  for (; i < n && (reinterpret_cast<std::uintptr_t>(target + i) & 31u) != 0; ++i) target[i] = source[i];
  for (; i + 8 <= n; i += 8) _mm256_stream_ps(target + i, _mm256_loadu_ps(source + i));
#endif
  for (; i < n; ++i) target[i] = source[i];
}

// Orders the stores above before whatever follows (a release by the thread that ran them).
MIXPREC_INLINE void finish_stores() {
#if defined(__AVX512F__) || defined(__AVX2__)
  _mm_sfence();
#endif
}

}  // namespace
