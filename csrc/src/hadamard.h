// Walsh-Hadamard butterflies: for h = 1, 2, 4, ... elements j and j + h become (a + b, a - b); then one product
// with fp32(1 / sqrt(size)). Signs multiply before (forward) or after (inverse).
#pragma once

#include "level.h"
#include "load.h"

namespace {

using mixprec::HadamardTask;
using mixprec::kMaxTransform;
using mixprec::Rect;

constexpr int kHadamardPanel = 64;  // columns of a panel along axis 0: four cache lines

#if defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float LaneFloats __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t LaneBits __attribute__((vector_size(kLanes * 4)));

// Elements at distances H < kLanes, within one vector: lane i becomes v[i ^ H] + v[i], the second negated where i
// holds the lower element, which is a - b exactly.
template <int H>
MIXPREC_INLINE LaneFloats butterfly_lanes(LaneFloats v) {
  LaneBits partner, flip;
  for (int i = 0; i < kLanes; ++i) {
    partner[i] = i ^ H;
    flip[i] = (i & H) != 0 ? static_cast<std::int32_t>(kSign) : 0;
  }
#if defined(__clang__)
  LaneFloats swapped;
  for (int i = 0; i < kLanes; ++i) swapped[i] = v[i ^ H];
  (void)partner;
#else
  const LaneFloats swapped = __builtin_shuffle(v, partner);
#endif
  return swapped + (LaneFloats)((LaneBits)v ^ flip);
}

// Groups of Width neighbours starting at v, transformed at distances H, 2 H, ... < Size.
template <int Size, int Width>
MIXPREC_INLINE void butterflies_from(float* v, int first) {
  for (int h = first; h < Size; h *= 2) {
    for (int pair = 0; pair < Size; pair += 2 * h) {
      float* MIXPREC_RESTRICT upper = v + pair * Width;
      float* MIXPREC_RESTRICT lower = v + (pair + h) * Width;
      for (int i = 0; i < h * Width; ++i) {
        const float a = upper[i], b = lower[i];
        upper[i] = a + b;
        lower[i] = a - b;
      }
    }
  }
}

// One group of Size elements in v.
template <int Size>
MIXPREC_INLINE void transform_group(float* v) {
  for (int i = 0; i < Size; i += kLanes) {
    LaneFloats lanes;
    std::memcpy(&lanes, v + i, sizeof lanes);
    lanes = butterfly_lanes<2>(butterfly_lanes<1>(lanes));
    if constexpr (kLanes > 4) lanes = butterfly_lanes<4>(lanes);
    std::memcpy(v + i, &lanes, sizeof lanes);
  }
  butterflies_from<Size, 1>(v, kLanes);
}

// y[i] = x[i] * (signs[i] or 1) * (factor or 1)
MIXPREC_INLINE void multiply(const float* MIXPREC_RESTRICT x, const float* MIXPREC_RESTRICT signs, int n, float factor,
                             float* MIXPREC_RESTRICT y) {
  if (signs) {
    for (int i = 0; i < n; ++i) y[i] = x[i] * factor * signs[i];
  } else {
    for (int i = 0; i < n; ++i) y[i] = x[i] * factor;
  }
}

template <int Size>
void transform_rows(const HadamardTask& task, std::int64_t row_begin, std::int64_t row_end) {
  alignas(64) float v[Size];
  alignas(64) float widened[Size];
  const float* before = task.inverse ? nullptr : task.signs;
  const float* after = task.inverse ? task.signs : nullptr;
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    for (std::int64_t c = 0; c < task.y_cols; c += Size) {
      const std::int64_t given = smaller(Size, task.x.cols - c);
      const float* x = load(task.x, r * task.x.cols + c, given, widened);
      if (given < Size) {
        for (std::int64_t i = 0; i < Size; ++i) widened[i] = i < given ? x[i] : 0.0f;
        x = widened;
      }
      multiply(x, before, Size, 1.0f, v);
      transform_group<Size>(v);
      multiply(v, after, Size, task.factor, task.y + r * task.y_cols + c);
    }
  }
}

// A row of groups along axis 0: kHadamardPanel columns at a time.
template <int Size>
void transform_panels(const HadamardTask& task, const Rect& rect) {
  constexpr int Width = kHadamardPanel;
  alignas(64) float v[Size * Width];
  alignas(64) float widened[Width];
  for (std::int64_t c = rect.col_begin; c < rect.col_end; c += Width) {
    const int n = static_cast<int>(smaller(Width, rect.col_end - c));
    for (std::int64_t r = rect.row_begin; r < rect.row_end; r += Size) {
      std::memset(v, 0, sizeof v);
      for (int j = 0; j < Size; ++j) {
        const float sign = task.signs && !task.inverse ? task.signs[j] : 1.0f;
        if (r + j < task.x.rows) {
          multiply(load(task.x, (r + j) * task.x.cols + c, n, widened), nullptr, n, sign, v + j * Width);
        } else {
          for (int i = 0; i < n; ++i) v[j * Width + i] = 0.0f * sign;  // padding takes part with its sign
        }
      }
      butterflies_from<Size, Width>(v, 1);
      for (int j = 0; j < Size; ++j) {
        const float sign = task.signs && task.inverse ? task.signs[j] : 1.0f;
        multiply(v + j * Width, nullptr, n, task.factor * sign, task.y + (r + j) * task.y_cols + c);
      }
    }
  }
}

void hadamard_rows(const HadamardTask& task, std::int64_t row_begin, std::int64_t row_end) {
  switch (task.size) {
    case 16: return transform_rows<16>(task, row_begin, row_end);
    case 32: return transform_rows<32>(task, row_begin, row_end);
    case 64: return transform_rows<64>(task, row_begin, row_end);
    default: return transform_rows<kMaxTransform>(task, row_begin, row_end);
  }
}

void hadamard_panels(const HadamardTask& task, const Rect& rect) {
  switch (task.size) {
    case 16: return transform_panels<16>(task, rect);
    case 32: return transform_panels<32>(task, rect);
    case 64: return transform_panels<64>(task, rect);
    default: return transform_panels<kMaxTransform>(task, rect);
  }
}

}  // namespace
