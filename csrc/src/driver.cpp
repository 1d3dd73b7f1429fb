// The public functions: which kernels, which parts of the matrix, on which thread.

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "dispatch.h"
#include "level.h"
#include "mixprec/kernels.h"
#include "parallel.h"
#include "scales.h"

namespace mixprec {

namespace {

// Elements per thread below which a second thread costs more than it gives.
constexpr std::int64_t kGrain = 16384;
// Bytes of result above which stores bypass the caches: such a result would not stay in them.
constexpr std::int64_t kPastCaches = std::int64_t{16} << 20;

bool past_caches(const Matrix& x) { return x.rows * x.cols * 4 >= kPastCaches; }

Matrix as_one_row(const Matrix& x) { return {x.data, x.dtype, 1, x.rows * x.cols}; }

// fp32 drops no bit, so that all roundings agree; `toward_zero` needs no random words.
Rounding effective_rounding(const Cast& cast) {
  return cast.element.mantissa_bits >= 23 ? Rounding::toward_zero : cast.rounding;
}

// --- one scale for all, for a row or for a column --------------------------------------------------------

ElementTask element_task(const Matrix& x, const Cast& cast, const Random& random, float* carrier) {
  ElementTask task{};
  task.x = x;
  task.element = cast.element;
  task.rounding = effective_rounding(cast);
  task.random = random;
  task.target = cast.target;
  task.quant_scale = 1.0f;
  task.carrier = carrier;
  task.past_caches = past_caches(x);
  return task;
}

void round_all(const ElementTask& task, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  parallel_parts(task.x.rows * task.x.cols, kGrain, run.threads,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) { kernels.round_all(task, begin, end); });
}

void scaled_tensor(ElementTask task, const Scaled& out, const Run& run) {
  task.quant_scale = quant_scale(task.target, amax(task.x, run));
  const ExactDenormals exact;
  *out.outer = 1.0f / task.quant_scale;
  round_all(task, run);
}

void scaled_rows(ElementTask task, const Scaled& out, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  task.outer = out.outer;
  if (task.x.cols == 0) {
    std::fill_n(out.outer, task.x.rows, 1.0f);
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / task.x.cols);
  parallel_parts(task.x.rows, grain, run.threads,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) { kernels.round_rows(task, begin, end); });
}

// Largest magnitude bits of every column: parts of the rows, then the largest over the parts.
std::vector<std::uint32_t> column_amax(const Matrix& x, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, x.cols));
  const auto cols = static_cast<std::size_t>(x.cols);
  std::vector<std::uint32_t> amax(cols * static_cast<std::size_t>(std::max(1, run.threads)), 0);
  parallel_parts(x.rows, grain, run.threads, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    kernels.amax_columns(x, begin, end, amax.data() + part * x.cols);
  });
  for (std::size_t i = cols; i < amax.size(); ++i) amax[i % cols] = std::max(amax[i % cols], amax[i]);
  amax.resize(cols);
  return amax;
}

void scaled_columns(ElementTask task, const Scaled& out, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  const std::vector<std::uint32_t> amax = column_amax(task.x, run);
  std::vector<float> quant_scales(amax.size());
  const ExactDenormals exact;
  for (std::size_t c = 0; c < amax.size(); ++c) {
    quant_scales[c] = quant_scale(task.target, from_bits(amax[c]));
    out.outer[c] = 1.0f / quant_scales[c];
  }
  task.quant_scales = quant_scales.data();
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, task.x.cols));
  parallel_parts(task.x.rows, grain, run.threads,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) { kernels.round_columns(task, begin, end); });
}

// --- blocks ----------------------------------------------------------------------------------------------

void check_block(const Cast& cast) {
  if (cast.outer < 1 || cast.reduction < 1 || cast.outer > kMaxBlock || cast.reduction > kMaxBlock)
    throw std::invalid_argument("a block's extents must lie in [1, 4096]");
}

// The task without its tensor scale.
BlockTask block_task(const Matrix& x, const Cast& cast, int axis, const Random& random, const Scaled& out) {
  check_block(cast);
  BlockTask task{};
  task.x = x;
  task.element = cast.element;
  task.rounding = effective_rounding(cast);
  task.random = random;
  task.tile_rows = axis == 1 ? cast.outer : cast.reduction;
  task.tile_cols = axis == 1 ? cast.reduction : cast.outer;
  task.rule = cast.rule;
  task.target = cast.target;
  task.quant_scale = 1.0f;
  task.carrier = out.carrier;
  task.block_scales = out.block_scales;
  // Scales lie as [outer tiles, reduction tiles].
  task.scale_row_stride = axis == 1 ? ceil_div(x.cols, task.tile_cols) : 1;
  task.scale_col_stride = axis == 1 ? 1 : ceil_div(x.rows, task.tile_rows);
  task.apply_scale = out.apply_scale;
  task.past_caches = past_caches(x);
  return task;
}

// Blocks along rows that fill them leave no trace of where a row ends: one long row then, with the same scales
// in the same order.
void flatten(BlockTask& task) {
  const bool whole = task.tile_rows == 1 && task.x.cols % task.tile_cols == 0 && task.scale_col_stride == 1;
  if (whole && task.x.rows > 0) task.x = as_one_row(task.x);
}

// Sets the tensor scale of a two-level cast, and writes outer.
void set_tensor_scale(BlockTask& task, const Cast& cast, float amax, float* outer) {
  const bool two_level = cast.rule == ScaleRule::two_level;
  if (two_level) task.quant_scale = quant_scale(cast.target * cast.scale_max, amax);
  *outer = two_level ? 1.0f / task.quant_scale : 1.0f;
}

struct Panels {
  std::int64_t rows, cols;  // extents of one unit of work, in multiples of the tiles
};

// Units of about kGrain elements whose rows of tiles stay within the second-level cache.
Panels panels_for(const Matrix& x, std::int64_t tile_rows, std::int64_t tile_cols) {
  constexpr std::int64_t kTileElements = 8192;  // 32 KiB: a row of tiles is read twice, the second time from cache
  constexpr std::int64_t kLeastWidth = 64;      // four cache lines: narrower panels waste what is fetched
  const std::int64_t wide = tile_rows == 1 ? kGrain : std::max(kLeastWidth, kTileElements / tile_rows);
  const std::int64_t cols = ceil_div(wide, tile_cols) * tile_cols;
  const std::int64_t used = std::max<std::int64_t>(1, std::min(cols, x.cols));
  const std::int64_t rows = std::max<std::int64_t>(1, kGrain / (used * tile_rows)) * tile_rows;
  return {rows, cols};
}

// body(part, rect) over the matrix in units of `panels`; part < threads.
template <class Body>
void parallel_rects(const Matrix& x, const Panels& panels, int threads, const Body& body) {
  const std::int64_t across = ceil_div(x.cols, panels.cols);
  const std::int64_t units = across * ceil_div(x.rows, panels.rows);
  parallel_parts(units, 1, threads, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t r = unit / across * panels.rows, c = unit % across * panels.cols;
      body(part, Rect{r, std::min(r + panels.rows, x.rows), c, std::min(c + panels.cols, x.cols)});
    }
  });
}

std::int64_t tiles_of(const BlockTask& task) {
  return ceil_div(task.x.rows, task.tile_rows) * ceil_div(task.x.cols, task.tile_cols);
}

// Magnitude bits of every tile, row by row of tiles; returns the tensor's largest magnitude.
float find_block_amax(const BlockTask& task, std::uint32_t* block_amax, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  std::vector<std::uint32_t> largest(static_cast<std::size_t>(std::max(1, run.threads)), 0);
  parallel_rects(task.x, panels_for(task.x, task.tile_rows, task.tile_cols), run.threads,
                 [&](std::int64_t part, const Rect& rect) {
                   std::uint32_t& most = largest[static_cast<std::size_t>(part)];
                   most = std::max(most, kernels.amax_blocks(task, rect, block_amax));
                 });
  return from_bits(*std::max_element(largest.begin(), largest.end()));
}

void scaled_blocks(const Matrix& x, const Cast& cast, int axis, const Random& random, const Scaled& out,
                   const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  BlockTask task = block_task(x, cast, axis, random, out);
  flatten(task);
  std::unique_ptr<std::uint32_t[]> block_amax;
  float tensor_amax = 0.0f;
  if (cast.rule == ScaleRule::two_level) {
    // The pass that finds the tensor's largest magnitude keeps the tiles', which the second pass needs.
    block_amax.reset(new std::uint32_t[static_cast<std::size_t>(tiles_of(task))]);
    tensor_amax = find_block_amax(task, block_amax.get(), run);
    task.block_amax = block_amax.get();
  }
  {
    const ExactDenormals exact;
    set_tensor_scale(task, cast, tensor_amax, out.outer);
  }
  parallel_rects(task.x, panels_for(task.x, task.tile_rows, task.tile_cols), run.threads,
                 [&](std::int64_t, const Rect& rect) { kernels.round_blocks(task, rect); });
}

}  // namespace

float amax(const Matrix& x, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  std::vector<std::uint32_t> largest(static_cast<std::size_t>(std::max(1, run.threads)), 0);
  parallel_parts(x.rows * x.cols, kGrain, run.threads, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    largest[static_cast<std::size_t>(part)] = kernels.amax(x, begin, end);
  });
  const std::uint32_t bits = *std::max_element(largest.begin(), largest.end());
  return bits > kInfinity ? std::numeric_limits<float>::quiet_NaN() : from_bits(bits);
}

void random_words(const Random& random, std::int64_t n, std::uint32_t* words, const Run& run) {
  const LevelKernels& kernels = kernels_for(run.level);
  parallel_parts(n, kGrain, run.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    kernels.word_range(random, begin, end, words);
  });
}

void round(const Matrix& x, const Cast& cast, const Random& random, float* carrier, const Run& run) {
  round_all(element_task(x, cast, random, carrier), run);
}

void scaled(const Matrix& x, const Cast& cast, int axis, const Random& random, const Scaled& out, const Run& run) {
  if (axis != 0 && axis != 1) throw std::invalid_argument("axis must be 0 or 1");
  switch (cast.granularity) {
    case Granularity::none:
      *out.outer = 1.0f;
      return round(x, cast, random, out.carrier, run);
    case Granularity::tensor: return scaled_tensor(element_task(x, cast, random, out.carrier), out, run);
    case Granularity::row:
      if (axis == 1) return scaled_rows(element_task(x, cast, random, out.carrier), out, run);
      return scaled_columns(element_task(x, cast, random, out.carrier), out, run);
    case Granularity::block: return scaled_blocks(x, cast, axis, random, out, run);
  }
}

void scaled_both(const Matrix& x, const Cast& cast_cols, const Random& random_cols, const Scaled& along_cols,
                 const Cast& cast_rows, const Random& random_rows, const Scaled& along_rows, const Run& run) {
  const bool blocks = cast_cols.granularity == Granularity::block && cast_rows.granularity == Granularity::block;
  if (!blocks) {
    scaled(x, cast_cols, 1, random_cols, along_cols, run);
    scaled(x, cast_rows, 0, random_rows, along_rows, run);
    return;
  }
  const LevelKernels& kernels = kernels_for(run.level);
  BlockTask first = block_task(x, cast_cols, 1, random_cols, along_cols);
  BlockTask second = block_task(x, cast_rows, 0, random_rows, along_rows);
  {
    const ExactDenormals exact;
    const bool two_level = cast_cols.rule == ScaleRule::two_level || cast_rows.rule == ScaleRule::two_level;
    const float largest = two_level ? amax(x, run) : 0.0f;
    set_tensor_scale(first, cast_cols, largest, along_cols.outer);
    set_tensor_scale(second, cast_rows, largest, along_rows.outer);
  }
  // Each unit is cut by both casts' tiles, so that both read it while it is in the cache.
  const Panels panels = panels_for(x, std::lcm(first.tile_rows, second.tile_rows),
                                   std::lcm(first.tile_cols, second.tile_cols));
  parallel_rects(x, panels, run.threads, [&](std::int64_t, const Rect& rect) {
    kernels.round_blocks(first, rect);
    kernels.round_blocks(second, rect);
  });
}

void hadamard(const Matrix& x, int size, const float* signs, int axis, bool inverse, float* y, const Run& run) {
  if (size != 16 && size != 32 && size != 64 && size != kMaxTransform)
    throw std::invalid_argument("a Hadamard transform has size 16, 32, 64 or 128");
  const LevelKernels& kernels = kernels_for(run.level);
  const std::int64_t y_cols = axis == 1 ? ceil_div(x.cols, size) * size : x.cols;
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
  const HadamardTask task{x, size, factor, signs, inverse, y, y_cols};
  if (axis == 1) {
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, y_cols));
    parallel_parts(x.rows, grain, run.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
      kernels.hadamard_rows(task, begin, end);
    });
    return;
  }
  parallel_rects(x, panels_for(x, size, 1), run.threads,
                 [&](std::int64_t, const Rect& rect) { kernels.hadamard_panels(task, rect); });
}

}  // namespace mixprec
