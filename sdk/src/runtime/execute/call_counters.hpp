// What the calls on one context counted since it was made: written by whoever holds the context, on cache
// lines that nobody else writes, read by whoever asks. A model's counts are the sum over its contexts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

/// A reading: sums over contexts. Every count only ever grows.
struct CounterSums {
  static constexpr size_t kCodes = 16;
  explicit CounterSums(size_t features) : by_feature(features) {}

  uint64_t calls = 0;
  uint64_t rows = 0;
  uint64_t errors[kCodes] = {};  // by Code
  uint64_t waits = 0;            // for a context, a millisecond or more
  uint64_t longest_wait_ns = 0;
  std::vector<FeatureCounters> by_feature;
};

class CallCounters {
 public:
  explicit CallCounters(size_t features);

  /// By the holder of the context only: one writer at a time, so a plain addition is enough.
  void add_call(int64_t rows, std::span<const FeatureCounters> met);
  void add_error(Code code) { add(kErrors + static_cast<size_t>(code), 1); }

  /// From any thread, also while a call runs.
  void add_to(CounterSums* sums) const;

 private:
  static constexpr size_t kCalls = 0, kRows = 1, kErrors = 2, kFeatures = kErrors + CounterSums::kCodes;
  static constexpr size_t kPerLine = 8;
  struct alignas(64) Line {
    std::atomic<uint64_t> n[kPerLine] = {};
  };

  std::atomic<uint64_t>& at(size_t i) const { return lines_[i / kPerLine].n[i % kPerLine]; }
  uint64_t get(size_t i) const { return at(i).load(std::memory_order_relaxed); }
  void add(size_t i, uint64_t n) const { at(i).store(get(i) + n, std::memory_order_relaxed); }

  size_t features_;
  std::unique_ptr<Line[]> lines_;
};

}  // namespace dpi
