// Rounding under scales that a tensor, a row or a column shares, and largest magnitudes.
#pragma once

#include "blocks.h"

namespace {

using mixprec::ElementTask;

// Reductions in 4 KiB pieces, so that 16-bit inputs are widened inside the nearest cache.
std::uint32_t amax_range(const Matrix& x, std::int64_t begin, std::int64_t end) {
  alignas(64) float widened[kPiece];
  std::uint32_t largest = 0;
  for (std::int64_t i = begin; i < end; i += kPiece) {
    const std::int64_t n = smaller(kPiece, end - i);
    const std::uint32_t m = amax_run(load(x, i, n, widened), n);
    largest = m > largest ? m : largest;
  }
  return largest;
}

void amax_columns(const Matrix& x, std::int64_t row_begin, std::int64_t row_end, std::uint32_t* amax) {
  alignas(64) float widened[kPiece];
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    for (std::int64_t c = 0; c < x.cols; c += kPiece) {
      const std::int64_t n = smaller(kPiece, x.cols - c);
      amax_into_columns(load(x, r * x.cols + c, n, widened), n, amax + c);
    }
  }
}

// The random words of elements [begin, end), to words[begin ..].
void word_range(const Random& random, std::int64_t begin, std::int64_t end, std::uint32_t* words) {
  alignas(64) std::uint32_t buffer[kPiece + 2 * kGroup];
  Philox philox(random);
  for (std::int64_t i = begin; i < end; i += kPiece) {
    const std::int64_t n = smaller(kPiece, end - i);
    std::memcpy(words + i, philox_fill(philox, i, n, buffer), static_cast<std::size_t>(n) * sizeof *words);
  }
}

// Elements [begin, end) under one scale, or (column scales) under quant_scales[0 .. end - begin).
MIXPREC_INLINE void round_range(const ElementTask& task, std::int64_t begin, std::int64_t end, const float* quantize,
                                bool by_column, const RowKernels& kernels, Philox& philox, Scratch& scratch) {
  for (std::int64_t i = begin; i < end; i += kPiece) {
    const std::int64_t n = smaller(kPiece, end - i);
    const bool stochastic = task.rounding == Rounding::stochastic;
    const std::uint32_t* words = stochastic ? philox_fill(philox, i, n, scratch.words) : nullptr;
    const float* x = load(task.x, i, n, scratch.widened);
    float* y = result_place(task.carrier + i, task.past_caches, scratch);
    if (by_column) {
      kernels.columns(task.element, {x, y, n, quantize + (i - begin), scratch.scale, words});
    } else {
      kernels.uniform(task.element, {x, y, n, quantize, scratch.scale, words});
    }
    result_leave(task.carrier + i, n, task.past_caches, scratch);
  }
}

MIXPREC_INLINE void unit_scales(Scratch& scratch) {
  for (std::int64_t i = 0; i < kPiece; ++i) scratch.scale[i] = 1.0f;
}

void round_all(const ElementTask& task, std::int64_t begin, std::int64_t end) {
  Scratch scratch;
  unit_scales(scratch);
  const RowKernels kernels = row_kernels(task.element, task.rounding);
  Philox philox(task.random);
  round_range(task, begin, end, &task.quant_scale, false, kernels, philox, scratch);
  if (task.past_caches) finish_stores();
}

void round_rows(const ElementTask& task, std::int64_t row_begin, std::int64_t row_end) {
  Scratch scratch;
  unit_scales(scratch);
  const RowKernels kernels = row_kernels(task.element, task.rounding);
  Philox philox(task.random);
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    const std::int64_t begin = r * task.x.cols, end = begin + task.x.cols;
    const float quantize = quant_scale(task.target, from_bits(amax_range(task.x, begin, end)));
    task.outer[r] = 1.0f / quantize;
    round_range(task, begin, end, &quantize, false, kernels, philox, scratch);
  }
  if (task.past_caches) finish_stores();
}

void round_columns(const ElementTask& task, std::int64_t row_begin, std::int64_t row_end) {
  Scratch scratch;
  unit_scales(scratch);
  const RowKernels kernels = row_kernels(task.element, task.rounding);
  Philox philox(task.random);
  for (std::int64_t r = row_begin; r < row_end; ++r)
    round_range(task, r * task.x.cols, (r + 1) * task.x.cols, task.quant_scales, true, kernels, philox, scratch);
  if (task.past_caches) finish_stores();
}

}  // namespace
