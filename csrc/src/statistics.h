// Statistics of a matrix and of casts of it, chunk by chunk: all that is read and made of one stays in the nearest cache.
#pragma once

#include <new>

#include "probe_counter.h"

namespace {

using mixprec::kProbeSums;
using mixprec::StatisticsPass;

// Memory of one thread. What is read from a place that lies a multiple of 4 KiB, and little more, behind one just written
// waits for the writing: the gap keeps values away from the magnitudes that they are made of.
struct Workspace {
  Chunk chunk;
  alignas(64) unsigned char gap[2048];
  Rounded rounded;
};

// One for each probe of a pass; they hold what is worked out once.
class ProbeCounters {
 public:
  ProbeCounters(const StatisticsPass& pass, Rounded& rounded)
      : counters_(static_cast<ProbeCounter*>(
            ::operator new(static_cast<std::size_t>(pass.count) * sizeof(ProbeCounter), kAligned))) {
    for (int p = 0; p < pass.count; ++p) new (counters_ + p) ProbeCounter(pass.probes[p], rounded);
  }
  ~ProbeCounters() { ::operator delete(counters_, kAligned); }
  ProbeCounters(const ProbeCounters&) = delete;
  ProbeCounters& operator=(const ProbeCounters&) = delete;
  ProbeCounter& operator[](int p) { return counters_[p]; }

 private:
  static constexpr std::align_val_t kAligned{alignof(ProbeCounter)};
  ProbeCounter* counters_;
};

void statistics_chunks(const StatisticsPass& pass, std::int64_t begin, std::int64_t end, TensorCounts& tensor,
                       ProbeCounts* probes) {
  Workspace workspace;
  Chunk& chunk = workspace.chunk;
  Rounded& rounded = workspace.rounded;
  Histogram histogram;
  for (float& one : rounded.ones) one = 1.0f;
  ProbeCounters counters(pass, rounded);
  for (std::int64_t index = begin; index < end; ++index) {
    load_chunk(pass.x, index, chunk);
    fetch_ahead(pass.x, index, 0, pass.count + 1);
    count_tensor(chunk, rounded.values, tensor, histogram);
    double* sums = pass.sums + index * (kTensorSums + pass.count * kProbeSums);
    magnitude_sums(chunk.magnitudes, sums);
    for (int p = 0; p < pass.count; ++p) {
      fetch_ahead(pass.x, index, p + 1, pass.count + 1);
      counters[p].count(chunk, probes[p], sums, sums + kTensorSums + p * kProbeSums);
    }
  }
  histogram.flush(tensor.exponents);
}

}  // namespace
