// Walsh-Hadamard butterflies: for h = 1, 2, 4, ... elements j and j + h become (a + b, a - b). Products before them
// (signs) and after (fp32(1 / sqrt(size)), with signs for the inverse) are two vectors of `size` numbers.
//
// Additions at one distance do not depend on each other, so groups are cut to what registers hold.
#pragma once

#include "lanes.h"

namespace {

// Vectors that are transformed in registers.
#if defined(__AVX512F__)
constexpr int kHeld = 16;
#else
constexpr int kHeld = 8;
#endif

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

// All distances within one vector.
MIXPREC_INLINE LaneFloats butterflies_in_lanes(LaneFloats v) {
  v = butterfly_lanes<2>(butterfly_lanes<1>(v));
  if constexpr (kLanes > 4) v = butterfly_lanes<4>(v);
  if constexpr (kLanes > 8) v = butterfly_lanes<8>(v);
  return v;
}

// Distances 1, 2, ... Count / 2 between vectors.
template <int Count>
MIXPREC_INLINE void butterflies(LaneFloats* v) {
#pragma GCC unroll 8
  for (int h = 1; h < Count; h *= 2) {
#pragma GCC unroll 16
    for (int j = 0; j < Count; ++j) {
      if ((j & h) != 0) continue;
      const LaneFloats a = v[j], b = v[j + h];
      v[j] = a + b;
      v[j + h] = a - b;
    }
  }
}

// One group of Size neighbours.
template <int Size>
MIXPREC_INLINE void transform_group(const float* x, const float* before, const float* after, float* y) {
  constexpr int Count = Size / kLanes;
  LaneFloats v[Count];
#pragma GCC unroll 8
  for (int j = 0; j < Count; ++j)
    v[j] = butterflies_in_lanes(load_lanes(x + j * kLanes) * load_lanes(before + j * kLanes));
  butterflies<Count>(v);
#pragma GCC unroll 8
  for (int j = 0; j < Count; ++j) store_lanes(v[j] * load_lanes(after + j * kLanes), y + j * kLanes);
}

// n elements of a row, whole groups.
template <int Size>
void transform_row(const float* x, std::int64_t n, const float* before, const float* after, float* y) {
  for (std::int64_t i = 0; i < n; i += Size) transform_group<Size>(x + i, before, after, y + i);
}

// Rows of lanes that lie `stride` apart.
struct LaneRows {
  const float* x;
  std::int64_t x_stride;
  float* y;
  std::int64_t y_stride;
};

// One group of Size rows, kLanes columns.
template <int Size>
MIXPREC_INLINE void transform_lanes(const LaneRows& rows, const float* before, const float* after) {
  constexpr int Outer = Size / kHeld;
  LaneFloats part[Outer > 1 ? Size : 1];
  for (int o = 0; o < Outer; ++o) {
    LaneFloats v[kHeld];
#pragma GCC unroll 16
    for (int j = 0; j < kHeld; ++j)
      v[j] = load_lanes(rows.x + (o * kHeld + j) * rows.x_stride) * before[o * kHeld + j];
    butterflies<kHeld>(v);
#pragma GCC unroll 16
    for (int j = 0; j < kHeld; ++j) {
      if constexpr (Outer > 1) {
        part[o * kHeld + j] = v[j];
      } else {
        store_lanes(v[j] * after[j], rows.y + j * rows.y_stride);
      }
    }
  }
  if constexpr (Outer > 1) {
    for (int j = 0; j < kHeld; ++j) {
      LaneFloats v[Outer];
#pragma GCC unroll 16
      for (int o = 0; o < Outer; ++o) v[o] = part[o * kHeld + j];
      butterflies<Outer>(v);
#pragma GCC unroll 16
      for (int o = 0; o < Outer; ++o)
        store_lanes(v[o] * after[o * kHeld + j], rows.y + (o * kHeld + j) * rows.y_stride);
    }
  }
}

// One group of Size rows, n columns; x and y may be the same.
template <int Size>
void transform_columns(const LaneRows& rows, std::int64_t n, const float* before, const float* after) {
  std::int64_t c = 0;
  for (; c + kLanes <= n; c += kLanes)
    transform_lanes<Size>({rows.x + c, rows.x_stride, rows.y + c, rows.y_stride}, before, after);
  if (c == n) return;
  alignas(64) float tail[Size * kLanes];
  const std::size_t bytes = static_cast<std::size_t>(n - c) * sizeof(float);
  std::memset(tail, 0, sizeof tail);
  for (int j = 0; j < Size; ++j) std::memcpy(tail + j * kLanes, rows.x + j * rows.x_stride + c, bytes);
  transform_lanes<Size>({tail, kLanes, tail, kLanes}, before, after);
  for (int j = 0; j < Size; ++j) std::memcpy(rows.y + j * rows.y_stride + c, tail + j * kLanes, bytes);
}

struct TransformKernels {
  void (*row)(const float* x, std::int64_t n, const float* before, const float* after, float* y);
  void (*columns)(const LaneRows& rows, std::int64_t n, const float* before, const float* after);
};

MIXPREC_INLINE TransformKernels transform_kernels(int size) {
  switch (size) {
    case 16: return {transform_row<16>, transform_columns<16>};
    case 32: return {transform_row<32>, transform_columns<32>};
    case 64: return {transform_row<64>, transform_columns<64>};
    default: return {transform_row<128>, transform_columns<128>};
  }
}

}  // namespace
