// Statistics of a matrix and of casts of it: first the scales of all casts, then counts and sums in one pass.

#include <algorithm>
#include <memory>
#include <vector>

#include "bits.h"
#include "dispatch.h"
#include "floating_state.h"
#include "halving.h"
#include "parallel.h"
#include "passes.h"
#include "tasks.h"

namespace mixprec {

namespace {

std::int64_t tiles_of(const Task& task) {
  return ceil_div(task.source.rows, task.tile_rows) * tiles_in(task, task.source.cols);
}

// Whether the scales of tiles are made piece by piece when they are needed, which tiles of many rows would do many times.
bool scales_when_needed(const Task& task) { return task.tiled && task.tile_rows == 1 && !sums_tiles(task.scaling); }

// Whether two tasks have the same largest magnitudes in the same places.
bool measures_alike(const Task& a, const Task& b) {
  return a.source.cols == b.source.cols && a.tile_rows == b.tile_rows && a.tile_cols == b.tile_cols;
}

// The exponent of a power of two, or -1.
int shift_of(std::int64_t number) {
  for (int shift = 0; shift < 62; ++shift)
    if (std::int64_t{1} << shift == number) return shift;
  return -1;
}

// Nothing saturates where rounding to nearest overflows instead, nor under an fp32 scale that brings the largest
// magnitude to the end or less, but for a few last places.
Saturation saturation_of(const Probe& probe, const Task& task) {
  constexpr int kMostBits = 16;  // of a mantissa whose half step is many last places of fp32
  const Cast& cast = probe.cast;
  const bool nearest = task.rounding == Rounding::nearest_even;
  if (task.grid.table) return Saturation::by_value;
  if (task.scaling.in_carrier) {
    const bool exact = nearest && cast.scale == ScaleKind::power && cast.prescale == 1.0f && !task.scaling.from_deviation;
    return exact && task.grid.overflow == task.grid.max_value ? Saturation::by_scaled : Saturation::by_value;
  }
  if (!(task.grid.overflow == task.grid.max_value) && nearest) return Saturation::never;
  const bool own = cast.scale == ScaleKind::fp32 && !(probe.delayed && probe.amax != 0.0f);
  const bool fits = cast.target <= static_cast<double>(task.grid.max_value) && task.grid.mantissa_bits <= kMostBits;
  return own && fits ? Saturation::never : Saturation::by_value;
}

// The scales of several casts of one matrix.
class Scales {
 public:
  Scales(const Matrix& x, const Probe* probes, int count, const Run& run) : probes_(probes), run_(run) {
    outer_.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      const Probe& probe = probes[i];
      Job job{probe.cast, probe.axis, {probe.elements, false, {}}, {}, 1};
      Task task = task_of(x, job, nullptr);
      flatten(task);
      const bool each = task.tiled && !task.scaling.in_carrier && !scales_when_needed(task);
      outer_[static_cast<std::size_t>(i)].resize(static_cast<std::size_t>(each ? tiles_of(task) : 1));
      task.out.outer = outer_[static_cast<std::size_t>(i)].data();
      tasks_.push_back(task);
    }
  }

  void find() {
    measure();
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      const Probe& probe = probes_[i];
      if (probe.delayed && probe.amax != 0.0f) {
        set_tensor_scale(tasks_[i], probe.cast, to_bits(probe.amax) & kMagnitude);
      } else if (needs_amax(probe.cast)) {
        set_tensor_scale(tasks_[i], probe.cast, largest_);
      }
      write_outer(tasks_[i], probe.cast);
      if (tasks_[i].tiled && !scales_when_needed(tasks_[i])) scale_tiles(tasks_[i]);
    }
  }

  ProbeTask probe_task(std::size_t i) const {
    const Task& task = tasks_[i];
    const bool in_carrier = task.tiled && task.scaling.in_carrier;
    ProbeTask probe{};
    probe.grid = task.grid;
    probe.rounding = task.rounding;
    probe.random = task.random;
    probe.tiled = task.tiled;
    probe.cols = task.source.cols;
    probe.tile_rows = task.tile_rows;
    probe.tile_cols = task.tile_cols;
    probe.tile_shift = shift_of(task.tile_cols);
    probe.tile_amax = scales_when_needed(task) ? task.tile_amax : nullptr;
    probe.scaling = task.scaling;
    probe.quantize = task.tiled ? task.kept_scales[0] : &task.quantize;
    probe.factor = in_carrier ? task.kept_scales[1] : task.out.outer;
    probe.second_factor = in_carrier ? *task.out.outer : 1.0f;
    probe.saturation = saturation_of(probes_[i], task);
    probe.unscaled = probes_[i].cast.granularity == Granularity::none;
    probe.exact = probe.saturation == Saturation::by_scaled || (probe.unscaled && probe.saturation == Saturation::never);
    return probe;
  }

 private:
  // Largest magnitudes, two tasks in a pass over the matrix: of tiles, each kind once, and of everything.
  void measure() {
    std::vector<Task> kinds;
    bool everything = false;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      everything |= needs_amax(probes_[i].cast);
      if (tasks_[i].tiled && !tasks_[i].scaling.from_deviation) share_tile_amax(tasks_[i], kinds);
    }
    if (everything && kinds.empty()) kinds.push_back(untiled());
    while (!kinds.empty()) {
      const auto second = std::find_if(kinds.begin() + 1, kinds.end(), [&](const Task& kind) {
        return kind.source.cols == kinds[0].source.cols;
      });
      if (second != kinds.end()) std::iter_swap(kinds.begin() + 1, second);
      const int count = second != kinds.end() ? 2 : 1;
      largest_ = run_pass(pass_of(kinds.data(), count), kernels_for(run_.level).amax_units, run_).bits[0];
      kinds.erase(kinds.begin(), kinds.begin() + count);
    }
  }

  void share_tile_amax(Task& task, std::vector<Task>& kinds) {
    for (const Task& kind : kinds) {
      if (!measures_alike(kind, task)) continue;
      task.tile_amax = kind.tile_amax;
      return;
    }
    tile_amax_.emplace_back(new std::uint32_t[static_cast<std::size_t>(tiles_of(task))]);
    task.tile_amax = tile_amax_.back().get();
    kinds.push_back(task);
  }

  Task untiled() const {
    for (std::size_t i = 0; i < tasks_.size(); ++i)
      if (needs_amax(probes_[i].cast)) return tasks_[i];
    return tasks_[0];
  }

  void scale_tiles(Task& task) {
    for (float*& kept : task.kept_scales) {
      kept_.emplace_back(new float[static_cast<std::size_t>(tiles_of(task))]);
      kept = kept_.back().get();
    }
    run_pass(pass_of(&task, 1), kernels_for(run_.level).scale_units, run_);
  }

  const Probe* probes_;
  Run run_;
  std::vector<Task> tasks_;
  std::vector<std::vector<float>> outer_;
  std::vector<std::unique_ptr<std::uint32_t[]>> tile_amax_;
  std::vector<std::unique_ptr<float[]>> kept_;
  std::uint32_t largest_ = 0;
};

// What threads count, to the places of the results.
class Totals {
 public:
  Totals(int threads, int count)
      : tensor_(static_cast<std::size_t>(threads)),
        probes_(static_cast<std::size_t>(threads), std::vector<ProbeCounts>(static_cast<std::size_t>(count))) {
    for (TensorCounts& tensor : tensor_) tensor.smallest = kInfinity;
  }

  TensorCounts& tensor(std::int64_t part) { return tensor_[static_cast<std::size_t>(part)]; }
  ProbeCounts* probes(std::int64_t part) { return probes_[static_cast<std::size_t>(part)].data(); }

  void write(std::int64_t elements, std::int64_t* counts, double* numbers) const {
    std::fill_n(counts, 4 + 256, std::int64_t{0});
    counts[0] = elements;
    std::uint32_t amax = 0, smallest = kInfinity;
    for (const TensorCounts& tensor : tensor_) {
      counts[1] += tensor.zeros;
      counts[2] += tensor.nans;
      counts[3] += tensor.infinities;
      for (int e = 0; e < 256; ++e) counts[4 + e] += tensor.exponents[e];
      amax = std::max(amax, tensor.amax);
      smallest = std::min(smallest, tensor.smallest);
    }
    numbers[0] = static_cast<double>(from_bits(amax));
    numbers[1] = smallest == kInfinity ? 0.0 : static_cast<double>(from_bits(smallest));
    for (std::size_t i = 0; i < probes_[0].size(); ++i) write_probe(i, elements, counts + 4 + 256 + 6 * i);
  }

 private:
  void write_probe(std::size_t i, std::int64_t elements, std::int64_t* counts) const {
    std::fill_n(counts, 6, std::int64_t{0});
    counts[0] = elements;
    for (const std::vector<ProbeCounts>& probes : probes_) {
      counts[1] += probes[i].nonzero;
      counts[2] += probes[i].flushed;
      counts[3] += probes[i].subnormal;
      counts[4] += probes[i].saturated;
      counts[5] += probes[i].lost;
    }
  }

  std::vector<TensorCounts> tensor_;
  std::vector<std::vector<ProbeCounts>> probes_;
};

}  // namespace

void statistics(const Matrix& x, const Probe* probes, int count, std::int64_t* counts, double* numbers,
                const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  const ExactDenormals exact;
  if (x.rows * x.cols == 0) {
    std::fill_n(counts, 4 + 256 + 6 * count, std::int64_t{0});
    std::fill_n(numbers, 4 + 5 * count, 0.0);
    return;
  }
  Scales scales(x, probes, count, run);
  scales.find();
  std::vector<ProbeTask> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back(scales.probe_task(static_cast<std::size_t>(i)));
  const std::int64_t elements = x.rows * x.cols, chunks = ceil_div(elements, kChunk);
  const int sums = kTensorSums + kProbeSums * count;
  const std::unique_ptr<double[]> chunk_sums(new double[static_cast<std::size_t>(sums * chunks)]);
  Totals totals(std::max(1, run.threads), count);
  const StatisticsPass pass{x, tasks.data(), count, chunks, chunk_sums.get()};
  parallel_parts(chunks, kGrain / kChunk, run.threads, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    kernels.statistics_chunks(pass, begin, end, totals.tensor(part), totals.probes(part));
  });
  totals.write(elements, counts, numbers);
  sum_rows_by_halving(chunk_sums.get(), chunks, sums);
  std::copy_n(chunk_sums.get(), sums, numbers + 2);
}

}  // namespace mixprec
