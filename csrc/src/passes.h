// Passes over a matrix for all its casts, and the scales that belong to all of it.
#pragma once

#include <cstdint>

#include "level.h"
#include "mixprec/kernels.h"

namespace mixprec {

using UnitsKernel = void (*)(const Pass&, std::int64_t, std::int64_t, const Scratch*, std::uint32_t*);

// The largest magnitude bits that each of a pass's tasks saw.
struct Largest {
  std::uint32_t bits[2] = {0, 0};
};

// Runs a kernel over all units of a pass.
Largest run_pass(const Pass& pass, UnitsKernel kernel, const Run& run);

// Whether floating block scales stand under a scale of the whole tensor, and whether a cast has any such scale.
bool two_level(const Cast& cast);
bool needs_amax(const Cast& cast);

// Sets the scale of the whole tensor, from its largest magnitude bits.
void set_tensor_scale(Task& task, const Cast& cast, std::uint32_t amax);

// Writes what is known of `outer` before the matrix is read again.
void write_outer(const Task& task, const Cast& cast);

}  // namespace mixprec
