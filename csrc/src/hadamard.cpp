// The Hadamard transform as an operation of its own.

#include <algorithm>

#include "bits.h"
#include "dispatch.h"
#include "mixprec/kernels.h"
#include "parallel.h"
#include "tasks.h"

namespace mixprec {

void hadamard(const Matrix& x, int size, int axis, bool inverse, const Draw& draw, float* y, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  const TransformFactors factors = transform_factors(size, draw, inverse, run);
  TransformTask task{source_of(x, size, axis, &factors), y, axis == 0 ? size : 1, 1, 1};
  const std::int64_t cols = std::max<std::int64_t>(1, task.source.cols);
  // Along rows whole rows; along columns 256 bytes to 2 KiB of as many rows as a group has.
  task.unit_cols = axis == 0 ? std::min<std::int64_t>(cols, 8192 / size) : cols;
  task.units_across = ceil_div(cols, task.unit_cols);
  const std::int64_t units = task.units_across * ceil_div(task.source.rows, task.unit_rows);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (task.unit_cols * task.unit_rows));
  const std::int64_t all = task.source.cols == 0 ? 0 : units;
  parallel_parts(all, grain, run.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    kernels.transform_units(task, begin, end);
  });
}

}  // namespace mixprec
