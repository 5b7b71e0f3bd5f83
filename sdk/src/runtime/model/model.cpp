#include "runtime/model/model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/clock.hpp"
#include "base/forks.hpp"
#include "base/printable.hpp"
#include "runtime/execute/parking.hpp"

namespace dpi {

namespace {

Status verify(Model* model, Bundle* bundle) {
  DPI_ASSIGN_OR_RETURN(const GoldenRows golden, bundle->read_golden());
  Status passed = model->check_golden(golden, bundle->manifest().golden.tolerance);
  if (!passed.ok()) return std::move(passed).within(bundle->name());
  return {};
}

Result<std::unique_ptr<Model>> load_bundle(const std::string& name, const ModelOptions& options,
                                           const Model::Accept& accept, const Model::Open& open) {
  const std::shared_ptr<Environment> environment = environment_of(options);
  const ThreadPool::User opens(environment->pool());  // a load that fails leaves no threads either
  LoadWatch watch(options, name);
  DPI_ASSIGN_OR_RETURN(const std::shared_ptr<Bundle> bundle, open());
  if (accept) {
    if (Status accepted = accept(bundle->manifest()); !accepted.ok()) return std::move(accepted).within(name);
  }
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Model::create(*bundle, options, nullptr, &watch));
  const uint64_t rest = bundle->hashes_checked() ? bundle->unread_bytes() : 0;
  if (options.verify_golden || rest > 0)
    DPI_RETURN_IF_ERROR(watch.enter(LoadStage::kVerify, std::max<uint64_t>(rest, 1)));
  if (rest > 0)  // what the model does not use was signed too
    DPI_RETURN_IF_ERROR(bundle->verify_rest([&](uint64_t bytes) { return watch.advance(bytes); }));
  if (options.verify_golden) DPI_RETURN_IF_ERROR(verify(model.get(), bundle.get()));
  const Engine& e = model->engine();
  const size_t n = model->engines().size();
  DPI_RETURN_IF_ERROR(watch.finish((n > 1 ? std::to_string(n) + " devices of " : "") + e.api().name + " (" +
                                   e.caps().device_name + ")"));
  model->report_events();
  return model;
}

Batch golden_batch(const GoldenRows& g) {
  const auto data = [](const auto& v) { return v.empty() ? nullptr : v.data(); };
  Batch b;
  b.item.rows = g.rows;
  b.item.dense = data(g.dense);
  b.item.ids = data(g.ids);
  b.item.offsets = g.has_offsets ? data(g.offsets) : nullptr;
  b.item.weights = data(g.weights);
  b.item.nnz = static_cast<int64_t>(g.ids.size());
  if (g.shared_rows == 0) return b;
  b.shared.rows = g.shared_rows;
  b.shared_offsets = data(g.shared_offsets);
  b.shared.dense = data(g.shared_dense);
  b.shared.ids = data(g.shared_ids);
  b.shared.offsets = data(g.shared_bag_offsets);
  b.shared.weights = data(g.shared_weights);
  b.shared.nnz = static_cast<int64_t>(g.shared_ids.size());
  return b;
}

/// " on device 2" where a model has several.
std::string on_device(const Engine& e) {
  return devices_of(e.options()).size() < 2 ? std::string()
                                            : " on device " + std::to_string(e.caps().device_index);
}

/// First element of `got` outside the tolerance, as text; empty when all agree. NaN agrees with NaN only.
/// tolerances: of each element, or empty.
std::string golden_mismatch(const std::vector<float>& want, const std::vector<float>& got,
                            const std::vector<float>& tolerances, double tolerance,
                            const std::vector<HeadSpec>& heads, const char* what) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    const double limit = GoldenRows::tolerance_at(tolerances, i, tolerance) *
                         std::max(1.0, std::fabs(static_cast<double>(want[i])));
    if (std::fabs(static_cast<double>(want[i]) - got[i]) <= limit) continue;
    return "golden row " + std::to_string(i / heads.size()) + ", head '" + heads[i % heads.size()].name +
           "': " + what + " " + std::to_string(got[i]) + ", expected " + std::to_string(want[i]) +
           " within " + std::to_string(limit);
  }
  return {};
}

/// By their bits, so that a vector of them is looked at in one compare.
bool all_finite(const float* x, int64_t n) {
  constexpr uint32_t kExponent = 0x7F800000u;  // all ones: infinity or NaN
  uint32_t bad = 0;
  for (int64_t i = 0; i < n; ++i)
    bad |= static_cast<uint32_t>((std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent);
  return bad == 0;
}

}  // namespace

Result<BundleOptions> bundle_options(const ModelOptions& options) {
  BundleOptions b;
  b.require_signature = options.require_signature;
  if (options.threads == 1) return b;
  if (b.require_signature.empty() && options.load.bytes_per_second > 0)
    return b;  // one thread is quick enough
  ThreadPool& pool = environment_of(options)->pool();
  DPI_RETURN_IF_ERROR(pool.grow(options.threads));
  b.workers = {&pool, options.threads};
  return b;
}

Result<std::unique_ptr<Model>> Model::load(const std::string& name, const ModelOptions& options,
                                           const Accept& accept, const Open& open) {
  return load_bundle(name, options, accept, open);
}

Result<std::unique_ptr<Model>> Model::load(const std::string& path, const ModelOptions& options,
                                           const Accept& accept) {
  return load_bundle(path, options, accept, [&]() -> Result<std::shared_ptr<Bundle>> {
    DPI_ASSIGN_OR_RETURN(const BundleOptions open, bundle_options(options));
    DPI_ASSIGN_OR_RETURN(std::shared_ptr<Bundle> bundle, Bundle::open(path, open));
    return bundle;
  });
}

Result<std::unique_ptr<Model>> Model::load_memory(std::span<const std::byte> bytes,
                                                  const ModelOptions& options) {
  return load_bundle("<memory>", options, {}, [&]() -> Result<std::shared_ptr<Bundle>> {
    DPI_ASSIGN_OR_RETURN(const BundleOptions open, bundle_options(options));
    DPI_ASSIGN_OR_RETURN(std::shared_ptr<Bundle> bundle, Bundle::open_memory(bytes, open));
    return bundle;
  });
}

Status Model::make_engines(Bundle& bundle, const ModelOptions& options, std::unique_ptr<TableStore> store,
                           LoadWatch* watch) {
  const size_t n = devices_of(options).size();
  if (static_cast<size_t>(options.max_contexts) < n)
    return invalid_argument("option devices names " + std::to_string(n) + " devices, and max_contexts=" +
                            std::to_string(options.max_contexts) + " has no context for each");
  if (options.tiers.parked > 0 && static_cast<size_t>(options.tiers.parked) < n)
    return invalid_argument("option devices names " + std::to_string(n) + " devices, and store.parked=" +
                            std::to_string(options.tiers.parked) + " allows no waiting call on each");
  engines_.reserve(n);
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<Engine> first,
                       Engine::create(bundle, options, std::move(store), watch));
  engines_.push_back(std::move(first));
  while (engines_.size() < n) {
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<Engine> next,
                         Engine::create_next(bundle, options, engine(), engines_.size()));
    engines_.push_back(std::move(next));
  }
  return {};
}

Result<std::unique_ptr<Model>> Model::create(Bundle& bundle, const ModelOptions& asked,
                                             std::unique_ptr<TableStore> store, LoadWatch* watch) {
  ModelOptions options = asked;
  options.max_contexts = context_count(asked);  // once: quotas may change while a model loads
  options.held = std::make_shared<HeldBytes>(asked.held);
  std::unique_ptr<Model> m(new Model());
  m->fork_generation_ = fork_generation();
  m->manifest_ = bundle.manifest();
  m->source_ = bundle.name();
  m->content_digest_ = bundle.content_digest();
  DPI_RETURN_IF_ERROR(m->make_engines(bundle, options, std::move(store), watch));
  VocabularySet vocabularies(bundle);
  for (const FeatureSpec& f : m->manifest_.features) {
    m->encoders_.push_back(nullptr);
    if (f.encoder.empty()) continue;
    auto encoder = FeatureEncoder::build(f, vocabularies);
    if (!encoder.ok()) return std::move(encoder).status().within(bundle.name());
    m->encoders_.back() = std::make_unique<FeatureEncoder>(std::move(encoder).value());
  }
  m->encoders_held_ = HeldCount(options.held, vocabularies.bytes());
  m->gone_ = CounterSums(m->manifest_.features.size());
  std::vector<const Engine*> engines;
  for (const auto& e : m->engines_) {
    engines.push_back(e.get());
    m->gone_.on.push_back({e->caps().device_index, 0});
  }
  std::sort(m->gone_.on.begin(), m->gone_.on.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  const ContextPool::Bounds bounds{options.max_contexts, m->engine().memory().parked};
  m->pool_ = std::make_unique<ContextPool>(std::move(engines), bounds, options.max_rows, options.max_nnz);
  m->slow_ns_ = uint64_t{1000} * static_cast<uint64_t>(options.slow_us);
  if (m->slow_ns_ != 0) m->slow_ = std::make_unique<SlowCalls>(m->engine().schema(), m->version_);
  return m;
}

Model::TableBytes Model::table_bytes() const {
  const Engine& first = engine();
  TableBytes b;
  b.host = first.forecast().host_bytes;
  for (const auto& e : engines_) b.device += e->forecast().device_bytes;
  (first.range().kind == DPI_RANGE_HOST ? b.host : b.device) += first.forecast().range_bytes;
  return b;
}

bool Model::forked() const { return fork_generation() != fork_generation_; }

Status Model::check_process() const {
  if (!forked()) return {};
  return {Code::kForked, "the model was loaded before fork(); load it again in this process"};
}

Status Model::refuse(Status why) {
  pool_->count_refused(why.code());
  return why;
}

Result<ContextPool::Lease> Model::claim_from(ContextPool& pool, const RunControl& control) {
  Status same_process = check_process();  // first: a child finds words claimed by threads it has not
  if (!same_process.ok()) return refuse(std::move(same_process));
  return pool.acquire(control);
}

/// Input is finite once it is resolved, so such a score comes from an overflow or from the model's own
/// numbers.
Status Model::check_scores(CallCounters& counters, int64_t rows, const float* out) const {
  const int64_t heads = engine().heads();
  if (all_finite(out, rows * heads)) return {};
  int64_t n = 0, first = -1;
  for (int64_t r = rows - 1; r >= 0; --r) {
    if (all_finite(out + r * heads, heads)) continue;
    ++n;
    first = r;
  }
  counters.add_nonfinite_rows(n);
  if (!engine().options().refuse_nonfinite) return {};
  size_t head = 0;
  while (std::isfinite(out[static_cast<size_t>(first * heads) + head])) ++head;
  return invalid_argument("the score of head '" + manifest_.heads[head].name + "' in row " +
                          std::to_string(first) + " is " +
                          std::to_string(out[static_cast<size_t>(first * heads) + head]) +
                          ", and so it is in " + std::to_string(n) + " of " + std::to_string(rows) +
                          " rows, from input that is finite; option nonfinite=return lets such scores pass")
      .at(first, -1);
}

Status Model::run(ContextPool::Lease& lease, const Batch& batch, float* out, const RunControl& control) {
  DPI_RETURN_IF_ERROR(check_batch(engine().schema(), batch));
  Parking parking(lease, control);
  RunControl watched = control;
  if (lease.may_park()) watched.row_wait = &parking;
  StageTimes stages;
  const bool sampled = lease.times().next_is_timed();
  if (sampled || slow_ns_ != 0) {
    watched.stages = &stages;
    stages.start();
  }
  const uint64_t misses = slow_ns_ != 0 ? lease->tier_misses() : 0;
  Status status = lease->run(batch, out, watched);
  if (status.ok()) status = check_scores(lease.counters(), batch.item.rows, out);
  lease.counters().add_call(batch.item.rows, lease->counters());
  lease.counters().add_users(lease->take_user_counts());
  const uint64_t took = monotonic_ns() - lease.began_ns();
  lease.times().record(took, lease.waited_ns(), batch.item.rows, sampled ? &stages : nullptr);
  if (is_slow(took)) keep_slow(lease, batch, {took, misses, &stages, status.code()});
  if (tap_ != nullptr && status.ok() && batch.item.rows > 0 && tap_->draws(lease.began_ns()))
    tap_->record(batch, out, took);
  return status;
}

/// The context's holder calls it, so its reader's counts stand still.
void Model::keep_slow(ContextPool::Lease& lease, const Batch& batch, const SlowRun& run) {
  SlowCalls::Call call;
  call.at_ms = wall_clock_ms();
  call.took_ns = run.took_ns;
  call.waited_ns = lease.waited_ns();
  call.stages = *run.stages;
  call.rows = batch.item.rows;
  call.shared_rows = batch.has_shared() ? batch.shared.rows : 0;
  call.misses = lease->tier_misses() - run.misses_before;
  call.code = run.code;
  slow_->keep(call, batch);
}

std::vector<SlowCalls::Text> Model::slow_calls() const {
  return slow_ != nullptr ? slow_->texts() : std::vector<SlowCalls::Text>();
}

void Model::set_version(uint64_t version) {
  version_ = version;
  if (slow_ != nullptr) slow_->set_version(version);
}

void Model::observe() { engine().environment().observed().add(*this, "model", printable(manifest_.name)); }

Status Model::predict(const Batch& batch, float* out, const RunControl& control) {
  DPI_ASSIGN_OR_RETURN(ContextPool::Lease lease, claim(control));
  Status status = run(lease, batch, out, control);
  if (!status.ok()) lease.counters().add_error(status.code());
  return status;
}

Result<std::unique_ptr<ContextPool>> Model::make_own_context(int64_t max_rows, int64_t max_nnz) {
  DPI_RETURN_IF_ERROR(check_process());
  const Engine& on = *engines_[next_own_.fetch_add(1) % engines_.size()];
  auto own = std::make_unique<ContextPool>(on, ContextPool::Bounds{1, 0}, max_rows, max_nnz);
  DPI_RETURN_IF_ERROR(own->acquire({}).status());  // makes the context now: no predict is to pay for it
  const std::lock_guard<std::mutex> lock(own_mutex_);
  own_.push_back(own.get());
  return own;
}

void Model::close_own_context(ContextPool& own) {
  own.close();
  const std::lock_guard<std::mutex> lock(
      own_mutex_);  // with the removal: a count is read once, here or there
  own.add_counts(&gone_);
  std::erase(own_, &own);
}

Result<std::shared_ptr<RawCounters>> Model::make_raw_counters() {
  DPI_RETURN_IF_ERROR(check_process());
  auto counters = std::make_shared<RawCounters>(manifest_.features.size());
  const std::lock_guard<std::mutex> lock(own_mutex_);
  raw_.push_back(counters);
  return counters;
}

void Model::close_raw_counters(const std::shared_ptr<RawCounters>& counters) {
  if (forked()) return;  // a thread that the child has not may have held the lock
  const std::lock_guard<std::mutex> lock(own_mutex_);
  counters->add_to(&gone_);
  std::erase(raw_, counters);
}

CounterSums Model::counts() const {
  const std::lock_guard<std::mutex> lock(own_mutex_);
  CounterSums sums = gone_;
  pool_->add_counts(&sums);
  for (ContextPool* own : own_) own->add_counts(&sums);
  for (const auto& raw : raw_) raw->add_to(&sums);
  return sums;
}

void Model::report_events() const noexcept {
  try {
    tell_events();
  } catch (const std::bad_alloc&) {
    return;  // no memory for a message: what it tells of goes on
  }
}

void Model::tell_events() const {
  LogSink& log = engine().log();
  for (const auto& e : engines_) {
    if (const std::string note = e->take_graphs_note(); !note.empty())
      log.write(LogLevel::kWarn, "graphs",
                source_ +
                    ": a graph capture failed, and calls of its shape run op by op until one succeeds: " +
                    note + "; option debug.graphs=off skips the capture");
  }
  const WaitSums waits = pool_->take_slow_waits();
  if (waits.count == 0) return;
  log.write(LogLevel::kWarn, "contexts",
            source_ + ": " + std::to_string(waits.count) + " calls waited for one of " +
                std::to_string(pool_->size()) + " contexts, the longest " +
                std::to_string(waits.longest_ns / 1'000'000) +
                " ms; option max_contexts allows more, or let fewer threads call at once");
}

bool Model::attach(const void* key, Attachment* attachment) {
  for (Attached& a : attached_) {
    Attachment* none = nullptr;
    if (!a.attachment.compare_exchange_strong(none, attachment)) continue;
    a.key.store(key, std::memory_order_release);
    return true;
  }
  return false;
}

bool Model::detach(const void* key) {
  for (Attached& a : attached_) {
    const void* mine = key;
    if (!a.key.compare_exchange_strong(mine, nullptr)) continue;
    a.attachment.store(nullptr);
    return true;
  }
  return false;
}

void Model::close() {
  engine().environment().observed().remove(*this);
  Attachment* there[kAttachments] = {};
  for (size_t i = 0; i < kAttachments; ++i) {
    if (attached_[i].key.exchange(nullptr) != nullptr) there[i] = attached_[i].attachment.exchange(nullptr);
    if (there[i] != nullptr) there[i]->drain();
  }
  pool_->close();
  for (Attachment* a : there) {
    if (a != nullptr) a->model_closed();
  }
  report_events();
  if (at_close_) at_close_(*this);
  at_close_ = nullptr;
  std::vector<std::unique_ptr<FeatureEncoder>>().swap(encoders_);
  encoders_held_ = HeldCount();
  while (!engines_.empty()) engines_.pop_back();
  manifest_ = Manifest();
  std::string().swap(source_);
  std::vector<ContextPool*>().swap(own_);  // empty: contexts and raw rows keep their model alive
  std::vector<std::shared_ptr<RawCounters>>().swap(raw_);
  slow_.reset();
  tap_.reset();
  pool_->forget_counts();
}

Status Model::check_golden(const GoldenRows& golden, double tolerance) {
  if (golden.rows == 0) return {};
  std::vector<float> value(golden.value.size()), logit(golden.value.size());
  RunControl control;
  control.logits = logit.data();
  const Batch batch = golden_batch(golden);
  DPI_RETURN_IF_ERROR(check_batch(engine().schema(), batch));
  std::vector<ContextPool::Lease> held;  // a context that is held makes the next one another device's
  while (held.size() < engines_.size()) {
    DPI_ASSIGN_OR_RETURN(ContextPool::Lease lease, claim(control));
    const Status ran = lease->run(batch, value.data(), control);  // no call that anybody made: not counted
    static_cast<void>(lease->take_user_counts());
    DPI_RETURN_IF_ERROR(ran);
    std::string fault =
        golden_mismatch(golden.value, value, golden.value_tolerance, tolerance, manifest_.heads, "scored");
    if (fault.empty() && !golden.logit.empty()) {
      fault =
          golden_mismatch(golden.logit, logit, golden.logit_tolerance, tolerance, manifest_.heads, "logit");
    }
    if (!fault.empty()) return bad_model(fault + on_device(lease.engine()));
    held.push_back(std::move(lease));
  }
  return {};
}

}  // namespace dpi
