// Arithmetic as the library means it, whatever the calling thread has set: to nearest, subnormals kept, no
// traps.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>

#include <cstdint>
#else
#include <cfenv>
#endif

namespace dpi {

/// From its construction to its end the thread computes in the default environment; then the caller's stands
/// again, with the flags of exceptions it had.
#if defined(__x86_64__)
/// Two words have a say: MXCSR in the arithmetic of float and double, x87's in how the C library reads
/// decimals. No long double is computed with, so x87's flags stay as they are.
class FloatEnvironment {
 public:
  FloatEnvironment() {
    if ((callers_ & ~kFlags) != kDefault) _mm_setcsr(kDefault);
    if (callers_x87_ != kDefaultX87) enter_x87();
  }
  ~FloatEnvironment() {
    _mm_setcsr(callers_);  // cheaper than looking whether it differs: 0.3 against 5 ns
    if (callers_x87_ != kDefaultX87) leave_x87();
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1F80, kFlags = 0x3F;
  static constexpr uint16_t kDefaultX87 = 0x37F;

  static uint16_t x87_control() {
    uint16_t word;
    __asm__ volatile("fnstcw %0" : "=m"(word));
    return word;
  }
  void enter_x87() {
    __asm__ volatile("fnstenv %0\n\tfnclex" : "=m"(x87_));  // cleared: a flag that has a trap would spring it
    __asm__ volatile("fldcw %0" : : "m"(kDefaultX87));
  }
  void leave_x87() { __asm__ volatile("fldenv %0" : : "m"(x87_)); }

  const unsigned callers_ = _mm_getcsr();
  const uint16_t callers_x87_ = x87_control();
  struct {
    uint32_t words[7];
  } x87_;  // the caller's, where it is not the default one
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
