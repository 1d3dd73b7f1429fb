// Grid values to packed codes and back.

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "bits.h"
#include "mixprec/kernels.h"
#include "parallel.h"

namespace mixprec {

namespace {

constexpr std::int64_t kGrain = 4096;
constexpr std::int64_t kColumns = 16;  // columns that are transposed together: one cache line of values

constexpr Element kE4m3{3, -6, 8, 448.0f, 448.0f, true};
constexpr Encoding kE4m3Codes{8, false, 0x7f, 0};

// Between a grid value and its code: sign | exponent | mantissa, or two's complement. In fp64, whose exponent
// range holds every format's subnormals as normal numbers.
class Coder {
 public:
  Coder(const Element& element, const Encoding& encoding)
      : encoding_(encoding),
        mantissa_(element.mantissa_bits),
        first_exponent_(static_cast<std::uint64_t>(element.min_exponent + 1022)),
        code_mask_(static_cast<std::uint32_t>((std::uint64_t{1} << encoding.bits) - 1)),
        sign_(1u << (encoding.bits - 1)),
        min_normal_(std::ldexp(1.0, element.min_exponent)),
        to_units_(std::ldexp(1.0, element.mantissa_bits - element.min_exponent)) {
    if (encoding.bits < 2 || encoding.bits > 32) throw std::invalid_argument("a code has 2 to 32 bits");
  }

  void encode(const float* values, std::int64_t n, std::uint32_t* codes) const {
    if (encoding_.integer) {
      for (std::int64_t i = 0; i < n; ++i) codes[i] = encode_integer(values[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) codes[i] = encode_float(values[i]);
    }
  }

  void decode(const std::uint32_t* codes, std::int64_t n, float* values) const {
    for (std::int64_t i = 0; i < n; ++i)
      values[i] = encoding_.integer ? decode_integer(codes[i]) : decode_float(codes[i]);
  }

 private:
  std::uint32_t encode_integer(float value) const {
    if (value != value) return 0;
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(value * to_units_)) & code_mask_;
  }

  std::uint32_t encode_float(float value) const {
    const std::uint32_t bits = to_bits(value), magnitude = bits & kMagnitude;
    const double exact = static_cast<double>(from_bits(magnitude));
    const auto normal = static_cast<std::uint32_t>((to_bits(exact) >> (52 - mantissa_)) - (first_exponent_ << mantissa_));
    const auto subnormal = static_cast<std::uint32_t>(static_cast<std::int64_t>(exact < min_normal_ ? exact * to_units_ : 0.0));
    std::uint32_t code = exact < min_normal_ ? subnormal : normal;
    code = magnitude == kInfinity ? encoding_.infinity : code;
    code |= (bits & kSign) ? sign_ : 0;
    return magnitude > kInfinity ? encoding_.nan : code;
  }

  float decode_integer(std::uint32_t code) const {
    const std::int64_t value = static_cast<std::int64_t>(code ^ sign_) - static_cast<std::int64_t>(sign_);
    return static_cast<float>(static_cast<double>(value) / to_units_);
  }

  float decode_float(std::uint32_t code) const {
    const std::uint32_t magnitude = code & (sign_ - 1);
    const std::uint64_t field = magnitude >> mantissa_, mantissa = magnitude & ((std::uint64_t{1} << mantissa_) - 1);
    const double normal = from_bits(((field + first_exponent_) << 52) | mantissa << (52 - mantissa_));
    double value = field == 0 ? static_cast<double>(mantissa) / to_units_ : normal;
    if (encoding_.infinity && magnitude >= encoding_.infinity)
      value = magnitude == encoding_.infinity ? std::numeric_limits<double>::infinity()
                                              : std::numeric_limits<double>::quiet_NaN();
    if (encoding_.nan && (magnitude == encoding_.nan || code == encoding_.nan)) value = std::numeric_limits<double>::quiet_NaN();
    return static_cast<float>(code & sign_ ? -value : value);
  }

  Encoding encoding_;
  int mantissa_;
  std::uint64_t first_exponent_;  // fp64 exponent field of code field 0, as if it were normal
  std::uint32_t code_mask_, sign_;
  double min_normal_, to_units_;
};

void write_bits(const std::uint32_t* codes, std::int64_t n, int bits, std::uint8_t* out) {
  if (bits == 8) {
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<std::uint8_t>(codes[i]);
    return;
  }
  std::uint64_t pending = 0;
  int held = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    pending |= static_cast<std::uint64_t>(codes[i]) << held;
    for (held += bits; held >= 8; held -= 8, pending >>= 8) *out++ = static_cast<std::uint8_t>(pending);
  }
  if (held > 0) *out = static_cast<std::uint8_t>(pending);
}

void read_bits(const std::uint8_t* in, std::int64_t n, int bits, std::uint32_t* codes) {
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  std::uint64_t pending = 0;
  int held = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (; held < bits; held += 8) pending |= static_cast<std::uint64_t>(*in++) << held;
    codes[i] = static_cast<std::uint32_t>(pending & mask);
    pending >>= bits;
    held -= bits;
  }
}

// body(first, count, codes): rows or columns [first, first + count) and room for their codes, `extent` each.
template <class Body>
void for_lines(std::int64_t lines, std::int64_t extent, std::int64_t at_once, int threads, const Body& body) {
  const std::int64_t grain = ceil_div(kGrain, std::max<std::int64_t>(1, extent * at_once)) * at_once;
  parallel_parts(lines, grain, threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> codes(static_cast<std::size_t>(extent * at_once));
    for (std::int64_t i = begin; i < end; i += at_once) body(i, std::min(at_once, end - i), codes.data());
  });
}

float decode_power_of_two(std::uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return from_bits(code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23);
}

std::uint8_t encode_power_of_two(float scale) {
  return scale == scale ? static_cast<std::uint8_t>(to_bits(scale) >> 23) : 255;
}

}  // namespace

std::int64_t packed_bytes(std::int64_t n, int bits) { return (n * bits + 7) / 8; }

void pack(const float* values, std::int64_t rows, std::int64_t cols, bool transpose, const Element& element,
          const Encoding& encoding, std::uint8_t* codes, const Run& run) {
  const Coder coder(element, encoding);
  const std::int64_t lines = transpose ? cols : rows, extent = transpose ? rows : cols;
  const std::int64_t bytes = packed_bytes(extent, encoding.bits);
  for_lines(lines, extent, transpose ? kColumns : 1, run.threads,
            [&](std::int64_t first, std::int64_t count, std::uint32_t* room) {
    if (transpose) {
      std::uint32_t line[kColumns];
      for (std::int64_t r = 0; r < rows; ++r) {
        coder.encode(values + r * cols + first, count, line);
        for (std::int64_t j = 0; j < count; ++j) room[j * extent + r] = line[j];
      }
    } else {
      coder.encode(values + first * cols, cols, room);
    }
    for (std::int64_t j = 0; j < count; ++j) write_bits(room + j * extent, extent, encoding.bits, codes + (first + j) * bytes);
  });
}

void unpack(const std::uint8_t* codes, std::int64_t rows, std::int64_t cols, bool transpose, const Element& element,
            const Encoding& encoding, float* values, const Run& run) {
  const Coder coder(element, encoding);
  const std::int64_t lines = transpose ? cols : rows, extent = transpose ? rows : cols;
  const std::int64_t bytes = packed_bytes(extent, encoding.bits);
  for_lines(lines, extent, transpose ? kColumns : 1, run.threads,
            [&](std::int64_t first, std::int64_t count, std::uint32_t* room) {
    for (std::int64_t j = 0; j < count; ++j) read_bits(codes + (first + j) * bytes, extent, encoding.bits, room + j * extent);
    if (!transpose) return coder.decode(room, cols, values + first * cols);
    std::uint32_t line[kColumns];
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t j = 0; j < count; ++j) line[j] = room[j * extent + r];
      coder.decode(line, count, values + r * cols + first);
    }
  });
}

void encode_scales(const float* scales, std::int64_t n, ScaleRule rule, std::uint8_t* codes) {
  const Coder coder(kE4m3, kE4m3Codes);
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t code = 0;
    if (rule == ScaleRule::two_level) coder.encode(scales + i, 1, &code);
    codes[i] = rule == ScaleRule::two_level ? static_cast<std::uint8_t>(code) : encode_power_of_two(scales[i]);
  }
}

void decode_scales(const std::uint8_t* codes, std::int64_t n, ScaleRule rule, float* scales) {
  const Coder coder(kE4m3, kE4m3Codes);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t code = codes[i];
    if (rule == ScaleRule::two_level) {
      coder.decode(&code, 1, scales + i);
    } else {
      scales[i] = decode_power_of_two(codes[i]);
    }
  }
}

void apply_scales(float* values, std::int64_t rows, std::int64_t cols, const Cast& cast, int axis,
                  const float* block_scales, const float* outer, const Run& run) {
  const bool blocks = cast.granularity == Granularity::block, by_row = cast.granularity == Granularity::row;
  const std::int64_t along = axis == 1 ? cols : rows;
  const std::int64_t stride = blocks ? ceil_div(along, cast.reduction) : 0;
  const std::int64_t grain = ceil_div(kGrain, std::max<std::int64_t>(1, cols));
  parallel_parts(rows, grain, run.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* row = values + r * cols;
      for (std::int64_t c = 0; blocks && c < cols; ++c) {
        const std::int64_t across = axis == 1 ? r : c, position = axis == 1 ? c : r;
        row[c] *= block_scales[across / cast.outer * stride + position / cast.reduction];
      }
      for (std::int64_t c = 0; c < cols; ++c) row[c] *= by_row ? outer[axis == 1 ? r : c] : outer[0];
    }
  });
}

}  // namespace mixprec
