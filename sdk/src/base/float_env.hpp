// Arithmetic as the library means it, whatever the calling thread has set: to nearest, subnormals kept, no
// traps.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace dpi {

/// From its construction to its end the thread computes in the default environment; then the caller's stands
/// again, with the flags of exceptions it had. Where the caller's is the default already, reading it is all
/// that happens.
#if defined(__SSE__)
class FloatEnvironment {
 public:
  FloatEnvironment() {
    if (differs()) _mm_setcsr(kDefault);
  }
  ~FloatEnvironment() {
    if (differs()) _mm_setcsr(callers_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1F80, kFlags = 0x3F;
  bool differs() const { return (callers_ & ~kFlags) != kDefault; }
  const unsigned callers_ = _mm_getcsr();
};
#else
class FloatEnvironment {
 public:
  FloatEnvironment() {
    std::fegetenv(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&callers_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::fenv_t callers_;
};
#endif

}  // namespace dpi
