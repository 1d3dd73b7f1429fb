// The CPU's flush-to-zero and denormals-are-zero modes would change results (torch.set_flush_denormal, or a
// host that enables them): switched off while a kernel runs, and put back.
#pragma once

#include <cstdint>

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace mixprec {

class ExactDenormals {
 public:
#if defined(__SSE__) || defined(_M_X64)
  ExactDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ & ~0x8040u); }
  ~ExactDenormals() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  ExactDenormals() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(saved_ & ~(std::uint64_t{1} << 24)));
  }
  ~ExactDenormals() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }
#endif
  ExactDenormals(const ExactDenormals&) = delete;
  ExactDenormals& operator=(const ExactDenormals&) = delete;

 private:
#if defined(__SSE__) || defined(_M_X64)
  unsigned saved_;
#elif defined(__aarch64__)
  std::uint64_t saved_;
#endif
};

}  // namespace mixprec
