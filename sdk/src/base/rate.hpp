// Bytes per second, kept by sleeping: background work that shall not crowd out what matters more.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/status.hpp"

namespace dpi {

class Rate {
 public:
  /// How time passes: for tests, which do not wait.
  struct Time {
    std::function<uint64_t()> now = monotonic_ns;
    std::function<void(uint64_t)> sleep = [](uint64_t ns) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
    };
  };

  explicit Rate(uint64_t bytes_per_second = 0) : rate_(bytes_per_second) {}  // 0 = any
  Rate(uint64_t bytes_per_second, Time time) : rate_(bytes_per_second), time_(std::move(time)) {}

  /// The size of one piece of work that can be cut anywhere: a tenth of a second's bytes, at most `most`.
  uint64_t piece(uint64_t most) const {
    return rate_ == 0 ? most : std::min(most, std::max<uint64_t>(1, rate_ / 10));
  }

  /// After `bytes` more: sleeps until so many may have come. go_on is asked every few milliseconds of it, and
  /// once in any case; what it says instead of yes ends the sleep. Time without bytes is not made up for: no
  /// burst follows it.
  Status keep(uint64_t bytes, const std::function<Status()>& go_on) {
    constexpr uint64_t kSlice = 20'000'000;
    if (rate_ == 0) return go_on();
    const auto takes = static_cast<uint64_t>(static_cast<double>(bytes) / static_cast<double>(rate_) * 1e9);
    uint64_t now = time_.now();
    due_ = std::max(due_, now > takes ? now - takes : 0) + takes;
    for (; now < due_; now = time_.now()) {
      DPI_RETURN_IF_ERROR(go_on());
      time_.sleep(std::min(kSlice, due_ - now));
    }
    return go_on();
  }

  uint64_t now() const { return time_.now(); }

 private:
  uint64_t rate_;
  uint64_t due_ = 0;  // by the clock
  Time time_;
};

}  // namespace dpi
