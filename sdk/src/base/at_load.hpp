/// Makes the first call of a function while the library is being loaded. Later, a child forked while another
/// thread is in the middle of that call would wait for that thread for ever.
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
