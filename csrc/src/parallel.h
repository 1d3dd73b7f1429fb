// Work on threads: contiguous parts of [0, n), one per thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "floating_state.h"

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace mixprec {

// body(part, begin, end) for disjoint parts that cover [0, n); part < threads. Opens no parallel region for one
// thread: OpenMP's pool does not survive a fork. Parts start at multiples of `grain`.
template <class Body>
void parallel_parts(std::int64_t n, std::int64_t grain, int threads, const Body& body) {
  const std::int64_t units = (n + grain - 1) / grain;
  const std::int64_t parts = std::max<std::int64_t>(1, std::min<std::int64_t>(threads, units));
  const auto run = [&](std::int64_t part) {
    const ExactDenormals exact;
    const std::int64_t begin = units * part / parts * grain;
    const std::int64_t end = std::min(n, units * (part + 1) / parts * grain);
    if (begin < end) body(part, begin, end);
  };
#if defined(_OPENMP)
  if (parts > 1) {
#pragma omp parallel for num_threads(static_cast<int>(parts)) schedule(static, 1)
    for (std::int64_t part = 0; part < parts; ++part) run(part);
    return;
  }
#endif
  for (std::int64_t part = 0; part < parts; ++part) run(part);
}

}  // namespace mixprec
