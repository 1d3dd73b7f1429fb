// Codes of a row as a little-endian bit stream: 8, 4 and 6 bits quickly, other widths bit by bit.
#pragma once

#include "lanes.h"

namespace {

#if defined(__AVX512F__)

MIXPREC_INLINE void store_bytes(LaneBits codes, std::uint8_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8((__m512i)codes));
}

// Codes of four vectors, one after the other; what is negative becomes 0.
MIXPREC_INLINE void store_bytes(const LaneBits (&codes)[4], std::uint8_t* out) {
  const __m512i first = _mm512_packus_epi32((__m512i)codes[0], (__m512i)codes[1]);
  const __m512i second = _mm512_packus_epi32((__m512i)codes[2], (__m512i)codes[3]);
  // Four codes of each vector lie together, as packing goes by quarters.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(out, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(first, second)));
}

// Codes of four bits: a pair of them is one lane of 64 bits.
MIXPREC_INLINE void store_nibbles(LaneBits codes, std::uint8_t* out) {
  const __m512i pairs = _mm512_or_si512((__m512i)codes, _mm512_srli_epi64((__m512i)codes, 28));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm512_cvtepi64_epi8(pairs));
}

#elif defined(__AVX2__)

MIXPREC_INLINE void store_bytes(LaneBits codes, std::uint8_t* out) {
  const __m256i first = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                         -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8((__m256i)codes, first);
  const __m128i joined = _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), joined);
}

MIXPREC_INLINE void store_bytes(const LaneBits (&codes)[4], std::uint8_t* out) {
  const __m256i first = _mm256_packus_epi32((__m256i)codes[0], (__m256i)codes[1]);
  const __m256i second = _mm256_packus_epi32((__m256i)codes[2], (__m256i)codes[3]);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packing goes by halves
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order));
}

MIXPREC_INLINE void store_nibbles(LaneBits codes, std::uint8_t* out) {
  const __m256i first = _mm256_setr_epi8(0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                         -1, -1, 0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i pairs = _mm256_or_si256((__m256i)codes, _mm256_srli_epi64((__m256i)codes, 28));
  const __m256i bytes = _mm256_shuffle_epi8(pairs, first);
  const __m128i joined = _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  const int word = _mm_cvtsi128_si32(joined);
  std::memcpy(out, &word, sizeof word);
}

#endif

// Two codes of four bits in a byte; n is even.
MIXPREC_INLINE void write_four_bits(const std::uint32_t* MIXPREC_RESTRICT codes, std::int64_t n,
                                    std::uint8_t* MIXPREC_RESTRICT out) {
  std::int64_t i = 0;
#if defined(MIXPREC_LANES)
  for (; i + kLanes <= n; i += kLanes) store_nibbles(load_lanes(codes + i), out + i / 2);
#endif
  for (; i < n; i += 2) out[i / 2] = static_cast<std::uint8_t>(codes[i] | codes[i + 1] << 4);
}

// Four codes of six bits in three bytes.
MIXPREC_INLINE void write_six_bits(const std::uint32_t* MIXPREC_RESTRICT codes, std::int64_t quads,
                                   std::uint8_t* MIXPREC_RESTRICT out) {
  for (std::int64_t i = 0; i < quads; ++i) {
    const std::uint32_t* c = codes + 4 * i;
    const std::uint32_t word = c[0] | c[1] << 6 | c[2] << 12 | c[3] << 18;
    out[3 * i] = static_cast<std::uint8_t>(word);
    out[3 * i + 1] = static_cast<std::uint8_t>(word >> 8);
    out[3 * i + 2] = static_cast<std::uint8_t>(word >> 16);
  }
}

// n codes, ending in a whole byte.
MIXPREC_INLINE void write_bits(const std::uint32_t* MIXPREC_RESTRICT codes, std::int64_t n, int bits,
                               std::uint8_t* MIXPREC_RESTRICT out) {
  std::int64_t done = 0;
  if (bits == 8) {
    for (; done < n; ++done) out[done] = static_cast<std::uint8_t>(codes[done]);
  } else if (bits == 4) {
    done = n / 2 * 2;
    write_four_bits(codes, done, out);
  } else if (bits == 6) {
    done = n / 4 * 4;
    write_six_bits(codes, n / 4, out);
  }
  out += done * bits / 8;
  std::uint64_t pending = 0;
  int held = 0;
  for (; done < n; ++done) {
    pending |= static_cast<std::uint64_t>(codes[done]) << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *out++ = static_cast<std::uint8_t>(pending);
  }
  if (held > 0) *out = static_cast<std::uint8_t>(pending);
}

// Four codes of six bits from three bytes.
MIXPREC_INLINE void read_six_bits(const std::uint8_t* MIXPREC_RESTRICT in, std::int64_t quads,
                                  std::uint32_t* MIXPREC_RESTRICT codes) {
  for (std::int64_t i = 0; i < quads; ++i) {
    const std::uint32_t word = in[3 * i] | static_cast<std::uint32_t>(in[3 * i + 1]) << 8 |
                               static_cast<std::uint32_t>(in[3 * i + 2]) << 16;
    codes[4 * i] = word & 63u;
    codes[4 * i + 1] = word >> 6 & 63u;
    codes[4 * i + 2] = word >> 12 & 63u;
    codes[4 * i + 3] = word >> 18;
  }
}

// The reverse of write_bits.
MIXPREC_INLINE void read_bits(const std::uint8_t* MIXPREC_RESTRICT in, std::int64_t n, int bits,
                              std::uint32_t* MIXPREC_RESTRICT codes) {
  std::int64_t done = 0;
  if (bits == 8) {
    for (; done < n; ++done) codes[done] = in[done];
  } else if (bits == 4) {
    for (; done < n / 2 * 2; ++done) codes[done] = in[done / 2] >> (done % 2 * 4) & 15u;
  } else if (bits == 6) {
    done = n / 4 * 4;
    read_six_bits(in, n / 4, codes);
  }
  in += done * bits / 8;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  std::uint64_t pending = 0;
  int held = 0;
  for (; done < n; ++done) {
    for (; held < bits; held += 8) pending |= static_cast<std::uint64_t>(*in++) << held;
    codes[done] = static_cast<std::uint32_t>(pending & mask);
    pending >>= bits;
    held -= bits;
  }
}

}  // namespace
