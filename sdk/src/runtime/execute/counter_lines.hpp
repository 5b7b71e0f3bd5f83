// Counters with one writer at a time, on cache lines that nobody else writes, and any number of readers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace dpi {

class CounterLines {
 public:
  explicit CounterLines(size_t count) : lines_(std::make_unique<Line[]>((count + kPerLine - 1) / kPerLine)) {}

  /// One writer at a time, so a plain addition is enough.
  void add(size_t i, uint64_t n) const { at(i).store(get(i) + n, std::memory_order_relaxed); }
  /// From any thread, also while the writer adds.
  uint64_t get(size_t i) const { return at(i).load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kPerLine = 8;
  struct alignas(64) Line {
    std::atomic<uint64_t> n[kPerLine] = {};
  };
  std::atomic<uint64_t>& at(size_t i) const { return lines_[i / kPerLine].n[i % kPerLine]; }

  std::unique_ptr<Line[]> lines_;
};

}  // namespace dpi
