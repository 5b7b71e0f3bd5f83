/// What a function makes on its first call, made while the library is being loaded: a child that is forked
/// while another thread is in the middle of a first call would wait for that thread for ever. Without memory
/// for it, the first call is the first one.
#pragma once

namespace dpi {

struct AtLoad {
  template <class F>
  explicit AtLoad(F&& first_call) noexcept {
    try {
      first_call();
    } catch (...) {
    }
  }
};

}  // namespace dpi
