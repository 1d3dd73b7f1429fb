// Counting elements of vectors for which something holds.
#pragma once

#include "lanes.h"
#include "level.h"

namespace {

#if defined(__AVX512F__)

using LaneMask = __mmask16;

MIXPREC_INLINE LaneMask nonzero(LaneFloats v) { return _mm512_test_epi32_mask((__m512i)v, (__m512i)v); }
MIXPREC_INLINE LaneMask below(LaneBits a, LaneBits b) { return _mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b); }
MIXPREC_INLINE LaneMask above(LaneFloats a, LaneFloats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
MIXPREC_INLINE bool any(LaneMask mask) { return mask != 0; }

// Up to a chunk's vectors, one after the other. Masks go to memory and their bits are counted there: that takes nothing
// from the units that do the arithmetic.
class LaneCount {
 public:
  MIXPREC_MEMBER void add(std::int64_t vector, LaneMask mask) { masks_[vector] = mask; }

  MIXPREC_MEMBER std::int32_t total(std::int64_t vectors) const {
    constexpr std::int64_t kTogether = 4;
    std::int64_t i = 0;
    int count = 0;
    for (; i + kTogether <= vectors; i += kTogether) {
      std::uint64_t bits;
      std::memcpy(&bits, masks_ + i, sizeof bits);
      count += __builtin_popcountll(bits);
    }
    for (; i < vectors; ++i) count += __builtin_popcount(masks_[i]);
    return count;
  }

 private:
  alignas(64) std::uint16_t masks_[mixprec::kChunk / kLanes];
};

#elif defined(__AVX2__)

using LaneMask = LaneBits;

MIXPREC_INLINE LaneMask nonzero(LaneFloats v) { return (LaneBits)_mm256_cmpgt_epi32((__m256i)v, __m256i{}); }
// Bits of magnitudes, which are positive as signed integers.
MIXPREC_INLINE LaneMask below(LaneBits a, LaneBits b) { return (LaneBits)_mm256_cmpgt_epi32((__m256i)b, (__m256i)a); }
MIXPREC_INLINE LaneMask above(LaneFloats a, LaneFloats b) {
  return (LaneBits)_mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
MIXPREC_INLINE bool any(LaneMask mask) { return any_negative(mask); }

class LaneCount {
 public:
  MIXPREC_MEMBER void add(std::int64_t, LaneMask mask) { less_ += mask; }

  MIXPREC_MEMBER std::int32_t total(std::int64_t) const {
    std::int32_t sum = 0;
    for (int i = 0; i < kLanes; ++i) sum -= less_[i];
    return sum;
  }

 private:
  LaneBits less_{};
};

#endif

}  // namespace
