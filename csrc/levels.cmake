# One build of csrc/src/level.cpp per instruction set; the driver picks one at run time.

# No fused multiply-add and no reassociation: every operation is rounded as written. The other two flags change
# no result (errno, trap state); they let loops with selects vectorise.
function(mixprec_exact_arithmetic target)
  target_compile_options(${target} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math)
endfunction()

function(mixprec_add_level target level)
  add_library(${target}_${level} OBJECT csrc/src/level.cpp)
  target_include_directories(${target}_${level} PRIVATE csrc/include csrc/src)
  target_compile_definitions(${target}_${level} PRIVATE MIXPREC_LEVEL=${level})
  target_compile_options(${target}_${level} PRIVATE ${ARGN})
  set_target_properties(${target}_${level} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  mixprec_exact_arithmetic(${target}_${level})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${level}>)
endfunction()

function(mixprec_add_levels target)
  mixprec_add_level(${target} plain)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    return()
  endif()
  set(avx2 -mavx2 -mbmi -mbmi2 -mfma -mf16c)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd)
  check_cxx_compiler_flag("-mavx2 -mfma -mf16c" MIXPREC_COMPILES_AVX2)
  if(MIXPREC_COMPILES_AVX2)
    mixprec_add_level(${target} avx2 ${avx2})
    target_compile_definitions(${target} PRIVATE MIXPREC_HAS_AVX2)
  endif()
  check_cxx_compiler_flag("-mavx512f -mavx512bw -mavx512dq -mprefer-vector-width=512" MIXPREC_COMPILES_AVX512)
  if(MIXPREC_COMPILES_AVX512)
    # GCC 12 finds uninitialized values in its own header of these intrinsics (GCC bug 105593).
    mixprec_add_level(${target} avx512 ${avx512} -mprefer-vector-width=512 -Wno-maybe-uninitialized)
    target_compile_definitions(${target} PRIVATE MIXPREC_HAS_AVX512)
  endif()
endfunction()
