// Rounding tensors to number formats on a CPU: functions on plain pointers.
//
// This header knows neither Python nor torch, so that another host can link the library. Every function is
// bit-exact: it uses + - * / on fp32 and fp64 without fused multiply-add, integer operations, compare and
// select. Results depend on neither the thread count nor the instruction set.
//
// Matrices are row-major and contiguous, [rows, cols]; outputs are fp32 and never overlap inputs.
#pragma once

#include <cstdint>

namespace mixprec {

enum class Dtype { f32, bf16, f16 };

// How a value between two neighbours of the grid is resolved.
enum class Rounding { nearest_even, toward_zero, stochastic };

// What shares a scale.
enum class Granularity { none, tensor, row, block };

// How a block's scale comes from its largest magnitude. The first four give powers of two (E8M0, OCP MX);
// two_level gives an E4M3 scale under one fp32 tensor scale (NVFP4).
enum class ScaleRule { floor, ceil, rceil, even, two_level };

// Which implementation runs. `plain` is the compiler's baseline for the target (SSE2, NEON, ...).
enum class Level { plain, avx2, avx512 };

// The grid of an element format. All fields are facts of the format, except `overflow`.
struct Element {
  int mantissa_bits;    // stored mantissa bits
  int min_exponent;     // exponent of the smallest normal value; below it the spacing is constant
  int max_exponent;     // exponent of the largest finite value
  float max_value;      // largest finite value
  float overflow;       // magnitude that replaces one beyond max_value: max_value, infinity or NaN
  bool negative_zero;   // whether -0 is kept
};

// Key and offset of the random stream: see philox.h for the element's word.
struct Random {
  std::uint64_t seed;
  std::uint64_t offset;
};

// How one matrix is brought to a format.
struct Cast {
  Element element;
  Rounding rounding;
  Granularity granularity;
  std::int64_t outer;      // block extent across the reduction (granularity block)
  std::int64_t reduction;  // block extent along the reduction (granularity block)
  ScaleRule rule;
  double target;           // magnitude to which a block's or tensor's largest value is brought
  double scale_max;        // two_level: largest block scale (448); otherwise 1
};

struct Matrix {
  const void* data;
  Dtype dtype;
  std::int64_t rows;
  std::int64_t cols;
};

// Where a scaled cast writes. value = carrier * outer.
struct Scaled {
  float* carrier;        // [rows, cols]
  float* outer;          // one value; or one per outer index for granularity row
  float* block_scales;   // optional (null): one value per block, [outer tiles, reduction tiles]
  bool apply_scale;      // false: the carrier holds grid values, not multiplied by their block's scale
};

// How to run: the number of threads (1 opens no parallel region) and the implementation.
struct Run {
  int threads;
  Level level;
};

// The best level that this CPU and this build have. Reads no environment variable.
Level cpu_level();

// Whether `level` can run here.
bool has_level(Level level);

// Says that fresh memory will be written whole, so that the system may back it by large pages: the first touch
// of a large result in pages of 4 KiB costs more than rounding it. Changes no contents; optional.
void expect_writes(void* data, std::int64_t bytes);

// Largest magnitude: NaN if any element is NaN, 0 for an empty matrix.
float amax(const Matrix& x, const Run& run);

// The random words of elements [0, n).
void random_words(const Random& random, std::int64_t n, std::uint32_t* words, const Run& run);

// Rounds every element on its own: carrier[i] = round(x[i]).
void round(const Matrix& x, const Cast& cast, const Random& random, float* carrier, const Run& run);

// Scales and rounds. `axis` (0 or 1) is the axis that the reduction runs along. `out.outer` holds 1, rows
// (row, axis 1) or cols (row, axis 0) values.
void scaled(const Matrix& x, const Cast& cast, int axis, const Random& random, const Scaled& out, const Run& run);

// As scaled(axis 1) to `along_cols` and scaled(axis 0) to `along_rows`, reading x once per tile.
void scaled_both(const Matrix& x, const Cast& cast_cols, const Random& random_cols, const Scaled& along_cols,
                 const Cast& cast_rows, const Random& random_rows, const Scaled& along_rows, const Run& run);

// Orthonormal Hadamard transform of consecutive groups of `size` (16, 32, 64, 128) along `axis`; x is padded
// with zeros to whole groups, so y has ceil(extent / size) * size there. `signs` (null or `size` values of
// +-1) multiply first. With `inverse` they multiply last.
void hadamard(const Matrix& x, int size, const float* signs, int axis, bool inverse, float* y, const Run& run);

// --- codes -----------------------------------------------------------------------------------------------

// How a grid value is stored.
struct Encoding {
  int bits;               // per code, 2 to 32
  bool integer;           // two's complement of value * 2^mantissa_bits
  std::uint32_t nan;      // magnitude code of NaN (0 where the format has none)
  std::uint32_t infinity; // magnitude code of infinity (0 where the format has none)
};

// Bytes of one packed row of n codes: little-endian bit stream, whole bytes.
std::int64_t packed_bytes(std::int64_t n, int bits);

// Packs grid values [rows, cols]; with `transpose` the packed rows are the columns of `values`.
void pack(const float* values, std::int64_t rows, std::int64_t cols, bool transpose, const Element& element,
          const Encoding& encoding, std::uint8_t* codes, const Run& run);

// The reverse of pack.
void unpack(const std::uint8_t* codes, std::int64_t rows, std::int64_t cols, bool transpose,
            const Element& element, const Encoding& encoding, float* values, const Run& run);

// Block scales as bytes: E8M0 (exponent + 127, 255 for NaN), or E4M3 for the rule two_level.
void encode_scales(const float* scales, std::int64_t n, ScaleRule rule, std::uint8_t* codes);
void decode_scales(const std::uint8_t* codes, std::int64_t n, ScaleRule rule, float* scales);

// values[r, c] = (values[r, c] * its block's scale) * outer, laid out as by scaled(). `block_scales` is read for
// granularity block only.
void apply_scales(float* values, std::int64_t rows, std::int64_t cols, const Cast& cast, int axis,
                  const float* block_scales, const float* outer, const Run& run);

}  // namespace mixprec
