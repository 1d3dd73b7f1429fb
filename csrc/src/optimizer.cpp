// An optimizer's step and its norms: the pieces of all parameters in a row, shared out to threads.

#include "mixprec/optimizer.h"

#include <stdexcept>
#include <vector>

#include "bits.h"
#include "dispatch.h"
#include "halving.h"
#include "parallel.h"

namespace mixprec {

namespace {

// Below which a second thread costs more than it gives.
constexpr std::int64_t kElementsPerThread = 16384;

// Where each of several arrays begins in a row of pieces, and the row's end.
template <class Extent>
std::vector<std::int64_t> first_pieces(std::int64_t count, std::int64_t piece, const Extent& extent) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(count) + 1, 0);
  for (std::int64_t i = 0; i < count; ++i)
    first[static_cast<std::size_t>(i) + 1] = first[static_cast<std::size_t>(i)] + ceil_div(extent(i), piece);
  return first;
}

template <class Body>
void parallel_pieces(std::int64_t n, const Run& run, const Body& body) {
  parallel_parts(ceil_div(n, kStepPiece), kElementsPerThread / kStepPiece, run.threads,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

}  // namespace

int moment_count(const Rule& rule) {
  if (rule.kind == RuleKind::adamw) return 2;
  return rule.sgd.momentum == 0.0f ? 0 : 1;
}

void gradient_squares(const Gradient* gradients, std::int64_t count, double* sums, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  const auto first = first_pieces(count, kChunk, [&](std::int64_t i) { return gradients[i].n; });
  std::vector<double> chunks(static_cast<std::size_t>(first.back()));
  parallel_parts(first.back(), kElementsPerThread / kChunk, run.threads,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    auto i = std::upper_bound(first.begin(), first.end(), begin) - first.begin() - 1;
    for (; begin < end; ++i) {
      const std::int64_t start = first[static_cast<std::size_t>(i)];
      const std::int64_t last = std::min(end, first[static_cast<std::size_t>(i) + 1]);
      kernels.square_chunks(gradients[i], begin - start, last - start, chunks.data() + start);
      begin = last;
    }
  });
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start = first[static_cast<std::size_t>(i)];
    sums[i] = sum_by_halving(chunks.data() + start, first[static_cast<std::size_t>(i) + 1] - start);
  }
}

void optimizer_step(const Slot* slots, std::int64_t count, const Rule& rule, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  const auto first = first_pieces(count, kStepPiece, [&](std::int64_t i) { return slots[i].gradient.n; });
  const StepTask task{slots, first.data(), rule, moment_count(rule)};
  parallel_parts(first.back(), kElementsPerThread / kStepPiece, run.threads,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) { kernels.step_pieces(task, begin, end); });
}

void load_weight(const StoredWeight& stored, std::int64_t n, float* values, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  parallel_pieces(n, run, [&](std::int64_t begin, std::int64_t end) {
    kernels.load_weight_pieces(stored, begin, end, n, values);
  });
}

void store_weight(const StoredWeight& stored, std::int64_t n, const float* values, const Random& random,
                  const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  parallel_pieces(n, run, [&](std::int64_t begin, std::int64_t end) {
    kernels.store_weight_pieces(stored, random, begin, end, n, values);
  });
}

void load_moment(const StoredMoment& stored, std::int64_t n, float* values, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  parallel_pieces(n, run, [&](std::int64_t begin, std::int64_t end) {
    kernels.load_moment_pieces(stored, begin, end, n, values);
  });
}

void store_moment(const StoredMoment& stored, std::int64_t n, const float* values, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  parallel_pieces(n, run, [&](std::int64_t begin, std::int64_t end) {
    kernels.store_moment_pieces(stored, begin, end, n, values);
  });
}

}  // namespace mixprec
