// From a public request to a task of the kernels: sizes, shapes of the work, memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "level.h"
#include "mixprec/kernels.h"

namespace mixprec {

// Elements per thread below which a second thread costs more than it gives.
constexpr std::int64_t kGrain = 16384;
// Bytes of result above which stores bypass the caches: such a result would not stay in them.
constexpr std::int64_t kPastCaches = std::int64_t{16} << 20;

// A transform's products before and after its butterflies.
struct TransformFactors {
  alignas(64) float before[kMaxTransform];
  alignas(64) float after[kMaxTransform];
};

// Throws std::invalid_argument for another size.
TransformFactors transform_factors(int size, const Draw& draw, bool inverse, const Run& run);

// x as it is rounded: padded along `axis`, transformed by `factors` (null: not), which must outlive it.
Source source_of(const Matrix& x, int transform, int axis, const TransformFactors* factors);

// A cast without its tensor's scale. The factors must outlive the task.
Task task_of(const Matrix& x, const Job& job, const TransformFactors* factors);

// Treats the matrix as one row, where that changes no result: runs are longer then.
void flatten(Task& task);

// The pass of one or two tasks, which must outlive it; sets the shapes that they are worked through in.
Pass pass_of(Task* tasks, int count);

// Memory for one thread of a pass.
class ScratchMemory {
 public:
  explicit ScratchMemory(const Pass& pass);
  const Scratch* scratch() const { return scratch_; }

 private:
  void lay_out(const Task& task, Scratch& scratch);

  std::vector<std::unique_ptr<unsigned char[]>> memory_;
  Scratch scratch_[2];
};

}  // namespace mixprec
