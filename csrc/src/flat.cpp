// The largest magnitude and the random words: element by element, whatever the shape.

#include <algorithm>
#include <limits>
#include <vector>

#include "bits.h"
#include "dispatch.h"
#include "mixprec/kernels.h"
#include "parallel.h"
#include "tasks.h"

namespace mixprec {

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

}  // namespace mixprec
