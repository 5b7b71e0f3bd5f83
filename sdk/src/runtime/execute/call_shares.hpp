// A call on a backend in host memory, shared out among threads: each runs the whole plan over rows of its
// own, in a flight of its own, so nobody waits for anybody between ops, and a thread's values stay in its
// caches. A row is computed as it would be alone, so the bits do not depend on the number of threads.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/execute/flight.hpp"

namespace dpi {

class CallShares {
 public:
  /// flights: made by the caller, one per share at most; they outlive this.
  CallShares(const Engine& engine, const FlightSizes& sizes, int64_t alone,
             const std::vector<std::unique_ptr<Flight>>& flights);

  /// Scores all rows of a checked batch; `only` shares at most. Adds to counters, one per feature. Answers as
  /// rows one after another would: of several faults with that of the first row. Allocates nothing.
  Status run(const Batch& batch, float* out, const RunControl& control, int32_t most,
             std::vector<FeatureCounters>* counters);

 private:
  struct Job;
  struct Share {
    Status status;
    std::vector<FeatureCounters> counters;
  };
  int32_t count_for(int64_t rows, int32_t most) const;
  static void run_share(void* job, int32_t share);
  Status run_rows(const Job& job, int32_t share, int64_t begin, int64_t end);

  const Engine& engine_;
  const FlightSizes& sizes_;
  int64_t alone_;  // rows of a chunk where each is its own user
  const std::vector<std::unique_ptr<Flight>>& flights_;
  std::vector<Share> shares_;
};

/// Whether a call has been cancelled or is past its deadline.
Status check_control(const RunControl& control);

}  // namespace dpi
