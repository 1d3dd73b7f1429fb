// What is done with all elements in a row, whatever the matrix: the largest magnitude, the random words.
#pragma once

#include "level.h"
#include "load.h"
#include "magnitudes.h"
#include "philox.h"

namespace {

using mixprec::kPiece;

// In 4 KiB pieces, so that 16-bit inputs are widened inside the nearest cache.
std::uint32_t amax_range(const Matrix& x, std::int64_t begin, std::int64_t end) {
  alignas(64) float widened[kPiece];
  std::uint32_t largest = 0;
  for (std::int64_t i = begin; i < end; i += kPiece) {
    const std::int64_t n = smaller(kPiece, end - i);
    const std::uint32_t m = amax_run(load(x, i, n, widened), n);
    largest = m > largest ? m : largest;
  }
  return largest;
}

// The random words of elements [begin, end), to words[begin ..].
void word_range(const mixprec::Random& random, std::int64_t begin, std::int64_t end, std::uint32_t* words) {
  alignas(64) std::uint32_t buffer[kPiece + 2 * kGroup];
  Philox philox(random);
  for (std::int64_t i = begin; i < end; i += kPiece) {
    const std::int64_t n = smaller(kPiece, end - i);
    std::memcpy(words + i, philox_fill(philox, i, n, buffer), static_cast<std::size_t>(n) * sizeof *words);
  }
}

}  // namespace
