// Rounding tensors to number formats on a CPU: functions on plain pointers and structs.
//
// This header knows neither Python nor torch, so that another host can link the library. Every function is
// bit-exact: it uses + - * / on fp32 and fp64 without fused multiply-add, integer operations, compare and
// select. Results depend on neither the thread count nor the instruction set, nor on the CPU's denormal modes.
//
// Matrices are row-major and contiguous, [rows, cols]; outputs never overlap inputs. What is computed is the contract
// in src/mixprec/kernels/_contract.py; this page says how it is asked for. A request that makes no sense (a block of
// size 0, an axis other than 0 and 1) throws std::invalid_argument.
#pragma once

#include <cstdint>

namespace mixprec {

enum class Dtype { f32, bf16, f16 };

// How a value between two neighbours of the grid is resolved.
enum class Rounding { nearest_even, toward_zero, stochastic };

// What shares a scale.
enum class Granularity { none, tensor, row, block };

// What a scale is: fp32, a power of two (E8M0), or a short float of `Cast::scale_grid` (blocks only).
enum class ScaleKind { none, fp32, power, floating };

// How a power of two comes from the largest magnitude; `quest`: from the standard deviation.
enum class ExponentRule { floor, ceil, rceil, even, quest };

// Which implementation runs. `plain` is the compiler's baseline for the target (SSE2, NEON, ...).
enum class Level { plain, avx2, avx512 };

// A grid that is a list of numbers, zero among them.
struct Table {
  int size;                 // 4 to 256
  float values[256];        // ascending
  std::uint8_t codes[256];  // of each
};

// A grid of numbers and their codes: facts of a format, except `overflow`.
struct Grid {
  int mantissa_bits;            // stored mantissa bits
  int min_exponent;             // exponent of the smallest normal value; below it the spacing is constant
  int max_exponent;             // exponent of the largest finite value
  float max_value;              // largest finite value
  float overflow;               // what an infinity becomes, and (not toward zero) a rounded magnitude beyond max_value
  bool negative_zero;           // whether -0 is kept
  int bits;                     // per code, 2 to 32
  bool is_signed;               // whether the code has a sign bit
  bool integer;                 // two's complement of value * 2^mantissa_bits
  std::uint32_t nan_code;       // 0: none, and a NaN is coded as 0 is
  std::uint32_t infinity_code;  // of +inf; 0: none
  const Table* table;           // null, or the numbers instead of all the above but `bits`
};

// Key and offset of a random stream: see philox.h for the element's word.
struct Random {
  std::uint64_t seed;
  std::uint64_t offset;
};

// How one matrix is brought to a format.
struct Cast {
  Grid grid;
  Rounding rounding;
  Granularity granularity;
  std::int64_t outer;      // block extent across the reduction (granularity block)
  std::int64_t reduction;  // block extent along the reduction (granularity block)
  ScaleKind scale;
  ExponentRule rule;     // of powers of two
  double target;         // magnitude to which the largest value is brought
  double second_target;  // of the choice between two scales, by squared error; 0: no choice
  float prescale;        // of powers of two: elements are multiplied by it besides
  Grid scale_grid;       // of floating scales
  double scale_limit;    // what the largest block scale is brought to under a tensor scale; 0: no tensor scale
  int transform;         // 0, or the size of the Hadamard transform along the reduction: 16, 32, 64, 128
};

struct Matrix {
  const void* data;
  Dtype dtype;
  std::int64_t rows;
  std::int64_t cols;
};

// Random bits of one cast.
struct Draw {
  Random elements;
  bool flips;    // whether the transform flips signs first
  Random signs;  // bit 0 of the word of element j of this stream is the sign of element j of a group
};

// Where one cast's results go: into `carrier` (value = carrier * outer), or into `codes` and `scales`. The matrix
// that is rounded is x, padded with zeros along the axis to a multiple of the transform.
struct Output {
  float* carrier;        // null, or [rows, cols] of that matrix
  std::uint8_t* codes;   // null, or [rows, packed_bytes(cols)]
  std::uint8_t* scales;  // with codes: one per block, laid out as the matrix is; null where blocks have no such codes
  float* outer;          // one value; one per row (granularity row, axis 1) or column (axis 0); one per block (fp32)
};

// One cast of a matrix. `axis` (0 or 1) is the axis that the reduction runs along.
struct Job {
  Cast cast;
  int axis;
  Draw draw;
  Output out;
  // Matrices that lie column by column: x has `interleaved` times the columns of each, and column c * interleaved + t is
  // column c of matrix t, which has tiles of its own. More than 1 only for a carrier that block scales multiply, without
  // transform, choice or deviation.
  std::int64_t interleaved;
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

// Bytes of one packed row of n codes: little-endian bit stream, whole bytes.
std::int64_t packed_bytes(std::int64_t n, int bits);

// Scales and rounds. Reads x once, or twice where the tensor's largest magnitude is needed first.
void scaled(const Matrix& x, const Job& job, const Run& run);

// Two casts of one matrix in the same passes over it.
void scaled_both(const Matrix& x, const Job& first, const Job& second, const Run& run);

// As scaled, of a cast with granularity tensor, under the scale of a given amax (0: x's own); returns x's amax, found
// in the same pass.
float delayed(const Matrix& x, const Job& job, float amax, const Run& run);

// A cast that statistics are taken of, without transform; its own amax, or a given one (a delayed scale's, not 0).
struct Probe {
  Cast cast;
  int axis;
  Random elements;
  bool delayed;
  float amax;  // 0: x's own
};

// Statistics of a matrix and of casts of it: the contract is in src/mixprec/kernels/_statistics_contract.py, with the
// layout of counts [4 + 256 + 6 * count] and numbers [4 + 5 * count]. Reads x once, and before that once or more
// where scales need it.
void statistics(const Matrix& x, const Probe* probes, int count, std::int64_t* counts, double* numbers,
                const Run& run);

// Orthonormal Hadamard transform of consecutive groups of `size` (16, 32, 64, 128) along `axis`; x is padded
// with zeros to whole groups, so y has ceil(extent / size) * size there. Signs of `draw` multiply first; with
// `inverse` they multiply last.
void hadamard(const Matrix& x, int size, int axis, bool inverse, const Draw& draw, float* y, const Run& run);

// What `scaled` left: codes of a matrix [rows, cols], codes of the blocks' scales (or null), outer (or null).
struct Stored {
  const std::uint8_t* codes;
  const std::uint8_t* scales;
  const float* outer;
  std::int64_t rows, cols;
};

// values = (element * scale) * outer; without outer, the carrier.
void dequantize(const Stored& stored, const Cast& cast, int axis, float* values, const Run& run);

// A narrow accumulator: see narrow_product.
struct Sums {
  int mantissa_bits;  // 1 to 22
  bool nearest;       // to nearest even; otherwise toward zero
  std::int64_t promote_every;
};

// out[m, n] of fp32 matrices a[M, K] and b[K, N]: products are added one by one, in the order of K, to an accumulator
// whose significand is rounded to `mantissa_bits` each time; after every `promote_every` products (0: never) it is
// added to an fp32 total and starts at zero again.
void narrow_product(const float* a, const float* b, std::int64_t m, std::int64_t k, std::int64_t n, const Sums& sums,
                    float* out, const Run& run);

}  // namespace mixprec
