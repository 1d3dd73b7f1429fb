// One step of each optimizer on a piece of fp32 values: every operation rounds once, in the order written.
#pragma once

#include "bits.h"
#include "level.h"

namespace {

using mixprec::AdamW;
using mixprec::Sgd;

struct Values {
  const float* gradient;
  float* weight;
  float* moments[2];
  float* roots;  // where AdamW leaves those of its second moments
  std::int64_t n;
};

MIXPREC_INLINE void update_adamw(const AdamW& given, const Values& values) {
  const AdamW rule = given;  // which the results could otherwise overlap, for all that the compiler knows
  const float* MIXPREC_RESTRICT gradient = values.gradient;
  float* MIXPREC_RESTRICT weight = values.weight;
  float* MIXPREC_RESTRICT first = values.moments[0];
  float* MIXPREC_RESTRICT second = values.moments[1];
  float* MIXPREC_RESTRICT roots = values.roots;
  for (std::int64_t i = 0; i < values.n; ++i) {
    const float g = gradient[i] * rule.factor;
    const float m = rule.beta1 * first[i] + rule.alpha1 * g;
    const float v = rule.beta2 * second[i] + rule.alpha2 * (g * g);
    first[i] = m;
    second[i] = v;
    const float root = __builtin_sqrtf(v);
    roots[i] = root;
    weight[i] = weight[i] * rule.decay - rule.rate * (m / (root * rule.correction + rule.eps));
  }
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

MIXPREC_INLINE void update_sgd(const Sgd& rule, const Values& values, float* MIXPREC_RESTRICT g) {
  decay_into_gradient(rule, values, g);
  if (values.moments[0]) move_momentum(rule, values.n, g, values.moments[0]);
  float* MIXPREC_RESTRICT weight = values.weight;
  const float lr = rule.lr;
  for (std::int64_t i = 0; i < values.n; ++i) weight[i] = weight[i] - lr * g[i];
}

}  // namespace
