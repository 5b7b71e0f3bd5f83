// Calls that an endpoint has answered, over all the versions it had: a model's own counts go with it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/execute/call_counters.hpp"
#include "runtime/execute/slow_calls.hpp"

namespace dpi {

class Model;

/// Sums never fall. Thread-safe.
class EndpointCounts {
 public:
  struct Sums {
    uint64_t calls = 0, rows = 0, nonfinite_rows = 0, waits = 0;
    uint64_t errors[CounterSums::kCodes] = {};  // by Code
    TimeSums times;
  };

  /// The share of one version.
  class OfVersion {
   public:
    explicit OfVersion(std::shared_ptr<EndpointCounts> all) : all_(std::move(all)) {}
    /// Adds what `model` has counted since the last time. Without memory it is added the next time.
    void settle(const Model& model) noexcept;
    /// For the last time: keeps its slow calls too.
    void close(const Model& model) noexcept;

   private:
    const std::shared_ptr<EndpointCounts> all_;
    Sums counted_;
  };

  Sums sums() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return sums_;
  }
  /// Slow calls of versions that were closed.
  std::vector<SlowCalls::Text> slow() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return slow_;
  }

 private:
  mutable std::mutex mutex_;  // of all versions' too
  Sums sums_;
  std::vector<SlowCalls::Text> slow_;
};

}  // namespace dpi
