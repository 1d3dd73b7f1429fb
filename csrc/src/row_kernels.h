// Rounding a run of consecutive elements of one row, for every way that scales lie along it, and the choice of
// the rounder: the only indirect call, once per run.
#pragma once

#include "rounding.h"

namespace {

// x, y: n elements; quantize, scale: what elements are multiplied by before and after; words: random words
// (stochastic only).
struct Run1d {
  const float* x;
  float* y;
  std::int64_t n;
  const float* quantize;
  const float* scale;
  const std::uint32_t* words;
};

template <class Rounder, bool Stochastic>
MIXPREC_INLINE void round_run(const Rounder& rounder, const float* MIXPREC_RESTRICT x, float* MIXPREC_RESTRICT y,
                              std::int64_t n, float quantize, float scale, const std::uint32_t* MIXPREC_RESTRICT words) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = rounder(x[i] * quantize, Stochastic ? words[i] : 0u) * scale;
}

// One scale for the run.
template <class Rounder, bool Stochastic>
void uniform(const Element& element, const Run1d& run) {
  const Rounder rounder(element);
  round_run<Rounder, Stochastic>(rounder, run.x, run.y, run.n, *run.quantize, *run.scale, run.words);
}

// One scale per element.
template <class Rounder, bool Stochastic>
void columns(const Element& element, const Run1d& run) {
  const Rounder rounder(element);
  const float* MIXPREC_RESTRICT x = run.x;
  const float* MIXPREC_RESTRICT quantize = run.quantize;
  const float* MIXPREC_RESTRICT scale = run.scale;
  const std::uint32_t* MIXPREC_RESTRICT words = run.words;
  float* MIXPREC_RESTRICT y = run.y;
  for (std::int64_t i = 0; i < run.n; ++i)
    y[i] = rounder(x[i] * quantize[i], Stochastic ? words[i] : 0u) * scale[i];
}

// One scale per Width elements, the last block possibly narrower.
template <class Rounder, bool Stochastic, int Width>
void fixed_blocks(const Element& element, const Run1d& run) {
  const Rounder rounder(element);
  std::int64_t i = 0, block = 0;
  for (; i + Width <= run.n; i += Width, ++block)
    round_run<Rounder, Stochastic>(rounder, run.x + i, run.y + i, Width, run.quantize[block], run.scale[block],
                                   Stochastic ? run.words + i : nullptr);
  if (i < run.n)
    round_run<Rounder, Stochastic>(rounder, run.x + i, run.y + i, run.n - i, run.quantize[block], run.scale[block],
                                   Stochastic ? run.words + i : nullptr);
}

struct RowKernels {
  void (*uniform)(const Element&, const Run1d&);
  void (*columns)(const Element&, const Run1d&);
  void (*blocks16)(const Element&, const Run1d&);
  void (*blocks32)(const Element&, const Run1d&);
};

template <class Rounder, Rounding R>
RowKernels row_kernels_of() {
  constexpr bool s = R == Rounding::stochastic;
  return {uniform<Rounder, s>, columns<Rounder, s>, fixed_blocks<Rounder, s, 16>, fixed_blocks<Rounder, s, 32>};
}

template <Rounding R>
RowKernels row_kernels_for(const Element& element) {
  const bool propagate = !(element.overflow == element.max_value);
  switch (method_for(element)) {
    case Method::integer: return row_kernels_of<IntegerRounder<R>, R>();
    case Method::wide: return row_kernels_of<FloatRounder<double, R, true>, R>();
    case Method::single: break;
  }
  if (propagate) return row_kernels_of<FloatRounder<float, R, true>, R>();
  return row_kernels_of<FloatRounder<float, R, false>, R>();
}

MIXPREC_INLINE RowKernels row_kernels(const Element& element, Rounding rounding) {
  switch (rounding) {
    case Rounding::toward_zero: return row_kernels_for<Rounding::toward_zero>(element);
    case Rounding::stochastic: return row_kernels_for<Rounding::stochastic>(element);
    case Rounding::nearest_even: break;
  }
  return row_kernels_for<Rounding::nearest_even>(element);
}

// The same for runs of any block width.
MIXPREC_INLINE void round_block_run(const RowKernels& kernels, const Element& element, const Run1d& run,
                                    std::int64_t width) {
  if (width == 1) return kernels.columns(element, run);
  if (width == 16) return kernels.blocks16(element, run);
  if (width == 32) return kernels.blocks32(element, run);
  for (std::int64_t i = 0, block = 0; i < run.n; i += width, ++block)
    kernels.uniform(element, {run.x + i, run.y + i, smaller(width, run.n - i), run.quantize + block,
                              run.scale + block, run.words ? run.words + i : nullptr});
}

}  // namespace
