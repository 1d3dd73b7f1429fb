// Casts of whole matrices: which passes over the data.

#include <limits>
#include <memory>

#include "bits.h"
#include "dispatch.h"
#include "floating_state.h"
#include "mixprec/kernels.h"
#include "passes.h"
#include "tasks.h"

namespace mixprec {

namespace {

float from_amax_bits(std::uint32_t bits) {
  return bits > kInfinity ? std::numeric_limits<float>::quiet_NaN() : from_bits(bits);
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
