// The choice of an implementation at run time.
#pragma once

#include "level.h"

namespace mixprec {

// The kernels of a level. Throws std::invalid_argument where the CPU or the build lacks it.
const LevelKernels& kernels_for(Level level);

}  // namespace mixprec
