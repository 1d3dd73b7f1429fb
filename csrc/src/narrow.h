// Products of matrices whose sums are rounded to few mantissa bits after each addition.
#pragma once

#include "level.h"
#include "lanes.h"

namespace {

using mixprec::kNarrowCols;
using mixprec::kNarrowRows;
using mixprec::NarrowTask;

// Rounds the significand to 52 - drop bits. A carry out of the mantissa is one more in the exponent, as it should be,
// and an infinity stays. So does a NaN with one mantissa bit set, the highest; see canonical().
struct Nearest {
  int drop;
  std::uint64_t below_half, mask;
  explicit Nearest(int bits)
      : drop(52 - bits), below_half((std::uint64_t{1} << (drop - 1)) - 1), mask(~std::uint64_t{0} << drop) {}
  MIXPREC_MEMBER LaneDoubles operator()(LaneDoubles x) const {
    const LaneWords bits = (LaneWords)x;
    return (LaneDoubles)((bits + below_half + ((bits >> drop) & 1)) & mask);
  }
};

struct TowardZero {
  std::uint64_t mask;
  explicit TowardZero(int bits) : mask(~std::uint64_t{0} << (52 - bits)) {}
  MIXPREC_MEMBER LaneDoubles operator()(LaneDoubles x) const { return (LaneDoubles)((LaneWords)x & mask); }
};

MIXPREC_INLINE double canonical(float x) {
  return static_cast<double>(x == x ? x : from_bits(kInfinity | kQuiet));
}

// Columns [c, c + kNarrowCols) of b, zeros beyond its end.
MIXPREC_INLINE void pack_columns(const NarrowTask& task, std::int64_t c) {
  const std::int64_t n = smaller(kNarrowCols, task.n - c);
  for (std::int64_t k = 0; k < task.k; ++k) {
    double* MIXPREC_RESTRICT row = task.b_panel + k * kNarrowCols;
    const float* MIXPREC_RESTRICT b = task.b + k * task.n + c;
    for (std::int64_t j = 0; j < n; ++j) row[j] = canonical(b[j]);
    for (std::int64_t j = n; j < kNarrowCols; ++j) row[j] = 0.0;
  }
}

MIXPREC_INLINE void pack_rows(const NarrowTask& task, std::int64_t r) {
  for (std::int64_t i = 0; i < kNarrowRows; ++i)
    for (std::int64_t k = 0; k < task.k; ++k)
      task.a_panel[k * kNarrowRows + i] = r + i < task.m ? canonical(task.a[(r + i) * task.k + k]) : 0.0;
}

// Rows x kDoubles sums over products [begin, end), starting at zero.
template <int Vectors, class Narrow>
MIXPREC_INLINE void sum_products(const Narrow& narrow, const NarrowTask& task, std::int64_t column, std::int64_t begin,
                                 std::int64_t end, LaneDoubles (&sums)[kNarrowRows][Vectors]) {
  for (auto& row : sums)
    for (auto& sum : row) sum = LaneDoubles{};
  for (std::int64_t k = begin; k < end; ++k) {
    LaneDoubles b[Vectors];
    std::memcpy(b, task.b_panel + k * kNarrowCols + column, sizeof b);
    const double* a = task.a_panel + k * kNarrowRows;
#pragma GCC unroll 4
    for (int i = 0; i < kNarrowRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < Vectors; ++j) sums[i][j] = narrow(sums[i][j] + b[j] * a[i]);
  }
}

// A block of kNarrowRows x (Vectors * kDoubles) outputs, into `block` [kNarrowRows][kNarrowCols].
template <class Narrow>
MIXPREC_INLINE void narrow_block(const Narrow& narrow, const NarrowTask& task, float* block) {
  constexpr int Vectors = 2;
  const std::int64_t step = task.sums.promote_every > 0 ? task.sums.promote_every : larger(task.k, 1);
  for (std::int64_t column = 0; column < kNarrowCols; column += Vectors * kDoubles) {
    LaneDoubles sums[kNarrowRows][Vectors];
    float total[kNarrowRows][Vectors * kDoubles] = {};
    // One sum more than there are whole steps: the last one, possibly of nothing, is added too.
    for (std::int64_t begin = 0; begin <= task.k; begin += step) {
      sum_products<Vectors>(narrow, task, column, begin, smaller(begin + step, task.k), sums);
      for (int i = 0; i < kNarrowRows; ++i) {
        double row[Vectors * kDoubles];
        std::memcpy(row, sums[i], sizeof row);
        for (int j = 0; j < Vectors * kDoubles; ++j) total[i][j] += static_cast<float>(row[j]);
      }
    }
    for (int i = 0; i < kNarrowRows; ++i)
      std::memcpy(block + i * kNarrowCols + column, total[i], sizeof total[i]);
  }
}

template <class Narrow>
void narrow_rows_with(const Narrow& narrow, const NarrowTask& task, std::int64_t row_begin, std::int64_t row_end) {
  float block[kNarrowRows * kNarrowCols];
  for (std::int64_t c = 0; c < task.n; c += kNarrowCols) {
    pack_columns(task, c);
    const std::size_t bytes = static_cast<std::size_t>(smaller(kNarrowCols, task.n - c)) * sizeof(float);
    for (std::int64_t r = row_begin; r < row_end; r += kNarrowRows) {
      pack_rows(task, r);
      narrow_block(narrow, task, block);
      for (std::int64_t i = 0; i < smaller(kNarrowRows, row_end - r); ++i)
        std::memcpy(task.out + (r + i) * task.n + c, block + i * kNarrowCols, bytes);
    }
  }
}

void narrow_rows(const NarrowTask& task, std::int64_t row_begin, std::int64_t row_end) {
  if (task.sums.nearest) return narrow_rows_with(Nearest(task.sums.mantissa_bits), task, row_begin, row_end);
  narrow_rows_with(TowardZero(task.sums.mantissa_bits), task, row_begin, row_end);
}

}  // namespace
