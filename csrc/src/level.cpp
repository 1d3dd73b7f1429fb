// The kernels for one instruction set. The build compiles this file once per level, each time with that
// level's compiler flags and MIXPREC_LEVEL = plain, avx2 or avx512.
//
// Everything that it includes has internal linkage (anonymous namespaces, no standard templates), so that the
// linker never takes a function built for a newer instruction set than the CPU has.

#include "decode.h"
#include "flat.h"
#include "narrow.h"
#include "panels.h"
#include "squares.h"
#include "statistics.h"
#include "steps.h"

#ifndef MIXPREC_LEVEL
#error "MIXPREC_LEVEL names the level that this file is built for"
#endif
#define MIXPREC_JOIN2(a, b) a##b
#define MIXPREC_JOIN(a, b) MIXPREC_JOIN2(a, b)

namespace mixprec {

const LevelKernels* MIXPREC_JOIN(MIXPREC_LEVEL, _kernels)() {
  static constexpr LevelKernels kernels{amax_range,        word_range,         amax_units,         round_units,
                                        scale_units,       statistics_chunks,  transform_units,    decode_units,
                                        narrow_rows,       square_chunks,      step_pieces,        load_weight_pieces,
                                        store_weight_pieces, load_moment_pieces, store_moment_pieces};
  return &kernels;
}

}  // namespace mixprec
