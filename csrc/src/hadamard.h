// Walsh-Hadamard butterflies: for h = 1, 2, 4, ... elements j and j + h become (a + b, a - b).
#pragma once

#include "level.h"
#include "load.h"

namespace {

using mixprec::HadamardTask;
using mixprec::kMaxTransform;
using mixprec::Rect;

constexpr std::int64_t kHadamardPanel = 64;  // columns of a panel along axis 0

// `lanes` independent transforms side by side: element j of each lies at v[j * lanes].
MIXPREC_INLINE void butterflies(float* MIXPREC_RESTRICT v, int size, std::int64_t lanes) {
  for (std::int64_t h = 1; h < size; h *= 2) {
    for (std::int64_t pair = 0; pair < size; pair += 2 * h) {
      float* MIXPREC_RESTRICT upper = v + pair * lanes;
      float* MIXPREC_RESTRICT lower = v + (pair + h) * lanes;
      for (std::int64_t i = 0; i < h * lanes; ++i) {
        const float a = upper[i], b = lower[i];
        upper[i] = a + b;
        lower[i] = a - b;
      }
    }
  }
}

// The transforms in `v`, with signs before or after.
MIXPREC_INLINE void transform(const HadamardTask& task, float* MIXPREC_RESTRICT v, std::int64_t lanes) {
  if (task.signs && !task.inverse)
    for (int j = 0; j < task.size; ++j)
      for (std::int64_t i = 0; i < lanes; ++i) v[j * lanes + i] *= task.signs[j];
  butterflies(v, task.size, lanes);
  for (std::int64_t i = 0; i < task.size * lanes; ++i) v[i] *= task.factor;
  if (task.signs && task.inverse)
    for (int j = 0; j < task.size; ++j)
      for (std::int64_t i = 0; i < lanes; ++i) v[j * lanes + i] *= task.signs[j];
}

// Along axis 1: sixteen groups are transposed so that they lie side by side.
void hadamard_groups(const HadamardTask& task, std::int64_t row_begin, std::int64_t row_end) {
  constexpr std::int64_t lanes = 16;
  alignas(64) float v[kMaxTransform * lanes];
  alignas(64) float widened[kMaxTransform * lanes];
  const std::int64_t size = task.size;
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    for (std::int64_t c = 0; c < task.y_cols; c += size * lanes) {
      const std::int64_t given = larger(0, smaller(size * lanes, task.x.cols - c));
      const std::int64_t groups = smaller(lanes, (task.y_cols - c) / size);
      const float* x = load(task.x, r * task.x.cols + c, given, widened);
      std::memset(v, 0, sizeof v);
      for (std::int64_t i = 0; i < given; ++i) v[i % size * lanes + i / size] = x[i];
      transform(task, v, lanes);
      float* y = task.y + r * task.y_cols + c;
      for (std::int64_t g = 0; g < groups; ++g)
        for (std::int64_t j = 0; j < size; ++j) y[g * size + j] = v[j * lanes + g];
    }
  }
}

// Along axis 0: a row of groups, panel by panel.
void hadamard_columns(const HadamardTask& task, const Rect& rect) {
  alignas(64) float v[kMaxTransform * kHadamardPanel];
  alignas(64) float widened[kHadamardPanel];
  for (std::int64_t c = rect.col_begin; c < rect.col_end; c += kHadamardPanel) {
    const std::int64_t n = smaller(kHadamardPanel, rect.col_end - c);
    for (std::int64_t r = rect.row_begin; r < rect.row_end; r += task.size) {
      std::memset(v, 0, sizeof v);
      for (std::int64_t j = 0; j < task.size && r + j < task.x.rows; ++j) {
        const float* x = load(task.x, (r + j) * task.x.cols + c, n, widened);
        std::memcpy(v + j * kHadamardPanel, x, static_cast<std::size_t>(n) * sizeof *x);
      }
      transform(task, v, kHadamardPanel);
      for (std::int64_t j = 0; j < task.size; ++j)
        std::memcpy(task.y + (r + j) * task.y_cols + c, v + j * kHadamardPanel, static_cast<std::size_t>(n) * sizeof *v);
    }
  }
}

}  // namespace
