#include "passes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bits.h"
#include "parallel.h"
#include "scales.h"
#include "tasks.h"

namespace mixprec {

namespace {

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

}  // namespace

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

void set_tensor_scale(Task& task, const Cast& cast, std::uint32_t amax) {
  if (two_level(cast)) {
    task.scaling.above = quant_scale(cast.target * cast.scale_limit, from_bits(amax));
    task.scaling.least = least_scale(cast.scale_grid, task.scaling.above);
    return;
  }
  float unit;
  tile_scales(task.scaling, cast.target, &amax, 1, {&task.quantize, &unit, task.out.outer});
}

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

}  // namespace mixprec
