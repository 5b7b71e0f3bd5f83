// One load: build beside, check, warm, switch, and what becomes of the version before.
#include <algorithm>
#include <new>
#include <set>
#include <utility>

#include "base/clock.hpp"
#include "base/json_text.hpp"
#include "runtime/endpoint/endpoint.hpp"
#include "runtime/record/record_schema.hpp"

namespace dpi {

namespace {

double seconds_since(uint64_t began_ns) { return static_cast<double>(monotonic_ns() - began_ns) * 1e-9; }

/// Bytes of the memory that both models hold now. It may differ from what they shared when they were loaded:
/// a third model may be gone.
uint64_t common_bytes(const Engine& a, const Engine& b) {
  std::set<const void*> held, seen;
  for (const LoadBase::Table& t : a.held_tables()) held.insert(t.rows.memory.get());
  uint64_t bytes = 0;
  for (const LoadBase::Table& t : b.held_tables()) {
    const void* memory = t.rows.memory.get();
    if (memory == nullptr || !held.contains(memory) || !seen.insert(memory).second) continue;
    bytes += t.rows.bytes != 0 ? t.rows.bytes : b.memory().host_tier + b.memory().host_tier_shared;
  }
  return bytes;
}

RecordPart part_of(int32_t slots, int32_t columns) {
  return {static_cast<uint32_t>(slots), static_cast<uint32_t>(columns)};
}

/// The part that records of the model's calls have in common.
std::shared_ptr<RecordSource> record_source(const Model& model, const Bundle& bundle) {
  const Engine& e = model.engine();
  const BatchColumns& c = e.schema().columns;
  auto source = std::make_shared<RecordSource>();
  source->bundle = bundle.content_hash();
  source->number = model.version();
  source->schema = record_schema(bundle);
  source->schema_digest = record_schema_digest(source->schema);
  source->whole = part_of(c.n_slots, c.n_columns);
  source->item = part_of(c.n_item_slots, c.n_item_columns);
  source->shared = part_of(c.n_shared_slots, c.n_shared_columns);
  source->heads = static_cast<uint32_t>(e.heads());
  JsonWriter info;
  info.begin_object();
  info.field("model", bundle.manifest().name);
  info.field("backend", e.api().name);
  info.field("device", e.caps().device_name);
  for (const auto& [key, value] : option_values(e.options()))
    if (key == "precision" || key == "determinism" || key == "isa") info.field(key, value);
  info.end_object();
  source->info = info.take();
  return source;
}

}  // namespace

/// One load() that runs: the endpoint does not end before it.
struct Endpoint::Running {
  Endpoint& e;
  explicit Running(Endpoint& endpoint) : e(endpoint) {
    const std::lock_guard<std::mutex> lock(e.state_mutex_);
    ++e.running_;
  }
  ~Running() {
    const std::lock_guard<std::mutex> lock(e.state_mutex_);
    --e.running_;
    e.changed_.notify_all();
  }
};

/// The load that has its turn.
struct Endpoint::Turn {
  Endpoint& e;
  const std::lock_guard<std::mutex> one_at_a_time;
  Turn(Endpoint& endpoint, const std::string& path) : e(endpoint), one_at_a_time(endpoint.load_mutex_) {
    const std::lock_guard<std::mutex> lock(e.state_mutex_);
    e.loading_ = path;
    e.loader_ = std::this_thread::get_id();
  }
  ~Turn() {
    const std::lock_guard<std::mutex> lock(e.state_mutex_);
    e.loading_.clear();
    e.loader_ = {};
    e.stage_.store(nullptr, std::memory_order_relaxed);
  }
};

thread_local const Endpoint* Endpoint::telling_ = nullptr;

bool Endpoint::is_loader() const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  return loader_ == std::this_thread::get_id();
}

Status Endpoint::load(const Update& update, size_t* fault) {
  DPI_RETURN_IF_ERROR(check_process());
  if (in_callback())
    return invalid_argument("endpoint '" + name_ + "': load was called inside a callback of this endpoint");
  const Running running(*this);
  const uint64_t began = monotonic_ns();
  Status status;
  size_t unused = 0;
  {
    const Turn turn(*this, update.path);
    try {
      auto built = build(update, fault != nullptr ? fault : &unused);
      if (built.ok() && *built == nullptr) return {};
      if (built.ok()) {
        publish(std::move(built).value(), began);
      } else {
        status = std::move(built).status();
      }
    } catch (const std::bad_alloc&) {
      status = {Code::kOutOfMemory, "out of memory"};
    }
  }
  if (!status.ok()) note_failure(update, status, began);
  write_messages();
  return status;
}

Result<uint64_t> Endpoint::choose_number(const Update& update) const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  if (update.number == 0) {
    if (highest_ < kMostNumber) return highest_ + 1;
    return invalid_argument("no number is left above version " + std::to_string(highest_) + ", which served");
  }
  for (const Version* v : {serving_.get(), kept_.get()}) {
    if (v != nullptr && v->number == update.number)
      return invalid_argument("version " + std::to_string(update.number) + " is " +
                              (v == serving_.get() ? "serving" : "kept for a rollback") + " already, from " +
                              v->path);
  }
  return update.number;
}

/// Bytes of the endpoint's models by their forecasts, with common tables counted once. Under state_mutex_.
uint64_t Endpoint::forecast_bytes() const {
  uint64_t bytes = serving_ != nullptr ? serving_->bytes : 0;
  if (kept_ == nullptr) return bytes;
  bytes += kept_->bytes;
  return bytes - std::min(bytes, common_bytes(serving_->model->engine(), kept_->model->engine()));
}

/// The options of a model that is loaded beside the serving ones: memory_limit is what they leave.
ModelOptions Endpoint::options_beside() const {
  ModelOptions o = options_;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    o.verify_golden = settings_.golden || options_.verify_golden;
    o.load.bytes_per_second = static_cast<uint64_t>(settings_.bytes_per_second);
    o.spare_percent = settings_.spare_rows;
  }
  if (o.memory_limit == 0) return o;
  o.memory_limit -= std::min(o.memory_limit - 1, held_bytes());  // 0 would be no limit
  return o;
}

/// The state that a load finds. It stays although a rollback may drop the version meanwhile.
struct Endpoint::Beside {
  uint64_t number = 0;  // of the version that serves, 0 = none
  std::shared_ptr<const Contract> callers;
  std::shared_ptr<const Origin> origin;
  std::vector<LoadBase::Table> tables;
  std::vector<std::vector<int64_t>> pads;
  int64_t warm_up_rows = 0;
  Rate rate;
};

Endpoint::Beside Endpoint::beside() const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  Beside b;
  b.warm_up_rows = settings_.warm_up_rows;
  b.rate = Rate(static_cast<uint64_t>(settings_.bytes_per_second));
  if (serving_ == nullptr) return b;
  b.number = serving_->number;
  b.callers = serving_->contract;
  b.origin = serving_->origin;
  b.tables = serving_->model->engine().held_tables();
  b.pads = serving_->model->engine().pads();
  return b;
}

Result<NextOrigin> Endpoint::open(const Update& update, const Beside& there, size_t* fault) {
  stage_.store("open", std::memory_order_relaxed);
  Rate rate = there.rate;
  OriginWatch watch;
  watch.rate = &rate;
  watch.go_on = [this]() -> Status {
    if (stopping()) return {Code::kCancelled, "the endpoint is being freed"};
    return {};
  };
  watch.unfold = [this](const std::string& text) { tell(LogLevel::kWarn, [&] { return text; }); };
  return open_update(update, options_, there.origin.get(), watch, fault);
}

Result<std::unique_ptr<Model>> Endpoint::build_beside(const Update& update, const NextOrigin& next,
                                                      const Beside& there) {
  const LoadBase base{there.tables, next.rows, there.pads};
  const auto build = [&] {
    ModelOptions options = options_beside();
    if (!base.rows.empty()) options.load.base = &base;
    return build_model(next.origin->bundle, update.path, options, there.callers.get());
  };
  auto model = build();
  if (!model.ok() && model.status().code() == Code::kOutOfMemory && drop_kept_for_room().ok())
    model = build();
  return model;
}

/// Null: the update was applied already.
Result<std::unique_ptr<Version>> Endpoint::build(const Update& update, size_t* fault) {
  if (update.number > kMostNumber)
    return invalid_argument("version " + std::to_string(update.number) + " is above " +
                            std::to_string(kMostNumber) + ", the highest that a version may have");
  const Beside there = beside();
  DPI_ASSIGN_OR_RETURN(const NextOrigin next, open(update, there, fault));
  if (next.origin == nullptr) return std::unique_ptr<Version>();
  DPI_ASSIGN_OR_RETURN(const uint64_t number, choose_number(update));
  auto model = build_beside(update, next, there);
  if (!model.ok()) {
    Status why = std::move(model).status();
    if (why.code() != Code::kOutOfMemory || there.number == 0) return why;
    return std::move(why).within("version " + std::to_string(number) + " beside version " +
                                 std::to_string(there.number) + ", which holds " +
                                 std::to_string(held_bytes()) + " bytes (memory_limit " +
                                 std::to_string(options_.memory_limit) + " for both)");
  }
  (*model)->set_version(number);
  if (there.warm_up_rows > 0) {
    Status warm = (*model)->warm_up(there.warm_up_rows);
    (*model)->report_events();
    if (!warm.ok()) return std::move(warm).within(update.path + ": warm-up");
  }
  if (stopping()) return Status(Code::kCancelled, "the endpoint is being freed");
  const MemoryForecast& f = (*model)->engine().memory();
  auto contract = std::make_shared<const Contract>(contract_of((*model)->manifest()));
  std::unique_ptr<Version> version = wrap_(std::move(model).value());
  version->number = number;
  version->path = update.path;
  version->contract = std::move(contract);
  version->origin = next.origin;
  version->bytes = f.kept() + f.shared + f.host_tier_shared + f.all_contexts();
  version->counts = std::make_shared<EndpointCounts::OfVersion>(counts_);
  version->model->set_tap(recorder_->tap(record_source(*version->model, *next.origin->bundle)));
  version->model->set_at_close([counts = version->counts](const Model& m) { counts->close(m); });
  return version;
}

/// Nothing in it may fail once the pointer is stored.
void Endpoint::publish(std::unique_ptr<Version> next, uint64_t began_ns) {
  std::unique_ptr<Version> out[2];
  const uint64_t number = next->number;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    next->since_ms = wall_ms();
    out[0] = std::move(kept_);
    kept_ = std::move(serving_);
    serving_ = std::move(next);
    hash_at_ns_ = 0;
    current_.store(serving_.get(), std::memory_order_seq_cst);
    number_.store(number, std::memory_order_release);
    highest_ = std::max(highest_, number);
    kept_until_ns_ = monotonic_ns() + static_cast<uint64_t>(settings_.keep_seconds) * 1'000'000'000u;
    if (settings_.keep_seconds == 0) out[1] = std::move(kept_);
    rolled_back_.erase(number);
    ++loads_;
    note_event(EndpointEvent::Kind::kLoad, serving_->path, number, 0, seconds_since(began_ns), {});
    loading_.clear();
    changed_.notify_all();
  }
  for (auto& old : out) retire(std::move(old));
  merge_rows();
}

/// Rows of the version that serves go home where nobody reads those that are there
/// (store/resident/spare_rows.hpp). What fails leaves them where they are.
void Endpoint::merge_rows() const noexcept {
  try {
    std::vector<std::shared_ptr<RowVersion>> versions;
    {
      const std::lock_guard<std::mutex> lock(state_mutex_);
      if (serving_ == nullptr) return;
      for (const Engine::Overlaid& o : serving_->model->engine().overlaid()) versions.push_back(o.version);
    }
    for (const auto& version : versions) {
      const Status merged = version->rows().merge(*version);
      if (!merged.ok()) tell(LogLevel::kWarn, [&] { return "rows stay in spare rows: " + merged.message(); });
    }
  } catch (const std::bad_alloc&) {
    return;  // the next version tries again
  }
}

/// Waits until no call can find it any more, then for those that have found it.
void Endpoint::retire(std::unique_ptr<Version> old) const {
  if (old == nullptr) return;
  gate_->drain();
  old.reset();
}

std::unique_ptr<Version> Endpoint::take_kept() {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  return std::move(kept_);
}

Status Endpoint::drop_kept_for_room() {
  std::unique_ptr<Version> kept = take_kept();
  if (kept == nullptr) return {Code::kNotFound, "no version is kept"};
  const uint64_t number = kept->number;
  retire(std::move(kept));
  tell(LogLevel::kWarn, [&] {
    return "version " + std::to_string(number) +
           ", kept for a rollback, is freed early: a new version does not fit beside it";
  });
  return {};
}

Status Endpoint::rollback() {
  DPI_RETURN_IF_ERROR(check_process());
  std::unique_ptr<Version> bad;
  uint64_t from = 0, to = 0;
  {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    if (kept_ == nullptr)
      return {Code::kNotFound,
              "endpoint '" + name_ + "' keeps no version to go back to (setting keep_seconds)"};
    rolled_back_.insert(serving_->number);  // first: it may fail
    bad = std::move(serving_);
    serving_ = std::move(kept_);
    hash_at_ns_ = 0;
    from = bad->number;
    to = serving_->number;
    serving_->since_ms = wall_ms();
    current_.store(serving_.get(), std::memory_order_seq_cst);
    number_.store(to, std::memory_order_release);
    ++rollbacks_;
    note_event(EndpointEvent::Kind::kRollback, serving_->path, to, from, 0, {});
    folder_.try_refused_again(Code::kUnsupported);  // what callers rely on may be less now
  }
  write_messages();
  retire(std::move(bad));
  return {};
}

void Endpoint::note_failure(const Update& update, const Status& status, uint64_t began_ns) noexcept {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  ++failed_loads_;
  ++failures_[static_cast<size_t>(status.code())];
  note_event(EndpointEvent::Kind::kFailedLoad, update.path, update.number, 0, seconds_since(began_ns),
             status);
}

}  // namespace dpi
