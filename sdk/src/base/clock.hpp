// The clock of deadlines and timings: CLOCK_MONOTONIC in nanoseconds.
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace dpi {

inline uint64_t monotonic_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// The time of day, in milliseconds of the epoch.
inline int64_t wall_clock_ms() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return int64_t{1000} * t.tv_sec + t.tv_nsec / 1'000'000;
}

/// The same moment for waits with a time limit; what the clock cannot hold (292 years) is its last moment.
inline std::chrono::steady_clock::time_point steady_time(uint64_t monotonic_ns) {
  const auto ns = static_cast<int64_t>(std::min<uint64_t>(monotonic_ns, INT64_MAX));
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

}  // namespace dpi
