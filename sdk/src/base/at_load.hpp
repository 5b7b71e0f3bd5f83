/// What a function makes on its first call, made while the library is being loaded: a child that is forked
/// while another thread is in the middle of a first call would wait for that thread for ever.
#pragma once

namespace dpi {

struct AtLoad {
  explicit AtLoad(void (*first_call)()) noexcept {
    try {
      first_call();
      made = true;
    } catch (...) {
      made = false;  // without memory for it: the next call is the first one
    }
  }
  bool made = false;
};

}  // namespace dpi
