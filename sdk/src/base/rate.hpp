// Bytes per second, kept by sleeping: background work that shall not crowd out what matters more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace dpi {

class Rate {
 public:
  explicit Rate(uint64_t bytes_per_second = 0) : rate_(bytes_per_second) {}  // 0 = any

  /// After `bytes` more: sleeps until so many may have come. go_on is asked every few milliseconds of it, and
  /// once in any case; what it says instead of yes ends the sleep. Time without bytes is not made up for: no
  /// burst follows it.
  Status keep(uint64_t bytes, const std::function<Status()>& go_on) {
    constexpr uint64_t kSlice = 20'000'000;
    if (rate_ == 0) return go_on();
    const auto takes = static_cast<uint64_t>(static_cast<double>(bytes) / static_cast<double>(rate_) * 1e9);
    uint64_t now = monotonic_ns();
    due_ = std::max(due_, now > takes ? now - takes : 0) + takes;
    for (; now < due_; now = monotonic_ns()) {
      DPI_RETURN_IF_ERROR(go_on());
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min(kSlice, due_ - now)));
    }
    return go_on();
  }

 private:
  uint64_t rate_;
  uint64_t due_ = 0;  // by the clock
};

}  // namespace dpi
