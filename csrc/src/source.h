// The matrix that is rounded, piece by piece: x widened, padded and transformed into a small buffer, or x itself.
#pragma once

#include "level.h"
#include "load.h"
#include "transform.h"

namespace {

using mixprec::Rect;
using mixprec::Source;
using mixprec::TransformTask;

MIXPREC_INLINE bool is_prepared(const Source& source) {
  return source.transform == 0 && source.x.dtype == Dtype::f32;
}

// Row r of x, columns [c, c + n) of the padded matrix, into y; zeros where x has ended.
MIXPREC_INLINE void widen_row(const Matrix& x, std::int64_t r, std::int64_t c, std::int64_t n, float* y) {
  const std::int64_t given = r < x.rows ? larger(0, smaller(n, x.cols - c)) : 0;
  const float* from = given > 0 ? load(x, r * x.cols + c, given, y) : y;
  if (from != y) std::memcpy(y, from, static_cast<std::size_t>(given) * sizeof *y);
  for (std::int64_t i = given; i < n; ++i) y[i] = 0.0f;
}

MIXPREC_INLINE void transform_one_row(const Source& source, const TransformKernels& kernels, std::int64_t r,
                                      std::int64_t c, std::int64_t n, float* y) {
  const Matrix& x = source.x;
  if (x.dtype == Dtype::f32 && c + n <= x.cols)
    return kernels.row(static_cast<const float*>(x.data) + r * x.cols + c, n, source.before, source.after, y);
  widen_row(x, r, c, n, y);
  kernels.row(y, n, source.before, source.after, y);
}

// One group of rows from r on.
MIXPREC_INLINE void transform_row_group(const Source& source, const TransformKernels& kernels, std::int64_t r,
                                        std::int64_t c, std::int64_t n, float* y, std::int64_t stride) {
  const Matrix& x = source.x;
  LaneRows rows{y, stride, y, stride};
  if (x.dtype == Dtype::f32 && r + source.transform <= x.rows) {
    rows.x = static_cast<const float*>(x.data) + r * x.cols + c;
    rows.x_stride = x.cols;
  } else {
    for (int j = 0; j < source.transform; ++j) widen_row(x, r + j, c, n, y + j * stride);
  }
  kernels.columns(rows, n, source.before, source.after);
}

// The rectangle's values into y; whole groups of the transform.
MIXPREC_INLINE void prepare(const Source& source, const TransformKernels& kernels, const Rect& rect, float* y,
                            std::int64_t stride) {
  const std::int64_t c = rect.col_begin, n = rect.col_end - rect.col_begin;
  const std::int64_t step = source.transform != 0 && source.axis == 0 ? source.transform : 1;
  for (std::int64_t r = rect.row_begin; r < rect.row_end; r += step, y += step * stride) {
    if (source.transform == 0) {
      widen_row(source.x, r, c, n, y);
    } else if (source.axis == 1) {
      transform_one_row(source, kernels, r, c, n, y);
    } else {
      transform_row_group(source, kernels, r, c, n, y, stride);
    }
  }
}

// Rows of one panel after the other. A strip of rows is prepared when one of them is asked for.
class Stage {
 public:
  Stage(const Source& source, std::int64_t strip_rows, float* staged)
      : source_(source),
        kernels_(transform_kernels(source.transform)),
        strip_rows_(strip_rows),
        staged_(staged),
        prepared_(is_prepared(source)),
        panel_{0, 0, 0, 0},
        begin_(0),
        end_(0) {}

  void set_panel(const Rect& panel) {
    panel_ = panel;
    begin_ = end_ = 0;
  }

  // Row r of the panel, from its first column on.
  MIXPREC_MEMBER const float* row(std::int64_t r) {
    if (prepared_) return static_cast<const float*>(source_.x.data) + r * source_.x.cols + panel_.col_begin;
    if (r < begin_ || r >= end_) fill(r);
    return staged_ + (r - begin_) * (panel_.col_end - panel_.col_begin);
  }

  // Asks memory for what the next panel reads of row r where this one reads n elements from its column c on: the
  // processor's own prefetchers stop at the end of a page, and not before arithmetic has stopped to wait.
  MIXPREC_MEMBER void fetch_next(std::int64_t r, std::int64_t c, std::int64_t n) const {
    const std::int64_t width = panel_.col_end - panel_.col_begin, size = dtype_size(source_.x.dtype);
    const std::int64_t start = r * source_.x.cols + panel_.col_begin + width + c;
    const char* from = static_cast<const char*>(source_.x.data) + start * size;
    for (std::int64_t i = 0; i < n * size; i += kCacheLine) __builtin_prefetch(from + i);
  }

 private:
  void fill(std::int64_t r) {
    begin_ = panel_.row_begin + (r - panel_.row_begin) / strip_rows_ * strip_rows_;
    end_ = smaller(begin_ + strip_rows_, panel_.row_end);
    prepare(source_, kernels_, {begin_, end_, panel_.col_begin, panel_.col_end}, staged_,
            panel_.col_end - panel_.col_begin);
  }

  Source source_;
  TransformKernels kernels_;
  std::int64_t strip_rows_;
  float* staged_;
  bool prepared_;
  Rect panel_;
  std::int64_t begin_, end_;  // rows that are staged
};

// The Hadamard transform on its own: units [begin, end).
void transform_units(const TransformTask& task, std::int64_t begin, std::int64_t end) {
  const TransformKernels kernels = transform_kernels(task.source.transform);
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t r = unit / task.units_across * task.unit_rows, c = unit % task.units_across * task.unit_cols;
    const Rect rect{r, smaller(r + task.unit_rows, task.source.rows), c, smaller(c + task.unit_cols, task.source.cols)};
    prepare(task.source, kernels, rect, task.y + r * task.source.cols + c, task.source.cols);
  }
}

}  // namespace
