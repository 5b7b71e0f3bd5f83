// One place where a chunk of a call can be in flight: buffers, streams, events, captured graphs. A context
// has one flight, or a few when a call of many chunks is to overlap copying with computing. One thread at a
// time; after creation nothing is allocated but a graph per shape of call (item bucket, shared bucket, with
// or without a shared part), captured at its second use.
//
//   begin: resolve ids into staging -> copy or fetch the input -> ops -> copy the scores, all asynchronous
//   (InputWay: small batches have the first and the last in their ops)
//   finish: wait, hand the scores to the caller
// With host memory begin does all of it, and ops write straight to the caller.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/engine/engine.hpp"
#include "runtime/engine/flight_sizes.hpp"
#include "runtime/execute/bound_ops.hpp"
#include "runtime/execute/crew.hpp"
#include "runtime/execute/flight_graphs.hpp"
#include "runtime/execute/timeline.hpp"
#include "runtime/execute/user_state.hpp"
#include "runtime/request/request.hpp"
#include "runtime/request/stage_times.hpp"

namespace dpi {

/// The arguments of begin beside the rows. out and logits are the caller's memory: [rows, heads]; logits may
/// be null.
struct FlightCall {
  float* out = nullptr;
  float* logits = nullptr;
  uint64_t deadline_ns = 0;
  const volatile int32_t* cancel = nullptr;
  RowWait* row_wait = nullptr;
  StageTimes* stages = nullptr;         // of a call that is timed, on the thread that times it; null = nobody
  FeatureCounters* counters = nullptr;  // one per feature
  Crew* crew = nullptr;                 // who else works on its ops (host memory); null = nobody
  /// Chunks that the same thread has under way, null when there is none: what they hold of a store this one
  /// may need. finish() ends them.
  struct Others {
    Status (*finish)(void* self) = nullptr;
    void* self = nullptr;
  } others;
};

/// Rows of one request or of several in a block of `map`.
struct PackedRows {
  const InputMap* map = nullptr;
  std::byte* block = nullptr;  // 64-byte aligned
  ResolvedRows rows;
};

class Flight {
 public:
  /// sizes must outlive the flight.
  static Result<std::unique_ptr<Flight>> create(const Engine& engine, const FlightSizes& sizes);
  ~Flight();
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;

  /// The flight must be idle, and is idle again after a failure. The caller's memory is then untouched, but
  /// with host memory ops before the one that failed may have written part of the chunk.
  Status begin(const Batch& batch, const RowRange& range, const FlightCall& call);
  /// The same of rows that lie packed in a block of the caller's, which stays until the flight is idle. With
  /// host memory all rows of a block are read where they lie; else they are copied first.
  Status begin_packed(const PackedRows& packed, const RowRange& range, const FlightCall& call);
  bool busy() const { return busy_; }
  /// Waits for what begin started and writes the caller's out and logits. The flight is idle afterwards.
  Status finish();
  /// Waits without writing anything, after another flight's failure.
  void drop();

  Timeline& timeline() { return timeline_; }
  /// By stream; stays where it is.
  const std::vector<std::byte*>& scratch() const { return memory_.scratch; }
  /// Host nanoseconds per op of the plan, added to when not null (enqueue executes there).
  void set_profile(std::vector<uint64_t>* ns) { profile_ns_ = ns; }
  /// Lines of the graph that serves `rows` rows, "" when none was captured.
  std::string graph_text(int64_t rows) const;
  /// Ids so far that a host tier did not have.
  uint64_t tier_misses() const { return reader_->misses(); }
  UserCounts user_counts() const { return users_ != nullptr ? users_->counts() : UserCounts(); }

 private:
  Flight(const Engine& engine, const FlightSizes& sizes)
      : engine_(engine),
        sizes_(sizes),
        host_(engine.host_memory()),
        copies_(engine.options().fetch == "copy"),
        graphs_(engine) {}
  Status allocate();
  Status create_streams();
  Status run_host(const Batch& batch, const RowRange& range, const FlightCall& call);
  Status run_ops(const InputMap& map, const ResolvedRows& rows, const FlightCall& call);
  Status run_block(const PackedRows& packed, const FlightCall& call);
  Status begin_resolved(const InputMap& map, const ResolvedRows& rows, const FlightCall& call);
  Status in_packed(Status s, const PackedRows& packed) const;
  Status acquire_tables(const InputMap& map, const ResolvedRows& rows, const FlightCall& call);
  Status in_request(Status s, const Batch& batch, const RowRange& range) const;
  void overlay_rows(const InputMap& map, const ResolvedRows& rows);
  Status start(const InputMap& map, const ResolvedRows& rows);
  Status start_graph(const InputMap& map, const ResolvedRows& padded);
  void capture(const ResolvedRows& padded, FlightGraphs::Entry* entry);
  void copy_logits(const float* from);
  Status enqueue_all(const ResolvedRows& rows, InputWay way);
  bool runs_small_batch(const ResolvedRows& rows) const;
  InputWay input_way(const InputMap& map, const ResolvedRows& rows);
  InputWay bind_ops(const InputMap& map, const ResolvedRows& rows);
  Status copy_input();
  Status fetch_input();
  Status copy_scores(int64_t rows);
  Status launch_ops();
  Status launch_small_batch();
  Status launch_op(size_t i, dpi_backend_error* err);
  [[gnu::noinline]] Status record(int32_t event, int32_t stream, const char* what);
  [[gnu::noinline]] Status wait(int32_t event, int32_t stream, const char* what);
  Status synchronize();
  Status reset_faults();
  Status check_faults();

  const Engine& engine_;
  const FlightSizes& sizes_;
  const bool host_;
  const bool copies_;  // all input, whatever its size
  FlightMemory memory_;
  std::unique_ptr<StoreReader> reader_;  // holds a lease from begin to the end of what it started
  HeldCount reader_held_;
  float* device_out_ = nullptr;  // scores then logits of a bucket; null with host memory
  float* host_out_ = nullptr;
  float* spare_logits_ = nullptr;  // where logits go that nobody asked for (host memory)
  std::vector<dpi_backend_stream*> streams_;
  std::vector<dpi_backend_event*> events_;
  std::unique_ptr<BoundOps> ops_;
  std::unique_ptr<UserState> users_;  // null without a user cache
  FlightGraphs graphs_;
  Timeline timeline_;
  std::vector<dpi_fetch_range> ranges_;
  std::vector<uint64_t>* profile_ns_ = nullptr;
  StageTimes* stages_ = nullptr;  // of a chunk in host memory
  Crew* crew_ = nullptr;          // of the chunk in flight

  bool busy_ = false;
  FlightCall call_;          // of the chunk in flight
  int64_t call_rows_ = 0;    // its rows
  int64_t padded_rows_ = 0;  // rows between its scores and its logits
};

}  // namespace dpi
