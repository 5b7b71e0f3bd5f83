// For tests of stores that are down: a tier whose breaker opens after three failures, and what its log says.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "store/tiered/cache_fixture.hpp"

namespace dpi::test {

inline constexpr uint64_t kMs = 1'000'000;

inline CacheOptions options_of(DownPolicy policy, LogSink* log = nullptr) {
  CacheOptions o = small_options();
  o.down.policy = policy;
  o.down.failures = 3;
  o.down.first_probe_ns = 20 * kMs;
  o.down.longest_probe_ns = 80 * kMs;
  o.log = log;
  return o;
}

inline bool comes(const std::function<bool()>& what) {
  const uint64_t end = monotonic_ns() + 20'000 * kMs;
  while (!what() && monotonic_ns() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return what();
}

/// What the log was told since the last look.
inline std::vector<std::string> lines(LogSink* log) {
  std::vector<std::string> all;
  std::string text;
  LogLevel level;
  while (log->poll(true, &text, &level)) all.push_back(text);
  return all;
}

}  // namespace dpi::test
