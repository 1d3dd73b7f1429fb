// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), counter-based.
//
// Element i of a tensor (C-order index) uses word (i / 8) % 4 of the block at counter (i / 32) * 8 + i % 8:
// a vector of eight counters yields four vectors of eight consecutive elements. The key is the seed, the
// upper two counter words the offset.
#pragma once

#include "bits.h"
#include "mixprec/kernels.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

constexpr int kGroup = 32;  // elements that share one vector of counters
constexpr int kRounds = 10;
constexpr std::uint32_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

struct PhiloxKeys {
  std::uint32_t k0[kRounds], k1[kRounds];
  std::uint32_t c2, c3;

  explicit PhiloxKeys(const mixprec::Random& random)
      : c2(static_cast<std::uint32_t>(random.offset)), c3(static_cast<std::uint32_t>(random.offset >> 32)) {
    k0[0] = static_cast<std::uint32_t>(random.seed);
    k1[0] = static_cast<std::uint32_t>(random.seed >> 32);
    for (int r = 1; r < kRounds; ++r) {
      k0[r] = k0[r - 1] + kWeyl0;
      k1[r] = k1[r - 1] + kWeyl1;
    }
  }
};

#if defined(__AVX512F__)

// Lanes hold 32-bit words in 64 bits; the upper halves may hold anything, as vpmuludq ignores them.
MIXPREC_INLINE void philox_group(const PhiloxKeys& keys, std::uint64_t counter, std::uint32_t* out) {
  const __m512i m0 = _mm512_set1_epi64(kMultiplier0), m1 = _mm512_set1_epi64(kMultiplier1);
  const __m512i index = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  __m512i c0 = _mm512_add_epi64(_mm512_set1_epi64(static_cast<long long>(counter)), index);
  __m512i c1 = _mm512_srli_epi64(c0, 32);
  __m512i c2 = _mm512_set1_epi64(keys.c2), c3 = _mm512_set1_epi64(keys.c3);
#pragma GCC unroll 10
  for (int r = 0; r < kRounds; ++r) {
    const __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
    const __m512i k0 = _mm512_set1_epi64(keys.k0[r]), k1 = _mm512_set1_epi64(keys.k1[r]);
    c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c1), k0);
    c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c3), k1);
    c1 = p1;
    c3 = p0;
  }
  const __m512i words[4] = {c0, c1, c2, c3};
  for (int w = 0; w < 4; ++w)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8 * w), _mm512_cvtepi64_epi32(words[w]));
}

#elif defined(__AVX2__)

struct PhiloxHalf {
  __m256i c[4];
};

MIXPREC_INLINE PhiloxHalf philox_half(const PhiloxKeys& keys, std::uint64_t counter) {
  const __m256i m0 = _mm256_set1_epi64x(kMultiplier0), m1 = _mm256_set1_epi64x(kMultiplier1);
  const __m256i index = _mm256_setr_epi64x(0, 1, 2, 3);
  __m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(counter)), index);
  __m256i c1 = _mm256_srli_epi64(c0, 32);
  __m256i c2 = _mm256_set1_epi64x(keys.c2), c3 = _mm256_set1_epi64x(keys.c3);
#pragma GCC unroll 10
  for (int r = 0; r < kRounds; ++r) {
    const __m256i p0 = _mm256_mul_epu32(c0, m0), p1 = _mm256_mul_epu32(c2, m1);
    const __m256i k0 = _mm256_set1_epi64x(keys.k0[r]), k1 = _mm256_set1_epi64x(keys.k1[r]);
    c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), k0);
    c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), k1);
    c1 = p1;
    c3 = p0;
  }
  return {{c0, c1, c2, c3}};
}

MIXPREC_INLINE void philox_group(const PhiloxKeys& keys, std::uint64_t counter, std::uint32_t* out) {
  const PhiloxHalf a = philox_half(keys, counter), b = philox_half(keys, counter + 4);
  for (int w = 0; w < 4; ++w) {
    const __m256 low = _mm256_shuffle_ps(_mm256_castsi256_ps(a.c[w]), _mm256_castsi256_ps(b.c[w]), 0x88);
    const __m256i ordered = _mm256_permute4x64_epi64(_mm256_castps_si256(low), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8 * w), ordered);
  }
}

#else

MIXPREC_INLINE void philox_group(const PhiloxKeys& keys, std::uint64_t counter, std::uint32_t* out) {
  std::uint32_t c0[8], c1[8], c2[8], c3[8];
  for (int j = 0; j < 8; ++j) {
    c0[j] = static_cast<std::uint32_t>(counter + j);
    c1[j] = static_cast<std::uint32_t>((counter + j) >> 32);
    c2[j] = keys.c2;
    c3[j] = keys.c3;
  }
  for (int r = 0; r < kRounds; ++r) {
    for (int j = 0; j < 8; ++j) {
      const std::uint64_t p0 = static_cast<std::uint64_t>(c0[j]) * kMultiplier0;
      const std::uint64_t p1 = static_cast<std::uint64_t>(c2[j]) * kMultiplier1;
      c0[j] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[j] ^ keys.k0[r];
      c2[j] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[j] ^ keys.k1[r];
      c1[j] = static_cast<std::uint32_t>(p1);
      c3[j] = static_cast<std::uint32_t>(p0);
    }
  }
  for (int j = 0; j < 8; ++j) {
    out[j] = c0[j];
    out[8 + j] = c1[j];
    out[16 + j] = c2[j];
    out[24 + j] = c3[j];
  }
}

#endif

// Writes the words of elements [first, first + n), preceded by those of the same group; returns where the
// first element's word is. The buffer holds n + 2 * kGroup words.
MIXPREC_INLINE const std::uint32_t* philox_fill(const PhiloxKeys& keys, std::int64_t first, std::int64_t n,
                                                std::uint32_t* buffer) {
  const std::int64_t begin = first / kGroup, end = ceil_div(first + n, kGroup);
  for (std::int64_t g = begin; g < end; ++g)
    philox_group(keys, static_cast<std::uint64_t>(g) * 8, buffer + (g - begin) * kGroup);
  return buffer + (first - begin * kGroup);
}

}  // namespace
