// Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), counter-based.
//
// Element i of a tensor (C-order index) uses word (i / 8) % 4 of the block at counter (i / 32) * 8 + i % 8:
// a vector of eight counters yields four vectors of eight consecutive elements. The key is the seed, the
// upper two counter words the offset.
//
// A round is (c0, c1, c2, c3) -> (hi(M1 c2) ^ c1 ^ k0, lo(M1 c2), hi(M0 c0) ^ c3 ^ k1, lo(M0 c0)). Of the
// eight counters of a group only c0 differs, so half of the first two rounds is the same for all of them.
#pragma once

#include "bits.h"
#include "mixprec/kernels.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

constexpr int kGroup = 32;  // elements that share one vector of counters
constexpr int kRounds = 10;
constexpr std::uint64_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;

MIXPREC_INLINE std::uint64_t low_word(std::uint64_t value) { return value & 0xffffffffu; }

// Everything that the counters with one upper word share; 32-bit words in 64 bits, as vectors take them.
struct Philox {
  std::uint64_t k0[kRounds], k1[kRounds];
  std::uint64_t c2, c3;            // of the counter: the offset
  std::uint64_t upper;             // c1: upper half of the block counter
  std::uint64_t round0_c2;         // c3 ^ k1 of round 0
  std::uint64_t round1_c0;         // c1 ^ k0 of round 1
  std::uint64_t round1_c2;         // hi(M0 c0) ^ k1 of round 1
  std::uint64_t round1_c3;         // lo(M0 c0) of round 1

  explicit Philox(const mixprec::Random& random) : c2(low_word(random.offset)), c3(random.offset >> 32) {
    k0[0] = low_word(random.seed);
    k1[0] = random.seed >> 32;
    for (int r = 1; r < kRounds; ++r) {
      k0[r] = low_word(k0[r - 1] + kWeyl0);
      k1[r] = low_word(k1[r - 1] + kWeyl1);
    }
    set_upper(0);
  }

  void set_upper(std::uint64_t word) {
    upper = word;
    const std::uint64_t first = kMultiplier1 * c2;
    const std::uint64_t second = kMultiplier0 * ((first >> 32) ^ upper ^ k0[0]);
    round0_c2 = c3 ^ k1[0];
    round1_c0 = low_word(first) ^ k0[1];
    round1_c2 = (second >> 32) ^ k1[1];
    round1_c3 = low_word(second);
  }
};

#if defined(__AVX512F__)

MIXPREC_INLINE __m512i broadcast512(std::uint64_t word) { return _mm512_set1_epi64(static_cast<long long>(word)); }

// The words of the eight counters from `counter` on, which is a multiple of 8, in the order of the elements.
// Lanes hold words in 64 bits; their upper halves may hold anything, as the products ignore them.
MIXPREC_INLINE void philox_group(const Philox& p, std::uint64_t counter, std::uint32_t* out) {
  const __m512i m0 = broadcast512(kMultiplier0), m1 = broadcast512(kMultiplier1);
  __m512i p0 = _mm512_add_epi64(broadcast512(counter), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
  p0 = _mm512_mul_epu32(p0, m0);
  __m512i p1 = _mm512_mul_epu32(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), broadcast512(p.round0_c2)), m1);
  __m512i c0 = _mm512_xor_si512(_mm512_srli_epi64(p1, 32), broadcast512(p.round1_c0)), c1 = p1;
  __m512i c2 = _mm512_xor_si512(p0, broadcast512(p.round1_c2)), c3 = broadcast512(p.round1_c3);
#pragma GCC unroll 8
  for (int r = 2; r < kRounds; ++r) {
    p0 = _mm512_mul_epu32(c0, m0);
    p1 = _mm512_mul_epu32(c2, m1);
    c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c1), broadcast512(p.k0[r]));
    c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c3), broadcast512(p.k1[r]));
    c1 = p1;
    c3 = p0;
  }
  const __m512i low_words = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  _mm512_storeu_si512(out, _mm512_permutex2var_epi32(c0, low_words, c1));
  _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi32(c2, low_words, c3));
}

#elif defined(__AVX2__)

struct PhiloxHalf {
  __m256i c[4];
};

MIXPREC_INLINE __m256i broadcast256(std::uint64_t word) { return _mm256_set1_epi64x(static_cast<long long>(word)); }

// Four counters; see the form above.
MIXPREC_INLINE PhiloxHalf philox_half(const Philox& p, std::uint64_t counter) {
  const __m256i m0 = broadcast256(kMultiplier0), m1 = broadcast256(kMultiplier1);
  __m256i p0 = _mm256_mul_epu32(_mm256_add_epi64(broadcast256(counter), _mm256_setr_epi64x(0, 1, 2, 3)), m0);
  __m256i p1 = _mm256_mul_epu32(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), broadcast256(p.round0_c2)), m1);
  __m256i c0 = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), broadcast256(p.round1_c0)), c1 = p1;
  __m256i c2 = _mm256_xor_si256(p0, broadcast256(p.round1_c2)), c3 = broadcast256(p.round1_c3);
#pragma GCC unroll 8
  for (int r = 2; r < kRounds; ++r) {
    p0 = _mm256_mul_epu32(c0, m0);
    p1 = _mm256_mul_epu32(c2, m1);
    c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), broadcast256(p.k0[r]));
    c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), broadcast256(p.k1[r]));
    c1 = p1;
    c3 = p0;
  }
  return {{c0, c1, c2, c3}};
}

MIXPREC_INLINE void philox_group(const Philox& p, std::uint64_t counter, std::uint32_t* out) {
  const PhiloxHalf a = philox_half(p, counter), b = philox_half(p, counter + 4);
  for (int w = 0; w < 4; ++w) {
    const __m256 low = _mm256_shuffle_ps(_mm256_castsi256_ps(a.c[w]), _mm256_castsi256_ps(b.c[w]), 0x88);
    const __m256i ordered = _mm256_permute4x64_epi64(_mm256_castps_si256(low), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8 * w), ordered);
  }
}

#else

MIXPREC_INLINE void philox_group(const Philox& p, std::uint64_t counter, std::uint32_t* out) {
  for (std::uint64_t j = 0; j < 8; ++j) {
    std::uint64_t c0 = low_word(counter) + j, c1 = p.upper, c2 = p.c2, c3 = p.c3;
    for (int r = 0; r < kRounds; ++r) {
      const std::uint64_t p0 = c0 * kMultiplier0, p1 = c2 * kMultiplier1;
      c0 = (p1 >> 32) ^ c1 ^ p.k0[r];
      c2 = (p0 >> 32) ^ c3 ^ p.k1[r];
      c1 = low_word(p1);
      c3 = low_word(p0);
    }
    out[j] = static_cast<std::uint32_t>(c0);
    out[8 + j] = static_cast<std::uint32_t>(c1);
    out[16 + j] = static_cast<std::uint32_t>(c2);
    out[24 + j] = static_cast<std::uint32_t>(c3);
  }
}

#endif

// Writes the words of elements [first, first + n), preceded by those of the same group; returns where the
// first element's word is. The buffer holds n + 2 * kGroup words.
MIXPREC_INLINE const std::uint32_t* philox_fill(Philox& philox, std::int64_t first, std::int64_t n,
                                                std::uint32_t* buffer) {
  const std::int64_t begin = first / kGroup, end = ceil_div(first + n, kGroup);
  for (std::int64_t g = begin; g < end; ++g) {
    const std::uint64_t counter = static_cast<std::uint64_t>(g) * 8;
    if ((counter >> 32) != philox.upper) philox.set_upper(counter >> 32);
    philox_group(philox, counter, buffer + (g - begin) * kGroup);
  }
  return buffer + (first - begin * kGroup);
}

}  // namespace
