// The choice of an implementation at run time: by hand, as not every platform has ifunc.

#include "dispatch.h"

#include <stdexcept>

namespace mixprec {

namespace {

const LevelKernels* find_kernels(Level level) {
#if defined(MIXPREC_HAS_AVX2)
  if (level == Level::avx2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
    return avx2_kernels();
#endif
#if defined(MIXPREC_HAS_AVX512)
  if (level == Level::avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    return avx512_kernels();
#endif
  return level == Level::plain ? plain_kernels() : nullptr;
}

}  // namespace

const LevelKernels& kernels_for(Level level) {
  const LevelKernels* kernels = find_kernels(level);
  if (!kernels) throw std::invalid_argument("this CPU or this build lacks the requested instruction set");
  return *kernels;
}

Level cpu_level() {
  if (has_level(Level::avx512)) return Level::avx512;
  return has_level(Level::avx2) ? Level::avx2 : Level::plain;
}

bool has_level(Level level) { return find_kernels(level) != nullptr; }

}  // namespace mixprec
