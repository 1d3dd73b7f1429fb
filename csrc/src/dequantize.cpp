// From codes and scales back to values.

#include <algorithm>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "bits.h"
#include "dispatch.h"
#include "mixprec/kernels.h"
#include "parallel.h"
#include "tasks.h"

namespace mixprec {

namespace {

OuterLayout layout_of(const Stored& stored, const Cast& cast, int axis) {
  if (stored.outer == nullptr) return OuterLayout::none;
  if (cast.granularity == Granularity::row) return axis == 1 ? OuterLayout::per_row : OuterLayout::per_column;
  const bool blocks = cast.granularity == Granularity::block && cast.scale == ScaleKind::fp32;
  return blocks ? OuterLayout::per_tile : OuterLayout::one;
}

DecodeTask decode_task(const Stored& stored, const Cast& cast, int axis, float* values) {
  DecodeTask task{};
  task.codes = stored.codes;
  task.row_bytes = packed_bytes(stored.cols, cast.grid.bits);
  task.grid = cast.grid;
  task.rows = stored.rows;
  task.cols = stored.cols;
  const bool blocks = cast.granularity == Granularity::block;
  task.tile_rows = !blocks ? 1 : axis == 1 ? cast.outer : cast.reduction;
  task.tile_cols = !blocks ? 1 : axis == 1 ? cast.reduction : cast.outer;
  if (task.tile_rows < 1 || task.tile_cols < 1) throw std::invalid_argument("a block's extents must be at least 1");
  task.scales = blocks && cast.scale != ScaleKind::fp32 ? stored.scales : nullptr;
  task.scale_kind = cast.scale;
  task.scale_grid = cast.scale_grid;
  task.outer = stored.outer;
  task.outer_layout = layout_of(stored, cast, axis);
  task.values = values;
  task.past_caches = stored.rows * stored.cols * 4 >= kPastCaches;
  return task;
}

// Panels of one row of tiles, of about 1024 columns; eight codes end in a whole byte, whatever their width.
void set_panel(DecodeTask& task) {
  const std::int64_t step = std::lcm<std::int64_t>(task.tile_cols, 8), wish = ceil_div(1024, step) * step;
  task.panel_rows = task.tile_rows;
  task.panel_cols = std::max<std::int64_t>(1, std::min(wish, task.cols));
}

}  // namespace

std::int64_t packed_bytes(std::int64_t n, int bits) { return (n * bits + 7) / 8; }

void dequantize(const Stored& stored, const Cast& cast, int axis, float* values, const Run& run) {
  if (axis != 0 && axis != 1) throw std::invalid_argument("axis must be 0 or 1");
  if (stored.rows == 0 || stored.cols == 0) return;
  const LevelKernels& kernels = kernels_for(run.level);
  DecodeTask task = decode_task(stored, cast, axis, values);
  set_panel(task);
  const std::int64_t units = ceil_div(task.cols, task.panel_cols) * ceil_div(task.rows, task.panel_rows);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / (task.panel_cols * task.panel_rows));
  parallel_parts(units, grain, run.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    const std::unique_ptr<float[]> scratch(new float[static_cast<std::size_t>(task.panel_cols)]);
    kernels.decode_units(task, begin, end, scratch.get());
  });
}

}  // namespace mixprec
