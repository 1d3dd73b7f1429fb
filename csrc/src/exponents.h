// Counts of exponents of chunks of 1,024 elements.
#pragma once

#include "level.h"
#include "load.h"

namespace {

using mixprec::kChunk;

class Histogram {
 public:
  // Of n elements, some of which may be anything.
  void add(const float* x, std::int64_t n) {
    const std::int64_t whole = n - n % kPlaces;
    for (std::int64_t i = 0; i < whole; i += kPlaces)
      for (int k = 0; k < kPlaces; ++k) ++counts_[k][exponent_of(x[i + k])];
    for (std::int64_t i = whole; i < n; ++i) ++counts_[0][exponent_of(x[i])];
  }

  // Of a whole chunk whose exponents lie in [low, high], but for those of `zeros` zeros. Few exponents are looked for one
  // by one, in all elements at once; many are counted element by element.
  void add_chunk(const float* x, std::uint32_t low, std::uint32_t high, std::int32_t zeros) {
    if (high - low >= kFew) return add(x, kChunk);
    std::uint8_t exponents[kChunk];
    for (int i = 0; i < kChunk; ++i) exponents[i] = static_cast<std::uint8_t>(exponent_of(x[i]));
    for (std::uint32_t e = low; e <= high; ++e) counts_[0][e] += how_many(exponents, static_cast<std::uint8_t>(e));
    if (low > 0) counts_[0][0] += static_cast<std::uint32_t>(zeros);
  }

  void flush(std::int64_t* totals) {
    for (int e = 0; e < 256; ++e)
      for (auto& counts : counts_) {
        totals[e] += counts[e];
        counts[e] = 0;
      }
  }

 private:
  static std::uint32_t exponent_of(float x) { return to_bits(x) >> 23 & 255u; }

#if defined(__AVX512BW__)
  static MIXPREC_MEMBER std::uint32_t how_many(const std::uint8_t* exponents, std::uint8_t wanted) {
    constexpr int kWidth = 64;
    const __m512i all_wanted = _mm512_set1_epi8(static_cast<char>(wanted));
    int sum = 0;
#pragma GCC unroll 16
    for (int i = 0; i < kChunk; i += kWidth)
      sum += __builtin_popcountll(_mm512_cmpeq_epi8_mask(_mm512_loadu_si512(exponents + i), all_wanted));
    return static_cast<std::uint32_t>(sum);
  }
#else
  static MIXPREC_MEMBER std::uint32_t how_many(const std::uint8_t* MIXPREC_RESTRICT exponents, std::uint8_t wanted) {
    constexpr int kWidth = 64;
    alignas(64) std::uint8_t counts[kWidth] = {};
    for (int i = 0; i < kChunk; i += kWidth)
      for (int k = 0; k < kWidth; ++k) counts[k] = static_cast<std::uint8_t>(counts[k] + (exponents[i + k] == wanted));
    std::uint32_t sum = 0;
    for (int k = 0; k < kWidth; ++k) sum += counts[k];
    return sum;
  }
#endif

  static constexpr std::uint32_t kFew = 40;
  // Several places for each: neighbours mostly have the same exponent, and a count that was just written is slow to read.
  static constexpr int kPlaces = 8;
  // Not a power of two apart: places 4 KiB apart are mistaken for each other until their addresses are compared whole.
  static constexpr int kRow = 256 + 16;
  std::uint32_t counts_[kPlaces][kRow] = {};
};

}  // namespace
