// Casts of whole matrices: which passes over the data, and the scales that belong to all of it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "bits.h"
#include "dispatch.h"
#include "mixprec/kernels.h"
#include "parallel.h"
#include "scales.h"
#include "tasks.h"

namespace mixprec {

namespace {

using UnitsKernel = void (*)(const Pass&, std::int64_t, std::int64_t, const Scratch*, std::uint32_t*);

// Runs a kernel over all units; what each task saw as its largest magnitude bits.
struct Largest {
  std::uint32_t bits[2] = {0, 0};
};

Largest run_pass(const Pass& pass, UnitsKernel kernel, const Run& run) {
  const auto threads = static_cast<std::size_t>(std::max(1, run.threads));
  std::vector<Largest> seen(threads);
  parallel_parts(pass.units, 1, run.threads, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    const ScratchMemory memory(pass);
    kernel(pass, begin, end, memory.scratch(), seen[static_cast<std::size_t>(part)].bits);
  });
  Largest all;
  for (const Largest& part : seen)
    for (int i = 0; i < 2; ++i) all.bits[i] = std::max(all.bits[i], part.bits[i]);
  return all;
}

bool two_level(const Cast& cast) { return cast.granularity == Granularity::block && cast.scale_limit > 0.0; }

bool needs_amax(const Cast& cast) { return cast.granularity == Granularity::tensor || two_level(cast); }

float from_amax_bits(std::uint32_t bits) {
  return bits > kInfinity ? std::numeric_limits<float>::quiet_NaN() : from_bits(bits);
}

// The smallest number of a grid of scales by which `above` is divided to at most 2^127: with a smaller one elements
// would be multiplied by less than they are divided by afterwards.
float least_scale(const Grid& grid, float above) {
  const double least = static_cast<double>(above) / kLargestScale;
  if (!(least > 0.0)) return 0.0f;  // a NaN, which the scales become anyway
  const int exponent = std::ilogb(least);
  const double unit = std::ldexp(1.0, (exponent < grid.min_exponent ? grid.min_exponent : exponent) - grid.mantissa_bits);
  const double rounded = std::ceil(least / unit) * unit;
  return static_cast<float>(rounded < static_cast<double>(grid.max_value) ? rounded : grid.max_value);
}

// The scale of the whole tensor, from its largest magnitude.
void set_tensor_scale(Task& task, const Cast& cast, std::uint32_t amax) {
  if (two_level(cast)) {
    task.scaling.above = quant_scale(cast.target * cast.scale_limit, from_bits(amax));
    task.scaling.least = least_scale(cast.scale_grid, task.scaling.above);
    return;
  }
  float unit;
  tile_scales(task.scaling, cast.target, &amax, 1, {&task.quantize, &unit, task.out.outer});
}

// What is known of `outer` before the matrix is read again.
void write_outer(const Task& task, const Cast& cast) {
  if (cast.granularity == Granularity::none) *task.out.outer = 1.0f;
  if (task.scaling.in_carrier)
    *task.out.outer = 1.0f / (cast.scale == ScaleKind::power ? cast.prescale : task.scaling.above);
  const bool empty = task.source.rows == 0 || task.source.cols == 0;
  if (cast.granularity == Granularity::row && empty) {
    const std::uint32_t nothing = 0;
    float quantize, unit, outer;
    tile_scales(task.scaling, cast.target, &nothing, 1, {&quantize, &unit, &outer});
    std::fill_n(task.out.outer, task.source.axis == 1 ? task.source.rows : task.source.cols, outer);
  }
}

// One or two casts of a matrix.
class Casts {
 public:
  Casts(const Matrix& x, const Job* const* jobs, int count, const Run& run) : jobs_(jobs), count_(count), run_(run) {
    for (int i = 0; i < count; ++i) {
      const Job& job = *jobs[i];
      if (job.cast.transform != 0) factors_[i] = transform_factors(job.cast.transform, job.draw, false, run);
      tasks_[i] = task_of(x, job, &factors_[i]);
    }
    if (count == 1) flatten(tasks_[0]);
  }

  Task& task(int i) { return tasks_[i]; }

  // Finds the largest magnitudes that tensors' scales need, in one pass. A two-level cast's pass keeps those of
  // its tiles, which the second pass needs.
  void find_tensor_scales() {
    Task needing[2];
    int which[2], n = 0;
    for (int i = 0; i < count_; ++i) {
      if (!needs_amax(jobs_[i]->cast)) continue;
      if (two_level(jobs_[i]->cast)) keep_tile_amax(i);
      needing[n] = tasks_[i];
      which[n++] = i;
    }
    if (n == 0) return;
    const Largest largest = run_pass(pass_of(needing, n), kernels_for(run_.level).amax_units, run_);
    const ExactDenormals exact;
    for (int i = 0; i < n; ++i) set_tensor_scale(tasks_[which[i]], jobs_[which[i]]->cast, largest.bits[i]);
  }

  Largest round() {
    {
      const ExactDenormals exact;
      for (int i = 0; i < count_; ++i) write_outer(tasks_[i], jobs_[i]->cast);
    }
    return run_pass(pass_of(tasks_, count_), kernels_for(run_.level).round_units, run_);
  }

 private:
  void keep_tile_amax(int i) {
    const Task& task = tasks_[i];
    const std::int64_t tiles = ceil_div(task.source.rows, task.tile_rows) * tiles_in(task, task.source.cols);
    tile_amax_[i].reset(new std::uint32_t[static_cast<std::size_t>(tiles)]);
    tasks_[i].tile_amax = tile_amax_[i].get();
  }

  const Job* const* jobs_;
  int count_;
  Run run_;
  Task tasks_[2];
  TransformFactors factors_[2];
  std::unique_ptr<std::uint32_t[]> tile_amax_[2];
};

void run_casts(const Matrix& x, const Job* const* jobs, int count, const Run& run) {
  Casts casts(x, jobs, count, run);
  casts.find_tensor_scales();
  casts.round();
}

}  // namespace

void scaled(const Matrix& x, const Job& job, const Run& run) {
  const Job* jobs[] = {&job};
  run_casts(x, jobs, 1, run);
}

void scaled_both(const Matrix& x, const Job& first, const Job& second, const Run& run) {
  const Job* jobs[] = {&first, &second};
  run_casts(x, jobs, 2, run);
}

float delayed(const Matrix& x, const Job& job, float amax, const Run& run) {
  const Job* jobs[] = {&job};
  Casts casts(x, jobs, 1, run);
  if (amax == 0.0f) {
    casts.find_tensor_scales();
  } else {
    const ExactDenormals exact;
    set_tensor_scale(casts.task(0), job.cast, to_bits(amax) & kMagnitude);
  }
  casts.task(0).track_amax = true;
  return from_amax_bits(casts.round().bits[0]);
}

}  // namespace mixprec
