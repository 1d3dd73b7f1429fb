// An optimizer's step, piece by piece: a piece is read as fp32 values, updated and kept while it lies in the nearest
// cache. So ways to keep weights and moments, and rules, add up: none knows of another.
#pragma once

#include "kept_moments.h"
#include "kept_weights.h"
#include "update_rules.h"

namespace {

using mixprec::Rule;
using mixprec::RuleKind;
using mixprec::Slot;
using mixprec::StepTask;

struct StepScratch {
  alignas(64) float gradient[kStepPiece];
  alignas(64) float weight[kStepPiece];
  alignas(64) float moments[2][kStepPiece];
  alignas(64) float found[kStepPiece];
  WeightScratch keeping;
};

// How far ahead memory is asked for what a piece reads, and in how many parts: between them lies arithmetic, so that
// neither waits for the other.
constexpr std::int64_t kAhead = 2 * kStepPiece;
constexpr std::int64_t kParts = 4;

// What a slot's update reads: addresses and bytes per element.
class Streams {
 public:
  Streams(const Slot& slot, int moments) {
    add(slot.gradient.data, dtype_size(slot.gradient.dtype));
    if (slot.weight.kind != WeightKind::master) add(slot.weight.weight, dtype_size(slot.weight.dtype));
    if (slot.weight.extra) add(slot.weight.extra, slot.weight.kind == WeightKind::master ? 4 : 2);
    for (int i = 0; i < moments; ++i) add(slot.moments[i].values, moment_size(slot.moments[i].layout.kind));
  }

  // Asks memory for one part of the piece ahead of that which begins at `start`.
  MIXPREC_MEMBER void fetch(std::int64_t start, std::int64_t part) const {
    constexpr std::int64_t n = kStepPiece / kParts;
    for (int s = 0; s < count_; ++s) {
      const char* from = data_[s] + (start + kAhead + part * n) * size_[s];
      for (std::int64_t i = 0; i < n * size_[s]; i += kCacheLine) __builtin_prefetch(from + i);
    }
  }

 private:
  MIXPREC_MEMBER void add(const void* data, std::int64_t size) {
    data_[count_] = static_cast<const char*>(data);
    size_[count_++] = size;
  }

  const char* data_[5];
  std::int64_t size_[5];
  int count_ = 0;
};

template <class OneRule>
MIXPREC_INLINE void step_values(const OneRule& rule, const Slot& slot, int moments, std::int64_t start,
                                const Values& values, const Streams& streams) {
  move_moments(rule, values);
  streams.fetch(start, 2);
  PieceMeasure measures[2];
  for (int i = 0; i < moments; ++i)
    measures[i] = measure_moment(slot.moments[i], start, values.n, values.moments[i]);
  const std::int64_t middle = smaller(kStepPiece / 2, values.n);
  move_weight(rule, values, 0, middle);
  if (moments > 0) close_moment(slot.moments[0], start, values.n, values.moments[0], values.found, measures[0]);
  streams.fetch(start, 3);
  move_weight(rule, values, middle, values.n);
  if (moments > 1) close_moment(slot.moments[1], start, values.n, values.moments[1], values.found, measures[1]);
}

MIXPREC_INLINE void step_piece(const Slot& slot, const StepTask& task, std::int64_t start, std::int64_t n,
                               const Streams& streams, Philox& philox, StepScratch& scratch) {
  streams.fetch(start, 0);
  const Matrix gradient{slot.gradient.data, slot.gradient.dtype, 1, slot.gradient.n};
  Values values{load(gradient, start, n, scratch.gradient),
                open_weight(slot.weight, start, n, scratch.weight),
                {nullptr, nullptr},
                scratch.found,
                n};
  for (int i = 0; i < task.moments; ++i)
    values.moments[i] = open_moment(slot.moments[i], start, n, scratch.moments[i]);
  streams.fetch(start, 1);
  if (task.rule.kind == RuleKind::adamw) {
    step_values(task.rule.adamw, slot, task.moments, start, values, streams);
  } else {
    step_values(task.rule.sgd, slot, task.moments, start, values, streams);
  }
  close_weight(slot.weight, start, n, values.weight, philox, scratch.keeping);
}

// Pieces [begin, end) of all slots in a row.
void step_pieces(const StepTask& task, std::int64_t begin, std::int64_t end) {
  StepScratch scratch;
  std::int64_t s = 0;
  while (task.first_piece[s + 1] <= begin) ++s;
  for (; begin < end; ++s) {
    const Slot& slot = task.slots[s];
    Philox philox(slot.random);
    const Streams streams(slot, task.moments);
    const std::int64_t last = smaller(end, task.first_piece[s + 1]);
    for (; begin < last; ++begin) {
      const std::int64_t start = (begin - task.first_piece[s]) * kStepPiece;
      step_piece(slot, task, start, smaller(kStepPiece, slot.gradient.n - start), streams, philox, scratch);
    }
  }
  finish_stores();
}

// body(start, n) for pieces [begin, end) of n elements.
template <class Body>
MIXPREC_INLINE void for_pieces(std::int64_t begin, std::int64_t end, std::int64_t n, const Body& body) {
  for (std::int64_t start = begin * kStepPiece; start < smaller(end * kStepPiece, n); start += kStepPiece)
    body(start, smaller(kStepPiece, n - start));
}

MIXPREC_INLINE void copy_values(const float* from, std::int64_t n, float* to) {
  if (from != to) std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof *to);
}

void load_weight_pieces(const StoredWeight& stored, std::int64_t begin, std::int64_t end, std::int64_t n,
                        float* values) {
  for_pieces(begin, end, n, [&](std::int64_t start, std::int64_t count) {
    copy_values(open_weight(stored, start, count, values + start), count, values + start);
  });
}

void store_weight_pieces(const StoredWeight& stored, const mixprec::Random& random, std::int64_t begin,
                         std::int64_t end, std::int64_t n, const float* values) {
  Philox philox(random);
  WeightScratch scratch;
  for_pieces(begin, end, n, [&](std::int64_t start, std::int64_t count) {
    if (stored.kind == WeightKind::master) copy_values(values + start, count, elements<float>(stored.extra, start));
    if (stored.dtype == Dtype::f32) copy_values(values + start, count, elements<float>(stored.weight, start));
    close_weight(stored, start, count, values + start, philox, scratch);
  });
  finish_stores();
}

void load_moment_pieces(const StoredMoment& stored, std::int64_t begin, std::int64_t end, std::int64_t n,
                        float* values) {
  for_pieces(begin, end, n, [&](std::int64_t start, std::int64_t count) {
    copy_values(open_moment(stored, start, count, values + start), count, values + start);
  });
}

void store_moment_pieces(const StoredMoment& stored, std::int64_t begin, std::int64_t end, std::int64_t n,
                         const float* values) {
  for_pieces(begin, end, n, [&](std::int64_t start, std::int64_t count) {
    if (stored.layout.kind == MomentKind::fp32)
      copy_values(values + start, count, elements<float>(stored.values, start));
    alignas(64) float roots[kStepPiece];
    for (std::int64_t i = 0; i < count; ++i) roots[i] = root(from_bits(to_bits(values[start + i]) & kMagnitude));
    close_moment(stored, start, count, values + start, roots, measure_moment(stored, start, count, values + start));
  });
}

}  // namespace
