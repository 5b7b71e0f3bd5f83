// The part of a flight that puts work on streams: copies, ops with their events, the small-batch op.
#include "base/clock.hpp"
#include "runtime/execute/flight.hpp"
#include "runtime/execute/input_ranges.hpp"

namespace dpi {

namespace {

// Up to here a kernel that reads across the bus takes no longer than the copy engine, beside what starts
// either, and is a node of the graph; the scores go back by the same way. An H200, us without the empty
// kernel's or graph's round trip: 320 KiB 8.5 and 7.9, 1 MiB 22.8 and 21.3; 16 MiB 331 and 307 (tests/gpu).
constexpr int64_t kFetchBytes = 1 << 20;
constexpr size_t kMostRanges = 96;

bool reads_tables(const PlanOp& op) { return !op.tables.empty(); }

}  // namespace

/// Lists the ranges of the input as a side effect: copy_input and fetch_input take them from there.
InputWay Flight::input_way(const InputMap& map, const ResolvedRows& rows) {
  list_input_ranges(engine_.schema(), map, rows, &ranges_);
  if (copies_ || (engine_.caps().flags & DPI_BACKEND_FETCH) == 0 || ranges_.size() > kMostRanges)
    return InputWay::kCopied;
  int64_t bytes = 0;
  for (const dpi_fetch_range& p : ranges_) bytes += p.count_at < 0 ? p.bytes : 0;
  if (bytes > kFetchBytes) return InputWay::kCopied;
  return engine_.small_batch_in_place() && runs_small_batch(rows) ? InputWay::kInPlace : InputWay::kFetched;
}

Status Flight::copy_input() {
  for (const dpi_fetch_range& p : ranges_) {
    const int64_t bytes = range_bytes(p, memory_.staging);
    if (bytes == 0) continue;
    dpi_backend_error err{};
    const int32_t code = engine_.api().copy_in(streams_[0], memory_.input + p.offset,
                                               memory_.staging + p.offset, static_cast<size_t>(bytes), &err);
    DPI_RETURN_IF_ERROR(backend_status(code, err, "copy in"));
  }
  return {};
}

Status Flight::fetch_input() {
  if (ranges_.empty()) return {};
  dpi_backend_error err{};
  return backend_status(engine_.api().fetch_in(streams_[0], memory_.input, memory_.staging, ranges_.data(),
                                               static_cast<int32_t>(ranges_.size()), &err),
                        err, "fetch");
}

Status Flight::copy_scores(int64_t rows) {
  dpi_backend_error err{};
  const auto bytes = static_cast<size_t>(2 * rows * engine_.heads()) * sizeof(float);
  return backend_status(engine_.api().copy_out(streams_[0], host_out_, device_out_, bytes, &err), err,
                        "copy out");
}

Status Flight::record(int32_t event, int32_t stream, const char* what) {
  dpi_backend_error err{};
  return backend_status(engine_.api().event_record(events_[event], streams_[stream], &err), err, what);
}

Status Flight::wait(int32_t event, int32_t stream, const char* what) {
  dpi_backend_error err{};
  return backend_status(engine_.api().event_wait(events_[event], streams_[stream], &err), err, what);
}

Status Flight::launch_op(size_t i, dpi_backend_error* err) {
  const PlanOp& op = engine_.plan().ops[i];
  dpi_backend_stream* stream = streams_[op.stream];
  for (const int32_t e : op.waits) DPI_RETURN_IF_ERROR(wait(e, op.stream, op.name.c_str()));
  if (timeline_.on()) DPI_RETURN_IF_ERROR(timeline_.mark_start(i, stream));
  const dpi_op_call& call = ops_->call(i);
  if (users_ != nullptr && users_->has(i)) {
    users_->give(i, call);
  } else if (crew_ != nullptr && call.checked != 0 && crew_->cuts(i, call.rows)) {
    crew_->run(i, call);
  } else {
    const int32_t code = engine_.api().enqueue(stream, engine_.op(i), &call, err);
    if (code != 0) return backend_status(code, *err, op.name);
    ops_->mark_checked(i);
  }
  if (users_ != nullptr) users_->keep(i, call);
  if (timeline_.on()) DPI_RETURN_IF_ERROR(timeline_.mark_end(i, stream));
  return op.records >= 0 ? record(op.records, op.stream, op.name.c_str()) : Status();
}

Status Flight::launch_ops() {
  const Plan& plan = engine_.plan();
  dpi_backend_error err{};
  if (timeline_.on()) DPI_RETURN_IF_ERROR(timeline_.mark_origin(streams_[0]));
  if (plan.start_event >= 0) DPI_RETURN_IF_ERROR(record(plan.start_event, 0, "start"));
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const uint64_t start = profile_ns_ != nullptr ? monotonic_ns() : 0;
    DPI_RETURN_IF_ERROR(launch_op(i, &err));
    if (stages_ != nullptr &&
        (i + 1 == plan.ops.size() || reads_tables(plan.ops[i + 1]) != reads_tables(plan.ops[i])))
      stages_->mark(reads_tables(plan.ops[i]) ? Stage::kLookup : Stage::kCompute);
    if (profile_ns_ != nullptr) (*profile_ns_)[i] += monotonic_ns() - start;
  }
  for (const int32_t e : plan.end_waits) DPI_RETURN_IF_ERROR(wait(e, 0, "end"));
  return {};
}

Status Flight::launch_small_batch() {
  dpi_backend_error err{};
  const auto& calls = ops_->calls();
  return backend_status(engine_.api().small_batch_enqueue(streams_[0], engine_.small_batch(), calls.data(),
                                                          static_cast<int32_t>(calls.size()), &err),
                        err, "small batch");
}

Status Flight::synchronize() {
  Status first;
  for (auto* s : streams_) {
    dpi_backend_error err{};
    const int32_t code = engine_.api().stream_synchronize(s, &err);
    if (code != 0 && first.ok()) first = backend_status(code, err, "synchronize");
  }
  return first;
}

}  // namespace dpi
