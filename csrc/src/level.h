// What one instruction set's build of the kernels offers to the driver: functions over a part of the work, so
// that the driver alone knows threads and memory.
#pragma once

#include <cstdint>

#include "mixprec/kernels.h"
#include "mixprec/optimizer.h"

namespace mixprec {

// Rows [row_begin, row_end) and columns [col_begin, col_end).
struct Rect {
  std::int64_t row_begin, row_end, col_begin, col_end;
};

// The matrix that is rounded, [rows, cols]: x widened to fp32, padded with zeros along the axis, and transformed.
struct Source {
  Matrix x;
  std::int64_t rows, cols;
  int transform;        // 0, or the size of the transform along `axis`
  int axis;
  const float* before;  // per element of a group: what multiplies it before the butterflies (signs)
  const float* after;   // and after them: fp32(1 / sqrt(size)), with signs for the inverse
};

// How the scales of tiles come from their largest magnitudes.
struct Scaling {
  ScaleKind kind;
  bool in_carrier;              // whether the carrier is multiplied by the scale; otherwise `outer` tells it
  std::uint32_t threshold;      // powers of two: a mantissa above it adds one to the exponent
  std::uint32_t carry;          // added to the mantissa before its carry is read
  std::int32_t max_exponent;    // of the element
  bool from_deviation;          // powers of two: from the tile's standard deviation
  float prescale;
  double target, second_target;
  float above;                  // floating: the tensor's quant_scale, or 1
  float least;                  // floating: the smallest scale that keeps above / scale at 2^127 or below
  Grid grid;                    // floating
};

// One cast over a matrix.
struct Task {
  Source source;
  Grid grid;
  Rounding rounding;
  Random random;
  bool tiled;                         // whether tiles have scales; otherwise `quantize` is that of all elements
  std::int64_t tile_rows, tile_cols;  // (1, 1) where there are none
  std::int64_t interleaved;           // tiles whose columns alternate within `tile_cols`; 1: one
  Scaling scaling;
  float quantize;
  std::uint32_t* tile_amax;           // null, or magnitude bits of every tile: kept by one pass for the next
  float* kept_scales[2];              // null, or of every tile: what multiplies its elements before and after rounding
  Output out;
  bool track_amax;                    // whether the rounding pass finds the matrix's largest magnitude too
  bool past_caches;                   // whether large results bypass the caches
  // How the matrix is worked through: panels of whole tiles and groups, whose rows are prepared (widened, transformed)
  // `strip_rows` at a time.
  std::int64_t panel_rows, panel_cols, strip_rows;
};

// Memory of one thread for one task; extents in elements. "Tiles" are those of one row of a panel.
struct Scratch {
  float* staged;               // strip_rows * panel_cols
  float* result;               // kPiece
  float* ones;                 // kPiece, filled by the kernels
  std::uint32_t* words;        // kPiece + 2 * 32
  std::uint32_t* code_words;   // kPiece
  std::uint32_t* column_amax;  // panel_cols
  std::uint32_t* amax;         // tiles
  float* tile_scales[6];       // tiles: quantize, scale, outer; and of the choice's other scale
  float* spread_quantize;      // panel_cols
  float* spread_scale;         // panel_cols
  float* elements;             // the choice: panel_cols
  double* places[2];           // sums over tiles: tiles * places_of(task)
  double* sums[2];             // sums over tiles: tiles
  double* counts;              // a deviation: tiles
};

// Elements of a row that are rounded at once: few, so that writing results overlaps with the next piece's arithmetic.
constexpr std::int64_t kPiece = 256;

// One or two tasks over units of the same matrix.
struct Pass {
  const Task* tasks;
  int count;
  std::int64_t unit_rows, unit_cols;  // whole panels of every task
  std::int64_t units_across, units;
};

struct TransformTask {
  Source source;
  float* y;  // [source.rows, source.cols]
  std::int64_t unit_rows, unit_cols, units_across;
};

// Where the second factor of values lies.
enum class OuterLayout { none, one, per_row, per_column, per_tile };

struct DecodeTask {
  const std::uint8_t* codes;
  std::int64_t row_bytes;
  Grid grid;
  std::int64_t rows, cols, tile_rows, tile_cols;
  const std::uint8_t* scales;  // null where there are none
  ScaleKind scale_kind;
  Grid scale_grid;
  const float* outer;
  OuterLayout outer_layout;
  float* values;
  bool past_caches;
  std::int64_t panel_rows, panel_cols;  // one row of tiles, whole tiles
};

struct NarrowTask {
  const float* a;
  const float* b;
  std::int64_t m, k, n;
  Sums sums;
  float* out;
  double* b_panel;  // k * kNarrowCols
  double* a_panel;  // k * kNarrowRows
};
constexpr std::int64_t kNarrowCols = 32, kNarrowRows = 4;

// Tiles of one row of tiles of `columns`.
static inline std::int64_t tiles_in(const Task& task, std::int64_t columns) {
  return (columns + task.tile_cols - 1) / task.tile_cols * task.interleaved;
}

// Whether rows are read more than once: for the choice's errors, or for a deviation.
static inline bool sums_tiles(const Scaling& scaling) { return scaling.second_target > 0.0 || scaling.from_deviation; }

// Places of a tile, up to the next power of two: its numbers are summed by halving.
static inline std::int64_t places_of(const Task& task) {
  std::int64_t places = 1;
  while (places < task.tile_rows * task.tile_cols) places *= 2;
  return places;
}

constexpr int kMaxTransform = 128;

// Elements of a gradient whose squares are summed first.
constexpr std::int64_t kChunk = 1024;
// Elements of a parameter that are updated at once: whole blocks of 8-bit moments, and few, so that memory and arithmetic
// are both at work all the time.
constexpr std::int64_t kStepPiece = 256;

// A step over slots whose pieces lie in a row: those of slot s are [first_piece[s], first_piece[s + 1]).
struct StepTask {
  const Slot* slots;
  const std::int64_t* first_piece;
  Rule rule;
  int moments;
};

// Whether a finite result can stand for something more than half a step beyond the format's end, and how that is known:
// from the scaled element alone, where scaling is exact, or from what it stands for.
enum class Saturation { never, by_scaled, by_value };

// One cast that statistics are taken of, whose scales are known.
struct ProbeTask {
  Grid grid;
  Rounding rounding;
  Random random;
  bool tiled;                           // whether tiles have scales; otherwise one holds for all elements
  std::int64_t cols;                    // of the matrix, or of its elements in a row
  std::int64_t tile_rows, tile_cols;
  int tile_shift;                       // tile_cols = 2^tile_shift, or -1
  const std::uint32_t* tile_amax;       // null, or magnitude bits of tiles, whose scales `scaling` makes when needed
  Scaling scaling;
  const float* quantize;                // otherwise: one, or one per tile
  const float* factor;                  // likewise: the first of two factors of the rounded elements
  float second_factor;
  Saturation saturation;
  bool unscaled;
  bool exact;                           // whether |v| - |y| is a number of fp32
};

// Statistics of a matrix, in chunks of kChunk elements.
struct StatisticsPass {
  Matrix x;
  const ProbeTask* probes;
  int count;
  std::int64_t chunks;
  double* sums;  // [chunks][kTensorSums + count * kProbeSums]
};
constexpr int kTensorSums = 2, kProbeSums = 5;

// What one thread counts.
struct TensorCounts {
  std::int64_t zeros, nans, infinities;
  std::int64_t exponents[256];
  std::uint32_t amax, smallest;  // bits of finite magnitudes; smallest, but for zeros: kInfinity where there is none
};
struct ProbeCounts {
  std::int64_t nonzero, flushed, subnormal, saturated, lost;
};

struct LevelKernels {
  std::uint32_t (*amax)(const Matrix& x, std::int64_t begin, std::int64_t end);
  void (*word_range)(const Random& random, std::int64_t begin, std::int64_t end, std::uint32_t* words);
  // Units [begin, end): largest[t] becomes the largest magnitude bits that task t saw.
  void (*amax_units)(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                     std::uint32_t* largest);
  void (*round_units)(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                      std::uint32_t* largest);
  // Units [begin, end): the scales of tiles, which tasks keep.
  void (*scale_units)(const Pass& pass, std::int64_t begin, std::int64_t end, const Scratch* scratch,
                      std::uint32_t* largest);
  // Chunks [begin, end): their sums; adds to the counts.
  void (*statistics_chunks)(const StatisticsPass& pass, std::int64_t begin, std::int64_t end, TensorCounts& tensor,
                            ProbeCounts* probes);
  void (*transform_units)(const TransformTask& task, std::int64_t begin, std::int64_t end);
  void (*decode_units)(const DecodeTask& task, std::int64_t begin, std::int64_t end, float* scratch);
  void (*narrow_rows)(const NarrowTask& task, std::int64_t row_begin, std::int64_t row_end);
  // Chunks or pieces [begin, end); of n elements.
  void (*square_chunks)(const Gradient& gradient, std::int64_t begin, std::int64_t end, double* sums);
  void (*step_pieces)(const StepTask& task, std::int64_t begin, std::int64_t end);
  void (*load_weight_pieces)(const StoredWeight& stored, std::int64_t begin, std::int64_t end, std::int64_t n,
                             float* values);
  void (*store_weight_pieces)(const StoredWeight& stored, const Random& random, std::int64_t begin, std::int64_t end,
                              std::int64_t n, const float* values);
  void (*load_moment_pieces)(const StoredMoment& stored, std::int64_t begin, std::int64_t end, std::int64_t n,
                             float* values);
  void (*store_moment_pieces)(const StoredMoment& stored, std::int64_t begin, std::int64_t end, std::int64_t n,
                              const float* values);
};

// One of each per build of level.cpp; null where the build has no such level.
const LevelKernels* plain_kernels();
const LevelKernels* avx2_kernels();
const LevelKernels* avx512_kernels();

}  // namespace mixprec
