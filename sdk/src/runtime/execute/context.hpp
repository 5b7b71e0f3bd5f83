// Scratch of one running call: flights in which its chunks are in flight, or on a backend in host memory one
// per thread (call_shares.hpp). One caller at a time; after creation a run allocates nothing and takes no
// lock but the pool's, when rows are shared out (on a device: after the first call of each batch bucket, and
// the first call of several chunks).
#pragma once

#include <memory>
#include <vector>

#include "runtime/execute/call_shares.hpp"
#include "runtime/execute/flight.hpp"

namespace dpi {

class Context {
 public:
  static Result<std::unique_ptr<Context>> create(const Engine& engine, int64_t max_rows, int64_t max_nnz);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Scores all rows of a checked batch, in chunks. out: [rows, heads]. as: as of CallShares::run.
  Status run(const Batch& batch, float* out, const RunControl& control, const WorkRows* as = nullptr);
  /// The same for rows that are packed already, at most as many as packed_rows() says: all of a block, or
  /// some. Counts nothing.
  Status run_packed(const PackedRows& packed, const RowRange& range, float* out, const RunControl& control);
  /// Rows that a context of this engine can run as one chunk.
  static int64_t packed_rows(const Engine& engine, int64_t max_rows);
  /// Counts of the last run, one per feature.
  const std::vector<FeatureCounters>& counters() const { return counters_; }

  /// Counts of the user cache, of the runs since the last call of this.
  UserCounts take_user_counts();

  /// Ids so far that a host tier did not have.
  uint64_t tier_misses() const;

  /// Nanoseconds spent in each op of the plan since enable_profile, in the first flight (host clock around
  /// enqueue; meaningful where enqueue executes, which while this is on one thread does).
  void enable_profile(bool on);
  const std::vector<uint64_t>& profile() const { return profile_ns_; }
  /// Op times of the last chunk; empty unless option debug.timestamps is on and the backend has timestamps.
  const std::vector<OpTime>& timeline() const { return flights_[0]->timeline().ops(); }
  /// Nodes of the graph that serves `rows` rows, one per line; "" when none was captured yet.
  std::string graph_text(int64_t rows) const { return flights_[0]->graph_text(rows); }

 private:
  explicit Context(const Engine& engine) : engine_(engine) {}
  Status run_chunks(const Batch& batch, float* out, const RunControl& control);
  size_t flights_for(const Batch& batch);
  void drop_all();
  bool any_busy() const;
  Status finish_all();

  const Engine& engine_;
  FlightSizes sizes_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::unique_ptr<CallShares> shares_;  // host memory
  std::vector<FeatureCounters> counters_;
  UserCounts users_taken_;
  std::vector<uint64_t> profile_ns_;
};

}  // namespace dpi
