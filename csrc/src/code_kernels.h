// From the values of a run straight to its packed codes, for short float formats that saturate.
#pragma once

#include "coder.h"
#include "row_kernels.h"

namespace {

// x: n values; out: their codes, from a byte on; quantize, words as in Run1d.
struct CodeRun {
  const float* x;
  std::uint8_t* out;
  std::int64_t n;
  const float* quantize;
  const std::uint32_t* words;
};

// False where a value is NaN: nothing useful was written then.
using CodeKernel = bool (*)(const Grid&, const CodeRun&);

#if defined(MIXPREC_LANES)

MIXPREC_INLINE bool has_code_kernel(const Grid& grid) {
  const bool plain_float = !grid.table && !grid.integer && grid.is_signed && grid.negative_zero;
  return plain_float && grid.overflow == grid.max_value && method_for(grid) == Method::single &&
         (grid.bits == 8 || grid.bits == 4);
}

template <Rounding R, int Bits>
class CodeLanes {
 public:
  explicit CodeLanes(const Grid& grid) : rounder_(grid), drop_(23 - grid.mantissa_bits), nan_{} {}

  MIXPREC_MEMBER void write(LaneFloats value, LaneBits words, std::uint8_t* out) {
    const LaneBits magnitude = as_bits(value) & all_lanes(kMagnitude);
    nan_ |= all_lanes(kInfinity) - magnitude;  // negative for a NaN
    const LaneBits sign = as_bits(value) >> (32 - Bits) & all_lanes(1u << (Bits - 1));
    const LaneBits code = rounder_.code_lanes(magnitude, words, drop_) | sign;
    if constexpr (Bits == 8) {
      store_bytes(code, out);
    } else {
      store_nibbles(code, out);
    }
  }

  MIXPREC_MEMBER bool no_nan() const { return !any_negative(nan_); }

 private:
  FloatRounder<float, R, false, true> rounder_;
  int drop_;
  LaneBits nan_;
};

// One entry of `quantize` per Width elements (0: one for all).
template <int Width>
MIXPREC_INLINE LaneFloats quantize_lanes(const float* quantize, std::int64_t i) {
  if constexpr (Width == 1) return load_lanes(quantize + i);
  return all_lanes(quantize[Width == 0 ? 0 : i / (Width == 0 ? 1 : Width)]);
}

// The last values of a run, fewer than a vector holds: with zeros after them.
template <int Width, int Bits, class Lanes>
MIXPREC_INLINE void write_tail(Lanes& lanes, const CodeRun& run, std::int64_t i) {
  alignas(64) float x[kLanes] = {}, quantize[kLanes] = {};
  alignas(64) std::uint32_t words[kLanes] = {};
  std::uint8_t out[kLanes];
  for (std::int64_t j = i; j < run.n; ++j) {
    x[j - i] = run.x[j];
    quantize[j - i] = run.quantize[Width == 0 ? 0 : j / (Width == 0 ? 1 : Width)];
    words[j - i] = run.words ? run.words[j] : 0u;
  }
  lanes.write(load_lanes(x) * load_lanes(quantize), load_lanes(words), out);
  std::memcpy(run.out + i * Bits / 8, out, static_cast<std::size_t>(ceil_div((run.n - i) * Bits, 8)));
}

template <Rounding R, int Bits, int Width>
bool write_run(const Grid& grid, const CodeRun& run) {
  CodeLanes<R, Bits> lanes(grid);
  std::int64_t i = 0;
  for (; i + kLanes <= run.n; i += kLanes) {
    const LaneBits words = R == Rounding::stochastic ? load_lanes(run.words + i) : LaneBits{};
    lanes.write(load_lanes(run.x + i) * quantize_lanes<Width>(run.quantize, i), words, run.out + i * Bits / 8);
  }
  if (i < run.n) write_tail<Width, Bits>(lanes, run, i);
  return lanes.no_nan();
}

template <Rounding R, int Bits>
CodeKernel code_kernel_of(Spread spread) {
  switch (spread) {
    case Spread::all: return write_run<R, Bits, 0>;
    case Spread::one: return write_run<R, Bits, 1>;
    case Spread::sixteen: return write_run<R, Bits, 16>;
    default: return write_run<R, Bits, 32>;
  }
}

template <Rounding R>
CodeKernel code_kernel_for(const Grid& grid, Spread spread) {
  return grid.bits == 8 ? code_kernel_of<R, 8>(spread) : code_kernel_of<R, 4>(spread);
}

// Null where the format has none.
MIXPREC_INLINE CodeKernel code_kernel(const Grid& grid, Rounding rounding, Spread spread) {
  if (!has_code_kernel(grid)) return nullptr;
  switch (rounding) {
    case Rounding::toward_zero: return code_kernel_for<Rounding::toward_zero>(grid, spread);
    case Rounding::stochastic: return code_kernel_for<Rounding::stochastic>(grid, spread);
    case Rounding::nearest_even: break;
  }
  return code_kernel_for<Rounding::nearest_even>(grid, spread);
}

#else

MIXPREC_INLINE CodeKernel code_kernel(const Grid&, Rounding, Spread) { return nullptr; }

#endif

}  // namespace
