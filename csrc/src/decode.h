// From packed codes and scales to values: element * scale, then * outer.
#pragma once

#include "coder.h"
#include "level.h"
#include "load.h"
#include "row_kernels.h"

namespace {

using mixprec::DecodeTask;
using mixprec::kPiece;
using mixprec::OuterLayout;
using mixprec::ScaleKind;

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
MIXPREC_INLINE void multiply_numbers(const Number& number, std::int64_t n, const ScaleRun& run, float* MIXPREC_RESTRICT y) {
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
  ByteIntegers(const Grid& grid, const std::uint8_t* codes) : codes_(codes), unit_(power_of_two<float>(-grid.mantissa_bits)) {}
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
MIXPREC_INLINE std::int64_t multiply_nibbles(const std::uint8_t* MIXPREC_RESTRICT codes, const float* numbers, std::int64_t n,
                                             const ScaleRun& run, float* MIXPREC_RESTRICT y) {
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
    const __m256 number = _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, places), _mm256_permutevar8x32_ps(high, places), top);
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

// The run from column `done` on.
MIXPREC_INLINE ScaleRun rest_of(const ScaleRun& run, std::int64_t done) {
  if (run.spread == Spread::all) return run;
  return {run.scale + (run.spread == Spread::one ? done : run.spread == Spread::sixteen ? done / 16 : done / 32), run.spread};
}

class Decoder {
 public:
  explicit Decoder(const Grid& grid) : grid_(grid) {
    if (grid.bits <= 8) decode_all(grid, numbers_);
  }

  // n <= kPiece codes, from a byte on.
  MIXPREC_MEMBER void decode(const std::uint8_t* codes, std::int64_t n, const ScaleRun& run, float* y) {
    if (grid_.bits == 4) {
      const std::int64_t done = multiply_nibbles(codes, numbers_, n, run, y);
      if (done < n) decode_listed(codes + done / 2, n - done, rest_of_odd(run, done), y + done);
    } else if (grid_.bits == 8 && ByteFloats::fit(grid_)) {
      multiply_numbers(ByteFloats(grid_, codes), n, run, y);
    } else if (grid_.bits == 8 && grid_.integer) {
      multiply_numbers(ByteIntegers(grid_, codes), n, run, y);
    } else {
      decode_listed(codes, n, run, y);
    }
  }

 private:
  // What vectors left of a run may begin within a block: one scale per element then.
  MIXPREC_MEMBER ScaleRun rest_of_odd(const ScaleRun& run, std::int64_t done) {
    if (run.spread == Spread::all || done == 0) return run;
    if (run.spread == Spread::one) return {run.scale + done, run.spread};
    const std::int64_t width = run.spread == Spread::sixteen ? 16 : 32;
    for (std::int64_t i = 0; i < kLeft; ++i) left_[i] = run.scale[done / width];
    return {left_, Spread::one};
  }

  void decode_listed(const std::uint8_t* codes, std::int64_t n, const ScaleRun& run, float* y) {
    read_bits(codes, n, grid_.bits, words_);
    if (grid_.bits <= 8) {
      multiply_numbers(ListedNumbers{words_, numbers_}, n, run, y);
    } else if (grid_.integer) {
      multiply_numbers(CodedNumbers<IntegerCoder>{words_, IntegerCoder(grid_)}, n, run, y);
    } else {
      multiply_numbers(CodedNumbers<FloatCoder<double>>{words_, FloatCoder<double>(grid_)}, n, run, y);
    }
  }

  static constexpr std::int64_t kLeft = 16;  // vectors leave fewer
  Grid grid_;
  alignas(64) float numbers_[256];
  alignas(64) std::uint32_t words_[kPiece];
  float left_[kLeft];
};

// The number of each code of a scale.
MIXPREC_INLINE void decode_all_scales(const DecodeTask& task, float* numbers) {
  if (task.scale_kind == ScaleKind::floating) return decode_all(task.scale_grid, numbers);
  for (std::uint32_t code = 0; code < 255; ++code) numbers[code] = from_bits(code == 0 ? 0x00400000u : code << 23);
  numbers[255] = from_bits(kInfinity | kQuiet);
}

MIXPREC_INLINE void multiply_in_place(float* MIXPREC_RESTRICT y, std::int64_t n, const float* MIXPREC_RESTRICT factor,
                                      bool each) {
  if (each) {
    for (std::int64_t i = 0; i < n; ++i) y[i] *= factor[i];
  } else {
    const float f = *factor;
    for (std::int64_t i = 0; i < n; ++i) y[i] *= f;
  }
}

class RowDecoder {
 public:
  // `scratch`: task.panel_cols numbers.
  RowDecoder(const DecodeTask& task, float* scratch) : task_(task), elements_(task.grid), scales_(scratch) {
    if (task.scales) decode_all_scales(task, numbers_);
    shared_ = task.scales != nullptr || task.outer_layout == OuterLayout::per_tile;
    spread_ = !shared_ || task.tile_cols >= task.panel_cols ? Spread::all
              : task.tile_cols % 32 == 0                    ? Spread::thirty_two
              : task.tile_cols % 16 == 0                    ? Spread::sixteen
                                                            : Spread::one;
    *scales_ = 1.0f;
  }

  // Rows [begin, end) of one row of tiles, columns [c, c + n).
  void decode(std::int64_t begin, std::int64_t end, std::int64_t c, std::int64_t n) {
    if (shared_) read_scales(begin, c, n);
    for (std::int64_t r = begin; r < end; ++r)
      for (std::int64_t i = 0; i < n; i += kPiece) decode_piece(r, c + i, smaller(kPiece, n - i), i);
  }

 private:
  MIXPREC_MEMBER void read_scales(std::int64_t r, std::int64_t c, std::int64_t n) {
    const std::int64_t width = spread_ == Spread::sixteen ? 16 : spread_ == Spread::thirty_two ? 32 : 1;
    const std::int64_t entries = spread_ == Spread::all ? 1 : ceil_div(n, width);
    const std::int64_t repeats = spread_ == Spread::all ? 1 : task_.tile_cols / width;
    std::int64_t tile = r / task_.tile_rows * ceil_div(task_.cols, task_.tile_cols) + c / task_.tile_cols;
    for (std::int64_t i = 0; i < entries; i += repeats, ++tile) {
      const float scale = task_.scales ? numbers_[task_.scales[tile]] : task_.outer[tile];
      for (std::int64_t j = i; j < smaller(i + repeats, entries); ++j) scales_[j] = scale;
    }
  }

  MIXPREC_MEMBER void decode_piece(std::int64_t r, std::int64_t c, std::int64_t n, std::int64_t offset) {
    float* target = task_.values + r * task_.cols + c;
    float* y = task_.past_caches ? result_ : target;
    elements_.decode(task_.codes + r * task_.row_bytes + c * task_.grid.bits / 8, n, rest_of({scales_, spread_}, offset), y);
    if (task_.outer_layout == OuterLayout::one) multiply_in_place(y, n, task_.outer, false);
    if (task_.outer_layout == OuterLayout::per_row) multiply_in_place(y, n, task_.outer + r, false);
    if (task_.outer_layout == OuterLayout::per_column) multiply_in_place(y, n, task_.outer + c, true);
    if (task_.past_caches) store_past_caches(y, n, target);
  }

  const DecodeTask task_;
  Decoder elements_;
  float* scales_;
  bool shared_;  // whether tiles have scales, or fp32 numbers in their place
  Spread spread_;
  alignas(64) float numbers_[256];
  alignas(64) float result_[kPiece];
};

// Units [begin, end): panels of one row of tiles.
void decode_units(const DecodeTask& task, std::int64_t begin, std::int64_t end, float* scratch) {
  RowDecoder decoder(task, scratch);
  const std::int64_t across = ceil_div(task.cols, task.panel_cols);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t r = unit / across * task.panel_rows, c = unit % across * task.panel_cols;
    decoder.decode(r, smaller(r + task.panel_rows, task.rows), c, smaller(task.panel_cols, task.cols - c));
  }
  finish_stores();
}

}  // namespace
