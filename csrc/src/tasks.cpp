#include "tasks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "bits.h"
#include "dispatch.h"
#include "scales.h"

namespace mixprec {

namespace {

// fp32 drops no bit, so that all roundings agree; `toward_zero` needs no random words.
Rounding effective_rounding(const Cast& cast) {
  return cast.grid.table == nullptr && cast.grid.mantissa_bits >= 23 ? Rounding::toward_zero : cast.rounding;
}

// Tiles of one column alternate with nothing: they are as they are without neighbours.
void interleave(Task& task, const Job& job) {
  const Cast& cast = job.cast;
  const bool plain = cast.granularity == Granularity::block && cast.scale != ScaleKind::fp32 && cast.transform == 0 &&
                     !sums_tiles(task.scaling) && job.out.codes == nullptr;
  if (job.interleaved < 1 || !plain || task.source.cols % job.interleaved != 0)
    throw std::invalid_argument("interleaved matrices: whole columns, carriers of plain block scales");
  if (task.tile_cols == 1) return;
  task.interleaved = job.interleaved;
  task.tile_cols *= job.interleaved;
}

void set_tiles(Task& task, const Cast& cast, int axis) {
  task.tiled = true;
  task.interleaved = 1;
  if (cast.granularity == Granularity::block) {
    if (cast.outer < 1 || cast.reduction < 1) throw std::invalid_argument("a block's extents must be at least 1");
    task.tile_rows = axis == 1 ? cast.outer : cast.reduction;
    task.tile_cols = axis == 1 ? cast.reduction : cast.outer;
  } else if (cast.granularity == Granularity::row) {
    task.tile_rows = axis == 1 ? 1 : std::max<std::int64_t>(1, task.source.rows);
    task.tile_cols = axis == 1 ? std::max<std::int64_t>(1, task.source.cols) : 1;
  } else {
    task.tiled = false;
    task.tile_rows = task.tile_cols = 1;
  }
}

Scaling scaling_of(const Cast& cast) {
  Scaling scaling{};
  scaling.kind = cast.scale;
  scaling.in_carrier = cast.granularity == Granularity::block && cast.scale != ScaleKind::fp32;
  scaling.prescale = cast.prescale;
  scaling.target = cast.target;
  scaling.second_target = cast.second_target;
  scaling.from_deviation = cast.rule == ExponentRule::quest;
  scaling.above = 1.0f;
  scaling.least = 0.0f;  // under no tensor scale every number of the format will do
  scaling.grid = cast.scale_grid;
  set_exponent_rule(cast.rule, cast.grid, scaling);
  return scaling;
}

// How a task cuts its matrix: panels of `rows` x multiples of `cols`, transformed by whole `group` rows.
struct Cut {
  std::int64_t rows, cols, group;
};

Cut cut_of(const Task& task) {
  const std::int64_t size = std::max(task.source.transform, 1);
  const std::int64_t rows = task.source.axis == 0 ? size : 1, cols = task.source.axis == 1 ? size : 1;
  // Eight codes end in a whole byte, whatever their width.
  const std::int64_t bytes = task.out.codes && task.grid.bits % 8 != 0 ? 8 : 1;
  return {std::lcm(task.tile_rows, rows), std::lcm(std::lcm(task.tile_cols, cols), bytes), rows};
}

std::int64_t round_up(std::int64_t n, std::int64_t step) { return ceil_div(n, step) * step; }

// The least multiple of `step` that is at least `wish`, or all of `n`.
std::int64_t extent(std::int64_t wish, std::int64_t step, std::int64_t n) {
  const std::int64_t multiple = step >= n ? n : round_up(wish, step);
  return std::max<std::int64_t>(1, std::min(multiple, n));
}

void set_panel(Task& task) {
  constexpr std::int64_t kRow = 1024;          // a panel of one row
  constexpr std::int64_t kPanel = 16384;       // 64 KiB: a panel is read twice, the second time from a near cache
  constexpr std::int64_t kLeastWidth = 64;     // four cache lines: narrower panels waste what is fetched
  constexpr std::int64_t kMostStaged = 65536;  // 256 KiB: part of the second-level cache
  const Cut cut = cut_of(task);
  const std::int64_t wish = cut.rows == 1 ? kRow : std::max(kLeastWidth, kPanel / cut.rows);
  task.panel_rows = cut.rows;
  task.panel_cols = extent(wish, cut.cols, task.source.cols);
  const bool whole = cut.rows * task.panel_cols <= kMostStaged || sums_tiles(task.scaling);
  const std::int64_t fitting = kMostStaged / task.panel_cols / cut.group * cut.group;
  task.strip_rows = whole ? cut.rows : std::max(fitting, cut.group);
}

}  // namespace

TransformFactors transform_factors(int size, const Draw& draw, bool inverse, const Run& run) {
  if (size != 16 && size != 32 && size != 64 && size != kMaxTransform)
    throw std::invalid_argument("a Hadamard transform has size 16, 32, 64 or 128");
  TransformFactors factors;
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  std::uint32_t words[kMaxTransform] = {};
  if (draw.flips) kernels_for(run.level).word_range(draw.signs, 0, size, words);
  for (int i = 0; i < size; ++i) {
    const float sign = (words[i] & 1u) != 0 ? -1.0f : 1.0f;
    factors.before[i] = inverse ? 1.0f : sign;
    factors.after[i] = inverse ? factor * sign : factor;
  }
  return factors;
}

Source source_of(const Matrix& x, int transform, int axis, const TransformFactors* factors) {
  const std::int64_t size = std::max(transform, 1);
  Source source{x, x.rows, x.cols, transform, axis, nullptr, nullptr};
  (axis == 0 ? source.rows : source.cols) = round_up(axis == 0 ? x.rows : x.cols, size);
  if (transform != 0) {
    source.before = factors->before;
    source.after = factors->after;
  }
  return source;
}

Task task_of(const Matrix& x, const Job& job, const TransformFactors* factors) {
  if (job.axis != 0 && job.axis != 1) throw std::invalid_argument("axis must be 0 or 1");
  const Cast& cast = job.cast;
  Task task{};
  task.source = source_of(x, cast.transform, job.axis, factors);
  task.grid = cast.grid;
  task.rounding = effective_rounding(cast);
  task.random = job.draw.elements;
  task.scaling = scaling_of(cast);
  task.quantize = 1.0f;
  task.out = job.out;
  task.past_caches = task.source.rows * task.source.cols * 4 >= kPastCaches;
  set_tiles(task, cast, job.axis);
  if (job.interleaved != 1) interleave(task, job);
  return task;
}

void flatten(Task& task) {
  Matrix& x = task.source.x;
  const bool aligned = task.source.transform == 0 || (task.source.axis == 1 && x.cols % task.source.transform == 0);
  const bool codes = task.out.codes != nullptr && x.cols * task.grid.bits % 8 != 0;
  // Blocks along rows that fill them leave no trace of where a row ends, and their scales keep their order.
  if (!aligned || codes || task.tile_rows != 1 || x.cols % task.tile_cols != 0 || x.rows == 0 || x.cols == 0) return;
  x = {x.data, x.dtype, 1, x.rows * x.cols};
  task.source.rows = 1;
  task.source.cols = x.cols;
}

Pass pass_of(Task* tasks, int count) {
  std::int64_t rows = 0, cols = 0, unit_rows = 1, step = 1;
  for (int i = 0; i < count; ++i) {
    const Cut cut = cut_of(tasks[i]);
    set_panel(tasks[i]);
    rows = std::max(rows, tasks[i].source.rows);
    cols = std::max(cols, tasks[i].source.cols);
    unit_rows = std::lcm(unit_rows, cut.rows);
    step = std::lcm(step, cut.cols);
  }
  unit_rows = std::max<std::int64_t>(1, std::min(unit_rows, rows));
  constexpr std::int64_t kUnit = 16384, kLeastWidth = 64;
  const std::int64_t wish = unit_rows == 1 ? kGrain : std::max(kLeastWidth, kUnit / unit_rows);
  const std::int64_t unit_cols = extent(wish, step, cols);
  const std::int64_t repeats = std::max<std::int64_t>(1, kGrain / (unit_cols * unit_rows));
  const std::int64_t across = ceil_div(cols, unit_cols);
  return {tasks, count, unit_rows * repeats, unit_cols, across, across * ceil_div(rows, unit_rows * repeats)};
}

ScratchMemory::ScratchMemory(const Pass& pass) : scratch_{} {
  for (int i = 0; i < pass.count; ++i) lay_out(pass.tasks[i], scratch_[i]);
}

void ScratchMemory::lay_out(const Task& task, Scratch& scratch) {
  const auto take = [this](auto*& pointer, std::int64_t n) {
    constexpr std::size_t line = 64;
    memory_.emplace_back(new unsigned char[static_cast<std::size_t>(n) * sizeof *pointer + line]);
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.back().get());
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>((address + line - 1) / line * line);
  };
  const std::int64_t cols = task.panel_cols, tiles = tiles_in(task, cols);
  const bool prepared = task.source.transform == 0 && task.source.x.dtype == Dtype::f32;
  take(scratch.staged, prepared ? 0 : task.strip_rows * cols);
  take(scratch.result, kPiece);
  take(scratch.ones, kPiece);
  take(scratch.words, kPiece + 64);
  take(scratch.code_words, kPiece);
  take(scratch.column_amax, cols);
  take(scratch.amax, tiles);
  for (auto*& scales : scratch.tile_scales) take(scales, tiles);
  take(scratch.spread_quantize, cols);
  take(scratch.spread_scale, cols);
  const bool chooses = task.scaling.second_target > 0.0, sums = sums_tiles(task.scaling);
  take(scratch.elements, chooses ? cols : 0);
  for (auto*& places : scratch.places) take(places, sums ? tiles * places_of(task) : 0);
  for (auto*& totals : scratch.sums) take(totals, sums ? tiles : 0);
  take(scratch.counts, task.scaling.from_deviation ? tiles : 0);
}

}  // namespace mixprec
