// What lies between the backward pass and the next forward, on a CPU: norms, updates, the keeping of state. Functions on
// plain pointers and structs, exact as those of kernels.h are.
//
// What is computed is the contract in src/mixprec/kernels/_optimizer_contract.py; this page says how it is asked for.
#pragma once

#include "mixprec/kernels.h"

namespace mixprec {

// How a weight's fp32 value is kept.
enum class WeightKind { plain, master, split, stochastic, kahan };

struct StoredWeight {
  WeightKind kind;
  Dtype dtype;   // of the model's weight; bf16 unless the kind is plain or master
  void* weight;
  void* extra;   // master: float; split: int16; kahan: bf16; otherwise null
};

enum class MomentKind { fp32, bf16, e4m3, dynamic };

struct MomentLayout {
  MomentKind kind;
  int block;       // 8 bits: consecutive elements that share a scale, 128 or 256
  bool expand;     // e4m3: whether a block chooses the power that its magnitudes are raised to
  bool is_signed;  // whether it has negative numbers
};

struct StoredMoment {
  MomentLayout layout;
  void* values;          // float, bf16 or codes
  float* scales;         // 8 bits: one per block
  std::uint8_t* powers;  // e4m3: one per block
};

struct Gradient {
  Dtype dtype;
  const void* data;
  std::int64_t n;
};

// What one parameter brings to an update.
struct Slot {
  Gradient gradient;
  StoredWeight weight;
  StoredMoment moments[2];
  Random random;  // of stochastic rounding
};

enum class RuleKind { adamw, sgd };

struct AdamW {
  float factor, decay, beta1, alpha1, beta2, alpha2, rate, correction, eps;
};

struct Sgd {
  float factor, weight_decay, momentum, alpha, lr;
  bool nesterov, is_first;
};

struct Rule {
  RuleKind kind;
  AdamW adamw;
  Sgd sgd;
};

// Moments of a slot under a rule.
int moment_count(const Rule& rule);

// Sum of squares of each gradient.
void gradient_squares(const Gradient* gradients, std::int64_t count, double* sums, const Run& run);

// Updates weights and moments of all slots.
void optimizer_step(const Slot* slots, std::int64_t count, const Rule& rule, const Run& run);

// The fp32 values of n elements, and the keeping of values.
void load_weight(const StoredWeight& stored, std::int64_t n, float* values, const Run& run);
void store_weight(const StoredWeight& stored, std::int64_t n, const float* values, const Random& random,
                  const Run& run);
void load_moment(const StoredMoment& stored, std::int64_t n, float* values, const Run& run);
void store_moment(const StoredMoment& stored, std::int64_t n, const float* values, const Run& run);

}  // namespace mixprec
