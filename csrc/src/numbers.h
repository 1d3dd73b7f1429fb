// Numbers of codes, times the scales that lie along a run.
#pragma once

#include "coder.h"
#include "spread.h"

namespace {

// Scales along a run.
struct ScaleRun {
  const float* scale;
  Spread spread;
};

template <int Width, class Number>
MIXPREC_INLINE void multiply_blocks(const Number& number, std::int64_t n, const float* MIXPREC_RESTRICT scale,
                                    float* MIXPREC_RESTRICT y) {
  std::int64_t i = 0;
  for (; i + Width <= n; i += Width, ++scale) {
    const float s = *scale;
    for (int j = 0; j < Width; ++j) y[i + j] = number(i + j) * s;
  }
  for (; i < n; ++i) y[i] = number(i) * *scale;
}

// y[i] = number(i) * its scale.
template <class Number>
MIXPREC_INLINE void multiply_numbers(const Number& number, std::int64_t n, const ScaleRun& run,
                                     float* MIXPREC_RESTRICT y) {
  const float* MIXPREC_RESTRICT scale = run.scale;
  if (run.spread == Spread::all) {
    const float s = *scale;
    for (std::int64_t i = 0; i < n; ++i) y[i] = number(i) * s;
  } else if (run.spread == Spread::one) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = number(i) * scale[i];
  } else if (run.spread == Spread::sixteen) {
    multiply_blocks<16>(number, n, scale, y);
  } else {
    multiply_blocks<32>(number, n, scale, y);
  }
}

// Bytes that are codes of a float format whose values, and 1 + mantissa at its smallest exponent, are normal fp32.
class ByteFloats {
 public:
  ByteFloats(const Grid& grid, const std::uint8_t* codes)
      : codes_(codes),
        shift_(23 - grid.mantissa_bits),
        first_normal_(1u << grid.mantissa_bits),
        body_(grid.is_signed ? (1u << (grid.bits - 1)) - 1 : 0xffu),
        sign_shift_(grid.is_signed ? 32 - grid.bits : 0),
        sign_(grid.is_signed ? kSign : 0u),
        normal_(static_cast<std::uint32_t>(grid.min_exponent + 126) << 23),
        subnormal_(static_cast<std::uint32_t>(grid.min_exponent + 127) << 23),
        smallest_(power_of_two<float>(grid.min_exponent)),
        infinity_(grid.infinity_code ? grid.infinity_code : 0xffffu),
        above_(grid.infinity_code ? grid.infinity_code : 0xffffu),
        nan_(grid.nan_code ? grid.nan_code : 0xffffu) {}

  static bool fit(const Grid& grid) {
    return !grid.table && !grid.integer && grid.bits <= 8 && grid.min_exponent >= -125 && grid.max_exponent <= 126;
  }

  MIXPREC_MEMBER float operator()(std::int64_t i) const {
    const std::uint32_t code = codes_[i], body = code & body_, mantissa = body << shift_;
    const float subnormal = from_bits(mantissa + subnormal_) - smallest_;
    std::uint32_t bits = body < first_normal_ ? to_bits(subnormal) : mantissa + normal_;
    bits = body == infinity_ ? kInfinity : bits;
    bits = body > above_ || body == nan_ || code == nan_ ? kInfinity | kQuiet : bits;
    return from_bits(bits | (code << sign_shift_ & sign_));
  }

 private:
  const std::uint8_t* MIXPREC_RESTRICT codes_;
  int shift_;
  std::uint32_t first_normal_, body_;
  int sign_shift_;
  std::uint32_t sign_, normal_, subnormal_;
  float smallest_;
  std::uint32_t infinity_, above_, nan_;
};

class ByteIntegers {
 public:
  ByteIntegers(const Grid& grid, const std::uint8_t* codes)
      : codes_(codes), unit_(power_of_two<float>(-grid.mantissa_bits)) {}
  MIXPREC_MEMBER float operator()(std::int64_t i) const {
    return static_cast<float>(static_cast<std::int32_t>(static_cast<std::int8_t>(codes_[i]))) * unit_;
  }

 private:
  const std::uint8_t* MIXPREC_RESTRICT codes_;
  float unit_;
};

// Codes of at most 8 bits by their list of numbers.
struct ListedNumbers {
  const std::uint32_t* codes;
  const float* numbers;
  MIXPREC_MEMBER float operator()(std::int64_t i) const { return numbers[codes[i]]; }
};

template <class Coder>
struct CodedNumbers {
  const std::uint32_t* codes;
  Coder coder;
  MIXPREC_MEMBER float operator()(std::int64_t i) const { return coder.decode(codes[i]); }
};

// Four-bit codes by the list of their 16 numbers, a vector at a time; what is left of the run is not done. Returns how
// many are.
MIXPREC_INLINE std::int64_t multiply_nibbles(const std::uint8_t* MIXPREC_RESTRICT codes, const float* numbers,
                                             std::int64_t n, const ScaleRun& run, float* MIXPREC_RESTRICT y) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  const __m512 list = _mm512_loadu_ps(numbers);
  const int shift = run.spread == Spread::thirty_two ? 5 : 4;
  const __m512 shared = _mm512_set1_ps(*run.scale);
  for (; i + 16 <= n; i += 16) {
    const __m512i bytes = _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i / 2)));
    // The low 4 bits of each 32-bit lane are what the permutation looks at.
    const __m512i places = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
    __m512 scale = shared;
    if (run.spread == Spread::one) {
      scale = _mm512_loadu_ps(run.scale + i);
    } else if (run.spread != Spread::all) {
      scale = _mm512_set1_ps(run.scale[i >> shift]);
    }
    _mm512_storeu_ps(y + i, _mm512_mul_ps(_mm512_permutexvar_ps(places, list), scale));
  }
#elif defined(__AVX2__)
  const __m256 low = _mm256_loadu_ps(numbers), high = _mm256_loadu_ps(numbers + 8);
  const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  const int shift = run.spread == Spread::thirty_two ? 5 : 4;
  const __m256 shared = _mm256_set1_ps(*run.scale);
  for (; i + 8 <= n; i += 8) {
    int word;
    std::memcpy(&word, codes + i / 2, sizeof word);
    const __m256i places = _mm256_srlv_epi32(_mm256_set1_epi32(word), shifts);  // three bits are looked at
    const __m256 top = _mm256_castsi256_ps(_mm256_slli_epi32(places, 28));
    const __m256 from_low = _mm256_permutevar8x32_ps(low, places), from_high = _mm256_permutevar8x32_ps(high, places);
    const __m256 number = _mm256_blendv_ps(from_low, from_high, top);
    __m256 scale = shared;
    if (run.spread == Spread::one) {
      scale = _mm256_loadu_ps(run.scale + i);
    } else if (run.spread != Spread::all) {
      scale = _mm256_set1_ps(run.scale[i >> shift]);
    }
    _mm256_storeu_ps(y + i, _mm256_mul_ps(number, scale));
  }
#else
  (void)codes, (void)numbers, (void)n, (void)run, (void)y;
#endif
  return i;
}

}  // namespace
