#include "runtime/execute/flight.hpp"

#include <algorithm>
#include <cstring>

#include "backend/abi/batch_bucket.hpp"
#include "base/clock.hpp"
#include "ops/call_faults.h"
#include "runtime/execute/input_ranges.hpp"
#include "runtime/request/overlaid_ids.hpp"

namespace dpi {

namespace {

constexpr size_t kAtLeast = 64;  // allocations of nothing still give an address
constexpr int64_t kFetchAlign = 16;

template <class T>
Status allocate_memory(const Engine& e, size_t bytes, int32_t kind, T** out, const char* what) {
  void* p = nullptr;
  dpi_backend_error err{};
  const int32_t code = e.api().alloc(e.device(), std::max(bytes, kAtLeast), kind, &p, &err);
  *out = static_cast<T*>(p);
  return backend_status(code, err, what);
}

void mark(const FlightCall& call, Stage stage) {
  if (call.stages != nullptr) call.stages->mark(stage);
}

/// Gives a lease back, whatever was thrown.
class LeaseEnd {
 public:
  explicit LeaseEnd(StoreReader& reader) : reader_(reader) {}
  ~LeaseEnd() { reader_.release(); }
  LeaseEnd(const LeaseEnd&) = delete;
  LeaseEnd& operator=(const LeaseEnd&) = delete;

 private:
  StoreReader& reader_;
};

/// Entries of the user cache go back, whatever was thrown.
class UsersEnd {
 public:
  explicit UsersEnd(UserState* users) : users_(users) {}
  ~UsersEnd() {
    if (users_ != nullptr) users_->end(false);  // nothing after a regular end
  }
  UsersEnd(const UsersEnd&) = delete;
  UsersEnd& operator=(const UsersEnd&) = delete;

 private:
  UserState* const users_;
};

ReaderLimits limits_of(const Engine& e, const FlightSizes& sizes) {
  int64_t most = 0;  // a smaller bucket may have more ids when bags are not limited
  for (const InputMap& map : sizes.maps) most = std::max(most, most_placed(e.schema(), map));
  return {most, static_cast<int64_t>(e.plan().placements.size())};
}

}  // namespace

Result<std::unique_ptr<Flight>> Flight::create(const Engine& engine, const FlightSizes& sizes) {
  std::unique_ptr<Flight> s(new Flight(engine, sizes));
  DPI_RETURN_IF_ERROR(s->allocate());
  DPI_RETURN_IF_ERROR(s->create_streams());
  if (engine.options().timestamps && !s->host_) {
    DPI_RETURN_IF_ERROR(allocate_memory(engine, sizeof(dpi_call_faults), DPI_MEMORY_OUTPUT,
                                        &s->memory_.faults, "counters of faults"));
    DPI_RETURN_IF_ERROR(s->reset_faults());
  }
  DPI_ASSIGN_OR_RETURN(s->reader_, engine.store().open_reader(limits_of(engine, sizes)));
  s->reader_held_ = HeldCount(engine.options().held, s->reader_->bytes());
  s->ops_ = std::make_unique<BoundOps>(engine, s->memory_, *s->reader_);
  if (engine.user_cache() != nullptr) s->users_ = std::make_unique<UserState>(engine, sizes.forms.users());
  s->ranges_.reserve(8 + 3 * sizes.largest().sequences.size());
  if (engine.options().timestamps && !s->host_) DPI_RETURN_IF_ERROR(s->timeline_.create(engine));
  return s;
}

Status Flight::allocate() {
  int64_t input = 0;  // a smaller bucket's block may be the larger one when bags are not limited
  for (const InputMap& l : sizes_.maps) input = std::max(input, l.bytes);
  const auto input_bytes = static_cast<size_t>(input + kFetchAlign);
  const auto scores = static_cast<size_t>(sizes_.forms.rows() * engine_.heads()) * sizeof(float);
  memory_.plan = &sizes_.forms.all().front().memory;
  DPI_RETURN_IF_ERROR(
      allocate_memory(engine_, input_bytes, DPI_MEMORY_STAGING, &memory_.staging, "input staging"));
  DPI_RETURN_IF_ERROR(allocate_memory(engine_, static_cast<size_t>(sizes_.forms.arena_bytes()),
                                      DPI_MEMORY_ARENA, &memory_.arena, "arena"));
  if (host_) {
    memory_.input = memory_.staging;
    return allocate_memory(engine_, scores, DPI_MEMORY_ARENA, &spare_logits_, "logits");
  }
  DPI_RETURN_IF_ERROR(allocate_memory(engine_, input_bytes, DPI_MEMORY_INPUT, &memory_.input, "input"));
  DPI_RETURN_IF_ERROR(allocate_memory(engine_, 2 * scores, DPI_MEMORY_OUTPUT, &device_out_, "scores"));
  return allocate_memory(engine_, 2 * scores, DPI_MEMORY_STAGING, &host_out_, "score staging");
}

Status Flight::create_streams() {
  const Plan& plan = engine_.plan();
  std::vector<size_t> scratch_bytes(static_cast<size_t>(plan.n_streams), 0);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    auto& bytes = scratch_bytes[plan.ops[i].stream];
    const int64_t rows = sizes_.rows_of(space_of(plan, plan.ops[i]));
    bytes = std::max(bytes, engine_.api().op_scratch_bytes(engine_.op(i), rows));
  }
  const int32_t priority = engine_.options().tiers.gpu_bytes > 0 ? 1 : 0;  // above who changes the cache
  dpi_backend_error err{};
  for (int32_t s = 0; s < plan.n_streams; ++s) {
    streams_.push_back(nullptr);
    memory_.scratch.push_back(nullptr);
    DPI_RETURN_IF_ERROR(backend_status(
        engine_.api().stream_create(engine_.device(), priority, &streams_.back(), &err), err, "stream"));
    DPI_RETURN_IF_ERROR(
        allocate_memory(engine_, scratch_bytes[s], DPI_MEMORY_ARENA, &memory_.scratch.back(), "scratch"));
  }
  for (int32_t i = 0; i < plan.n_events; ++i) {
    events_.push_back(nullptr);
    DPI_RETURN_IF_ERROR(
        backend_status(engine_.api().event_create(engine_.device(), &events_.back(), &err), err, "event"));
  }
  return {};
}

Flight::~Flight() {
  if (busy_) drop();
  const auto& api = engine_.api();
  dpi_backend_device* dev = engine_.device();
  const auto release = [&](void* p, int32_t kind) {
    if (p != nullptr) api.free(dev, p, kind);
  };
  for (auto* s : streams_) {
    if (s != nullptr) api.stream_destroy(dev, s);
  }
  for (auto* e : events_) {
    if (e != nullptr) api.event_destroy(dev, e);
  }
  for (auto* s : memory_.scratch) release(s, DPI_MEMORY_ARENA);
  if (memory_.input != memory_.staging) release(memory_.input, DPI_MEMORY_INPUT);
  release(memory_.staging, DPI_MEMORY_STAGING);
  release(memory_.arena, DPI_MEMORY_ARENA);
  release(spare_logits_, DPI_MEMORY_ARENA);
  release(device_out_, DPI_MEMORY_OUTPUT);
  release(memory_.faults, DPI_MEMORY_OUTPUT);
  release(host_out_, DPI_MEMORY_STAGING);
}

// ---- a chunk

Status Flight::run_host(const Batch& batch, const RowRange& range, const FlightCall& call) {
  const InputMap& map = sizes_.largest();
  ResolvedRows rows;
  DPI_RETURN_IF_ERROR(
      resolve_rows(engine_.schema(), map, batch, range, memory_.staging, call.counters, &rows));
  mark(call, Stage::kResolve);
  Status acquired = acquire_tables(map, rows, call);
  mark(call, Stage::kFetch);
  if (!acquired.ok()) return in_request(std::move(acquired), batch, range);
  return run_ops(map, rows, call);
}

/// With host memory, what the block in staging says, once its rows are leased.
Status Flight::run_ops(const InputMap& map, const ResolvedRows& rows, const FlightCall& call) {
  const LeaseEnd lease_end(*reader_);
  const UsersEnd users_end(users_.get());
  memory_.plan = &sizes_.memory_for(rows.rows);
  ops_->bind(map, rows, memory_.input, call.out, call.logits != nullptr ? call.logits : spare_logits_);
  crew_ = call.crew;
  stages_ = call.stages;
  if (users_ != nullptr) users_->begin(map, rows, memory_.input);  // by the rows' own numbers
  overlay_rows(map, rows);
  Status ran = launch_ops();
  Status done = synchronize();
  if (users_ != nullptr) users_->end(ran.ok() && done.ok());
  return ran.ok() ? done : ran;
}

/// Ops read the block where it lies.
Status Flight::run_block(const PackedRows& packed, const FlightCall& call) {
  std::byte* const own = memory_.staging;
  memory_.staging = memory_.input = packed.block;
  Status ran = acquire_tables(*packed.map, packed.rows, call);
  mark(call, Stage::kFetch);
  if (ran.ok()) {
    ran = run_ops(*packed.map, packed.rows, call);
  } else {
    ran = in_packed(std::move(ran), packed);
  }
  memory_.staging = memory_.input = own;
  ops_->forget_block();
  return ran;
}

Status Flight::begin_packed(const PackedRows& packed, const RowRange& range, const FlightCall& call) {
  if (host_ && range.rows() == packed.rows.rows.item) return run_block(packed, call);
  const InputMap& map = host_ ? sizes_.largest()
                              : sizes_.map_for(std::max(range.rows(), range.shared_end - range.shared_begin));
  ResolvedRows rows;
  copy_packed(engine_.schema(), *packed.map, packed.block, packed.rows, range, map, memory_.staging, &rows);
  mark(call, Stage::kResolve);
  Status acquired = acquire_tables(map, rows, call);
  mark(call, Stage::kFetch);
  if (!acquired.ok()) return in_packed(std::move(acquired), packed);
  return host_ ? run_ops(map, rows, call) : begin_resolved(map, rows, call);
}

Status Flight::begin(const Batch& batch, const RowRange& range, const FlightCall& call) {
  if (host_) return run_host(batch, range, call);
  // a shared part may have rows that no item uses
  const InputMap& map = sizes_.map_for(std::max(range.rows(), range.shared_end - range.shared_begin));
  ResolvedRows rows;
  DPI_RETURN_IF_ERROR(
      resolve_rows(engine_.schema(), map, batch, range, memory_.staging, call.counters, &rows));
  mark(call, Stage::kResolve);
  Status acquired = acquire_tables(map, rows, call);
  mark(call, Stage::kFetch);
  if (!acquired.ok()) return in_request(std::move(acquired), batch, range);
  return begin_resolved(map, rows, call);
}

/// On a device, what the block in staging says, once its rows are leased.
Status Flight::begin_resolved(const InputMap& map, const ResolvedRows& rows, const FlightCall& call) {
  Status started;
  try {
    started = start(map, rows);
  } catch (...) {
    drop();
    throw;
  }
  if (!started.ok()) {
    static_cast<void>(synchronize());  // the device may still read what the next chunk will write
    reader_->release();
    return started;
  }
  mark(call, Stage::kCompute);
  busy_ = true;
  call_ = call;
  call_rows_ = rows.rows.item;
  return {};
}

/// A store that is full of what this thread's own chunks hold gets it back before it is asked to wait.
Status Flight::acquire_tables(const InputMap& map, const ResolvedRows& rows, const FlightCall& call) {
  const bool alone = call.others.finish == nullptr;
  Status acquired = ops_->acquire_tables(map, rows, {call.deadline_ns, call.cancel, alone, call.row_wait});
  if (alone || acquired.code() != Code::kOutOfMemory) return acquired;
  DPI_RETURN_IF_ERROR(call.others.finish(call.others.self));
  return ops_->acquire_tables(map, rows, {call.deadline_ns, call.cancel, true, call.row_wait});
}

/// Translates an error about a row of the block to the request's row.
Status Flight::in_request(Status s, const Batch& batch, const RowRange& range) const {
  if (s.row() < 0) return s;
  const FeatureSpec& f = engine_.schema().features[static_cast<size_t>(s.feature())].spec;
  const bool shared = batch.has_shared() && f.space == RowSpace::kShared;
  const int64_t row = s.row() + (shared ? range.shared_begin : range.begin), feature = s.feature();
  return std::move(s)
      .within((shared ? "shared row " : "row ") + std::to_string(row) + ", feature '" + f.name + "'")
      .at(row, feature);
}

/// The same for rows of a caller's block, which count from the first that was to run.
Status Flight::in_packed(Status s, const PackedRows& packed) const {
  if (s.row() < 0) return s;
  const FeatureSpec& f = engine_.schema().features[static_cast<size_t>(s.feature())].spec;
  const bool shared = packed.rows.has_map && f.space == RowSpace::kShared;
  const std::string place = (shared ? "shared row " : "row ") + std::to_string(s.row());
  return std::move(s).within(place + ", feature '" + f.name + "'");
}

/// After the tables have been acquired: those in tiers are asked by the rows' own numbers.
void Flight::overlay_rows(const InputMap& map, const ResolvedRows& rows) {
  for (const Engine::Overlaid& o : engine_.overlaid()) {
    const RowOverlay& overlay = o.version->overlay();
    for (const int32_t f : o.group.features)
      overlay_ids(engine_.schema(), map, f, rows, overlay, memory_.staging);
  }
}

Status Flight::start(const InputMap& map, const ResolvedRows& rows) {
  if (engine_.uses_graphs() && !timeline_.on()) {
    ResolvedRows padded = rows;
    padded.rows.item = map.max_rows;
    padded.rows.shared = rows.has_map ? bucket_of(rows.rows.shared, map.max_rows) : padded.rows.item;
    pad_rows(engine_.schema(), map, rows, padded, memory_.staging);
    overlay_rows(map, padded);
    padded_rows_ = padded.rows.item;
    return start_graph(map, padded);
  }
  overlay_rows(map, rows);
  padded_rows_ = rows.rows.item;
  const InputWay way = bind_ops(map, rows);
  if (way == InputWay::kCopied) DPI_RETURN_IF_ERROR(copy_input());
  return enqueue_all(rows, way);
}

InputWay Flight::bind_ops(const InputMap& map, const ResolvedRows& rows) {
  const InputWay way = input_way(map, rows);
  memory_.plan = &sizes_.memory_for(rows.rows);
  float* const out = way == InputWay::kCopied ? device_out_ : host_out_;
  std::byte* const block = way == InputWay::kInPlace ? memory_.staging : memory_.input;
  ops_->bind(map, rows, block, out, out + rows.rows.item * engine_.heads());
  return way;
}

/// The first call of a shape runs op by op (a kernel's first launch may load code, which a capture forbids),
/// the second is captured, the others replay. A call whose capture fails runs op by op, and the next one of
/// the shape tries again.
Status Flight::start_graph(const InputMap& map, const ResolvedRows& padded) {
  FlightGraphs::Entry* entry =
      graphs_.find(padded.rows.item, padded.rows.shared, padded.has_map, ops_->table_addresses());
  if (entry->graph == nullptr) {
    entry->way = bind_ops(map, padded);
    if (entry->ran && entry->failures < FlightGraphs::kMostFailures) capture(padded, entry);
  } else if (entry->way == InputWay::kCopied) {
    list_input_ranges(engine_.schema(), map, padded, &ranges_);
  }
  if (entry->way == InputWay::kCopied) DPI_RETURN_IF_ERROR(copy_input());
  entry->ran = true;
  if (entry->graph == nullptr) return enqueue_all(padded, entry->way);
  dpi_backend_error err{};
  return backend_status(engine_.api().graph_launch(entry->graph, streams_[0], &err), err, "graph");
}

/// Leaves the entry without a graph when the backend cannot capture it: the call then goes on without.
void Flight::capture(const ResolvedRows& padded, FlightGraphs::Entry* entry) {
  dpi_backend_error err{};
  const auto& api = engine_.api();
  Status recorded = backend_status(api.capture_begin(streams_[0], &err), err, "capture");
  Status ended;
  if (recorded.ok()) {
    recorded = enqueue_all(padded, entry->way);
    ended = backend_status(api.capture_end(streams_[0], &entry->graph, &err), err, "capture");
  }
  if (recorded.ok() && ended.ok()) return engine_.capture_succeeded();
  if (entry->graph != nullptr) api.graph_free(engine_.device(), entry->graph);
  entry->graph = nullptr;
  engine_.capture_failed(recorded.ok() ? ended : recorded, ++entry->failures == FlightGraphs::kMostFailures);
}

bool Flight::runs_small_batch(const ResolvedRows& rows) const {
  return engine_.small_batch() != nullptr && rows.rows.item <= engine_.small_batch_max_rows() &&
         !timeline_.on();
}

Status Flight::enqueue_all(const ResolvedRows& rows, InputWay way) {
  if (way == InputWay::kFetched) DPI_RETURN_IF_ERROR(fetch_input());
  if (runs_small_batch(rows)) {
    DPI_RETURN_IF_ERROR(launch_small_batch());
  } else {
    DPI_RETURN_IF_ERROR(launch_ops());
  }
  return way == InputWay::kCopied ? copy_scores(rows.rows.item) : Status();
}

Status Flight::finish() {
  if (!busy_) return {};
  busy_ = false;
  dpi_backend_error err{};  // every stream ends in the first
  Status done = backend_status(engine_.api().stream_synchronize(streams_[0], &err), err, "synchronize");
  if (!done.ok()) static_cast<void>(synchronize());
  reader_->release();
  mark(call_, Stage::kCompute);
  if (!done.ok()) return done;
  if (timeline_.on()) DPI_RETURN_IF_ERROR(timeline_.collect());
  if (memory_.faults != nullptr) DPI_RETURN_IF_ERROR(check_faults());
  const int64_t heads = engine_.heads();
  const auto bytes = static_cast<size_t>(call_rows_ * heads) * sizeof(float);
  std::memcpy(call_.out, host_out_, bytes);
  if (call_.logits != nullptr) copy_logits(host_out_ + padded_rows_ * heads);
  mark(call_, Stage::kCopy);
  return {};
}

Status Flight::reset_faults() {
  const dpi_call_faults none = {{0, ~uint64_t{0}}, 0};
  dpi_backend_error err{};
  return backend_status(engine_.api().upload(engine_.device(), memory_.faults, &none, sizeof none, &err), err,
                        "counters of faults");
}

/// Option debug.timestamps: what lookups refused to read, and what 16 bits could not hold.
Status Flight::check_faults() {
  dpi_call_faults found{};
  dpi_backend_error err{};
  const int32_t code = engine_.api().download(engine_.device(), &found, memory_.faults, sizeof found, &err);
  DPI_RETURN_IF_ERROR(backend_status(code, err, "counters of faults"));
  if (found.lookups.count == 0 && found.saturated == 0) return {};
  DPI_RETURN_IF_ERROR(reset_faults());
  engine_.count_saturated(found.saturated);
  if (found.lookups.count == 0) return {};
  const auto row = static_cast<int64_t>(found.lookups.first >> 20);
  return internal_error("the device met " + std::to_string(found.lookups.count) +
                        " ids outside their tables, first in row " + std::to_string(row) +
                        " of a chunk, although all were checked: memory was overwritten");
}

/// Heads without a logit keep what the caller's memory holds: nothing wrote theirs.
void Flight::copy_logits(const float* from) {
  const auto& plan_heads = engine_.plan().heads;
  const size_t heads = plan_heads.size();
  for (size_t h = 0; h < heads; ++h) {
    if (plan_heads[h].logit < 0) continue;
    for (size_t r = 0; r < static_cast<size_t>(call_rows_); ++r)
      call_.logits[r * heads + h] = from[r * heads + h];
  }
}

void Flight::drop() {
  static_cast<void>(synchronize());
  reader_->release();
  if (memory_.faults != nullptr) static_cast<void>(reset_faults());
  busy_ = false;
}

std::string Flight::graph_text(int64_t rows) const {
  const int64_t bucket = sizes_.map_for(rows).max_rows;
  for (const FlightGraphs::Entry& e : graphs_.entries()) {
    if (e.item_rows != bucket || e.graph == nullptr) continue;
    std::string text(size_t{64} << 10, '\0');
    dpi_backend_error err{};
    if (engine_.api().graph_text(e.graph, text.data(), text.size(), &err) == 0) {
      text.resize(std::min(text.find('\0'), text.size()));
      return text;
    }
  }
  return "";
}

}  // namespace dpi
