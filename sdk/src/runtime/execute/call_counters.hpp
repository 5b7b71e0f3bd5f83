// Counts of the calls on one context since it was made. The context's holder writes them, on cache lines that
// nobody else writes; any thread may read. A model's counts are the sum over its contexts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "runtime/execute/call_times.hpp"
#include "runtime/execute/counter_lines.hpp"
#include "runtime/execute/user_counts.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

/// Counts of one feature: from calls, and from raw rows while values were set.
struct FeatureSums : FeatureCounters {
  uint64_t unknown = 0;
  uint64_t unparsable = 0;
};

/// A reading: sums over contexts and raw rows. Every count only ever grows.
struct CounterSums {
  static constexpr size_t kCodes = 16;
  explicit CounterSums(size_t features) : by_feature(features) {}

  uint64_t calls = 0;
  uint64_t rows = 0;
  uint64_t nonfinite_rows = 0;   // with a score that is not finite
  uint64_t errors[kCodes] = {};  // by Code
  uint64_t waits = 0;            // for a context, a millisecond or more
  uint64_t longest_wait_ns = 0;
  uint64_t parked = 0;      // times that a call gave its place away while it waited for rows
  uint64_t parked_now = 0;  // calls that have done so now
  UserCounts users;         // of the user cache
  std::vector<FeatureSums> by_feature;
  /// One per device of the model, in their order, there from the start: adding up takes no memory, since a
  /// context that is freed adds what it counted.
  struct Device {
    int32_t index = 0;
    uint64_t calls = 0;
  };
  std::vector<Device> on;
  TimeSums times;
};

class CallCounters {
 public:
  explicit CallCounters(size_t features);

  /// By the holder of the context only.
  void add_call(int64_t rows, std::span<const FeatureCounters> met);
  void add_nonfinite_rows(int64_t rows) { counts_.add(kNonfinite, static_cast<uint64_t>(rows)); }
  void add_users(const UserCounts& n);
  void add_error(Code code) { counts_.add(kErrors + static_cast<size_t>(code), 1); }

  /// From any thread, also while a call runs.
  void add_to(CounterSums* sums) const;
  uint64_t calls() const { return counts_.get(kCalls); }

 private:
  static constexpr size_t kCalls = 0, kRows = 1, kNonfinite = 2, kUsers = 3, kErrors = 7,
                          kFeatures = kErrors + CounterSums::kCodes, kCauses = 4;  // of one feature

  size_t features_;
  CounterLines counts_;
};

}  // namespace dpi
