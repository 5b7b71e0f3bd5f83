// A call on a backend in host memory, shared out among threads: each runs the whole plan over rows of its
// own, in a flight of its own, so nobody waits for anybody between ops, and a thread's values stay in its
// caches. Calls of few rows have the columns of their large products shared out instead (crew.hpp). A row is
// computed as it would be alone, so the bits do not depend on the number of threads.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/engine/host_flights.hpp"
#include "runtime/execute/flight.hpp"

namespace dpi {

class CallShares {
 public:
  /// flights: made by the caller, one per share at most; they outlive this.
  CallShares(const Engine& engine, const FlightSizes& sizes, const HostFlights& threads,
             const std::vector<std::unique_ptr<Flight>>& flights);

  /// Scores all rows of a checked batch; `most` threads at most. Adds to counters, one per feature. Answers
  /// as rows one after another would: of several faults with that of the first row, and with nothing written
  /// behind it. Allocates nothing. as: from which sizes on calls are shared out, null = the engine's.
  Status run(const Batch& batch, float* out, const RunControl& control, int32_t most,
             std::vector<FeatureCounters>* counters, const WorkRows* as = nullptr);

 private:
  struct Job;
  struct Share {
    Status status;
    std::vector<FeatureCounters> counters;
    std::vector<float> out, logits;  // of a round, but for the first share, which writes to the caller
  };
  WorkRows sizes_for(int64_t rows) const;
  void share_out(Job& job, int32_t most, const WorkRows* as);
  void run_rounds(Job& job);
  void clear_counters(int32_t shares);
  static void run_share(void* job, int32_t share);
  static void join_crew(void* job, int32_t member);
  Status run_rows(const Job& job, int32_t share, int64_t begin, int64_t end);

  const Engine& engine_;
  const FlightSizes& sizes_;
  const HostFlights threads_;
  const std::vector<std::unique_ptr<Flight>>& flights_;
  std::vector<Share> shares_;
  Crew crew_;
};

/// An error if a call has been cancelled or is past its deadline.
Status check_control(const RunControl& control);

}  // namespace dpi
