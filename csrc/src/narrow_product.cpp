// Products of matrices with a narrow accumulator.

#include <stdexcept>
#include <vector>

#include "dispatch.h"
#include "mixprec/kernels.h"
#include "parallel.h"

namespace mixprec {

void narrow_product(const float* a, const float* b, std::int64_t m, std::int64_t k, std::int64_t n, const Sums& sums,
                    float* out, const Run& run) {
  if (sums.mantissa_bits < 1 || sums.mantissa_bits > 22 || sums.promote_every < 0)
    throw std::invalid_argument("a narrow accumulator has 1 to 22 mantissa bits, promoted every 0 or more products");
  const LevelKernels& kernels = kernels_for(run.level);
  parallel_parts(m, kNarrowRows, run.threads, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    std::vector<double> a_panel(static_cast<std::size_t>(k * kNarrowRows));
    std::vector<double> b_panel(static_cast<std::size_t>(k * kNarrowCols));
    kernels.narrow_rows({a, b, m, k, n, sums, out, b_panel.data(), a_panel.data()}, begin, end);
  });
}

}  // namespace mixprec
