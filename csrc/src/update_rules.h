// One step of each optimizer on a piece of fp32 values: every operation rounds once, in the order written.
#pragma once

#include "bits.h"
#include "level.h"

namespace {

using mixprec::AdamW;
using mixprec::Sgd;

// A piece in fp32, and what a rule finds from gradient and moments before it changes the weight: AdamW the roots of its
// second moments, SGD the direction in which it goes.
struct Values {
  const float* gradient;
  float* weight;
  float* moments[2];
  float* found;
  std::int64_t n;
};

MIXPREC_INLINE void move_moments(const AdamW& given, const Values& values) {
  const AdamW rule = given;  // which the results could otherwise overlap, for all that the compiler knows
  const float* MIXPREC_RESTRICT gradient = values.gradient;
  float* MIXPREC_RESTRICT first = values.moments[0];
  float* MIXPREC_RESTRICT second = values.moments[1];
  float* MIXPREC_RESTRICT roots = values.found;
  for (std::int64_t i = 0; i < values.n; ++i) {
    const float g = gradient[i] * rule.factor;
    const float v = rule.beta2 * second[i] + rule.alpha2 * (g * g);
    first[i] = rule.beta1 * first[i] + rule.alpha1 * g;
    second[i] = v;
    roots[i] = __builtin_sqrtf(v);
  }
}

// Elements [begin, end).
MIXPREC_INLINE void move_weight(const AdamW& given, const Values& values, std::int64_t begin, std::int64_t end) {
  const AdamW rule = given;
  const float* MIXPREC_RESTRICT first = values.moments[0];
  const float* MIXPREC_RESTRICT roots = values.found;
  float* MIXPREC_RESTRICT weight = values.weight;
  for (std::int64_t i = begin; i < end; ++i)
    weight[i] = weight[i] * rule.decay - rule.rate * (first[i] / (roots[i] * rule.correction + rule.eps));
}

// The gradient that SGD steps along, before momentum.
MIXPREC_INLINE void decay_into_gradient(const Sgd& rule, const Values& values, float* MIXPREC_RESTRICT g) {
  const float* MIXPREC_RESTRICT gradient = values.gradient;
  const float* MIXPREC_RESTRICT weight = values.weight;
  const float factor = rule.factor, decay = rule.weight_decay;
  if (decay == 0.0f) {
    for (std::int64_t i = 0; i < values.n; ++i) g[i] = gradient[i] * factor;
  } else {
    for (std::int64_t i = 0; i < values.n; ++i) g[i] = gradient[i] * factor + decay * weight[i];
  }
}

MIXPREC_INLINE void move_momentum(const Sgd& rule, std::int64_t n, float* MIXPREC_RESTRICT g,
                                  float* MIXPREC_RESTRICT momentum) {
  const float kept = rule.momentum, alpha = rule.alpha;
  if (rule.is_first) {
    for (std::int64_t i = 0; i < n; ++i) momentum[i] = g[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) momentum[i] = kept * momentum[i] + alpha * g[i];
  }
  if (rule.nesterov) {
    for (std::int64_t i = 0; i < n; ++i) g[i] = g[i] + kept * momentum[i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) g[i] = momentum[i];
  }
}

MIXPREC_INLINE void move_moments(const Sgd& rule, const Values& values) {
  decay_into_gradient(rule, values, values.found);
  if (values.moments[0]) move_momentum(rule, values.n, values.found, values.moments[0]);
}

MIXPREC_INLINE void move_weight(const Sgd& rule, const Values& values, std::int64_t begin, std::int64_t end) {
  const float* MIXPREC_RESTRICT g = values.found;
  float* MIXPREC_RESTRICT weight = values.weight;
  const float lr = rule.lr;
  for (std::int64_t i = begin; i < end; ++i) weight[i] = weight[i] - lr * g[i];
}

}  // namespace
