// Views of floating-point numbers as integers. Everything here has internal linkage: the kernels are compiled
// once per instruction set, and a shared inline function could be taken from the wrong one by the linker.
#pragma once

#include <cstdint>
#include <cstring>

#define MIXPREC_INLINE static inline __attribute__((always_inline))
#define MIXPREC_RESTRICT __restrict__
#define MIXPREC_MEMBER inline __attribute__((always_inline))

namespace {

constexpr std::uint32_t kMagnitude = 0x7fffffffu;
constexpr std::uint32_t kSign = 0x80000000u;
constexpr std::uint32_t kInfinity = 0x7f800000u;
constexpr std::uint32_t kQuiet = 0x00400000u;
constexpr float kLargestScale = 0x1p127f;
constexpr float kLargestFinite = 0x1.fffffep127f;

MIXPREC_INLINE std::uint32_t to_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
MIXPREC_INLINE std::uint64_t to_bits(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
MIXPREC_INLINE float from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
MIXPREC_INLINE double from_bits(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

MIXPREC_INLINE std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
MIXPREC_INLINE std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
MIXPREC_INLINE std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace
