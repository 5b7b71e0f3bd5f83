#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "graph/bundle_params.hpp"
#include "runtime/engine/host_flights.hpp"
#include "runtime/engine/op_description.hpp"
#include "runtime/load/hot_keys.hpp"
#include "runtime/load/table_loader.hpp"
#include "runtime/load/tiers.hpp"
#include "runtime/options/device_list.hpp"
#include "store/resident/resident_store.hpp"

namespace dpi {

namespace {

dpi_backend_options backend_options(const ModelOptions& o) {
  dpi_backend_options b{};
  b.struct_size = sizeof b;
  b.device_index = o.device_index;
  b.precision = static_cast<int32_t>(o.precision);
  b.strict = o.strict ? 1 : 0;
  b.debug = o.timestamps ? 1 : 0;
  b.isa = o.isa.c_str();
  b.lookup = o.lookup.c_str();
  b.fetch = o.fetch.c_str();
  b.tuning = o.tuning.c_str();
  return b;
}

/// A backend's kinds as the C API has them: DPI_BLOCK_*.
int32_t block_kind(int32_t kind) {
  if (kind == DPI_MEMORY_TABLE) return 0;
  if (kind == DPI_MEMORY_PARAM) return 1;
  return kind == DPI_MEMORY_STAGING ? 3 : 2;
}

dpi_backend_memory memory_of(MemoryHooks* hooks) {
  dpi_backend_memory m{};
  m.self = hooks;
  m.alloc = [](void* self, size_t bytes, size_t alignment, int32_t kind) {
    const auto* h = static_cast<const MemoryHooks*>(self);
    return h->alloc(h->user, bytes, alignment, block_kind(kind));
  };
  m.free = [](void* self, void* p, size_t bytes, int32_t kind) {
    const auto* h = static_cast<const MemoryHooks*>(self);
    h->free(h->user, p, bytes, block_kind(kind));
  };
  return m;
}

kernels::DType activation_type(Precision precision) {
  if (precision == Precision::kFp16) return kernels::DType::kF16;
  return precision == Precision::kBf16 ? kernels::DType::kBF16 : kernels::DType::kF32;
}

}  // namespace

Engine::OpenDevice::~OpenDevice() {
  if (backend.device != nullptr) backend.api->close(backend.device);
}

Engine::~Engine() {
  if (device_ == nullptr || device_->backend.device == nullptr) return;
  if (small_batch_ != nullptr) api().op_free(device(), small_batch_);
  for (dpi_backend_op* op : ops_) {
    if (op != nullptr) api().op_free(device(), op);
  }
  for (float* p : const_data_) {
    if (p != nullptr) api().free(device(), p, DPI_MEMORY_PARAM);
  }
}

Status Engine::open_backend() {
  backend::BackendRequest request;
  request.device = options_.device;
  request.backend_dir = options_.backend_dir;
  request.options = backend_options(options_);
  device_ = std::make_shared<OpenDevice>();
  device_->environment = options_.environment;
  device_->hooks = options_.environment->memory();
  device_->memory = memory_of(&device_->hooks);
  if (device_->hooks.alloc != nullptr) request.options.memory = &device_->memory;
  request.log = &log();
  DPI_ASSIGN_OR_RETURN(device_->backend, backend::open_backend(request));
  dpi_backend_error err{};
  caps_.struct_size = sizeof caps_;
  DPI_RETURN_IF_ERROR(backend_status(api().caps(device(), &caps_, &err), err, "backend"));
  if (!host_memory() || options_.threads == 1) return {};
  pool_user_.emplace(pool());
  pool().spin_for(int64_t{1000} * options_.spin_us);
  return pool().grow(options_.threads);
}

Status Engine::make_plan(Bundle& bundle) {
  PlanOptions plan_options = dpi::plan_options(options_);
  if (Status chosen = choose_tiers(bundle.manifest(), options_, &plan_options); !chosen.ok())
    return std::move(chosen).within(bundle.name());
  BundleParams params(bundle);
  auto graph = build_graph(bundle.manifest(), params);
  if (!graph.ok()) return std::move(graph).status().within(bundle.name());
  DPI_RETURN_IF_ERROR(open_backend());
  plan_options.max_streams = std::max(1, caps_.max_streams);
  if ((caps_.flags & DPI_BACKEND_HALF) != 0) plan_options.activation = activation_type(options_.precision);
  DPI_ASSIGN_OR_RETURN(plan_, dpi::make_plan(graph.value(), plan_options));
  for (PlanOp& op : plan_.ops) op.bind_pointers();
  if (plan_options.activation != kernels::DType::kF32) narrow_tables(plan_options.activation, &plan_);
  schema_ = make_resolve_schema(plan_.features, plan_.placements);
  return {};
}

Result<std::unique_ptr<Engine>> Engine::create(Bundle& bundle, const ModelOptions& options,
                                               std::unique_ptr<TableStore> store, LoadWatch* watch) {
  static std::atomic<uint64_t> loads{0};
  std::unique_ptr<Engine> e(new Engine());
  e->number_ = ++loads;
  e->options_ = options;
  e->options_.environment = environment_of(options);
  e->options_.load = {};  // the caller's, and only while loading
  e->options_.device_index = devices_of(options)[0];
  e->base_ = options.load.base;
  LoadWatch own(options, bundle.name());
  DPI_RETURN_IF_ERROR(e->load(bundle, std::move(store), watch != nullptr ? watch : &own));
  e->tell_range(bundle);
  return e;
}

Result<std::unique_ptr<Engine>> Engine::create_next(Bundle& bundle, const ModelOptions& options,
                                                    const Engine& first, size_t number) {
  std::unique_ptr<Engine> e(new Engine());
  e->first_ = &first;
  e->options_ = first.options_;
  e->options_.device_index = devices_of(options)[number];
  const LoadBase base{first.held_tables(), std::vector<RowHistory>(bundle.manifest().tables.size()),
                      first.pads_};
  e->base_ = &base;
  ModelOptions quiet = e->options_;  // its stages are no stages of the model's
  quiet.load.cancel = options.load.cancel;
  quiet.load.bytes_per_second = options.load.bytes_per_second;
  LoadWatch watch(quiet, bundle.name());
  DPI_RETURN_IF_ERROR(e->load(bundle, nullptr, &watch));
  return e;
}

Status Engine::load(Bundle& bundle, std::unique_ptr<TableStore> store, LoadWatch* watch) {
  DPI_RETURN_IF_ERROR(watch->enter(LoadStage::kPlan, 1));
  DPI_RETURN_IF_ERROR(make_plan(bundle));
  DPI_RETURN_IF_ERROR(choose_range());
  if (store == nullptr) DPI_RETURN_IF_ERROR(claim_tables(bundle, watch));
  // Only the option's limit is looked at so early: what a device has free is the same once ops are prepared.
  DeviceSizes sizes{!host_memory(),
                    caps_.alignment,
                    0,
                    0,
                    least_weight_bytes(options_),
                    claims_.given_bytes() + there_bytes_,
                    tier_claim_.given() != nullptr};
  sizes.range = range_;
  DPI_RETURN_IF_ERROR(check_limit(bundle, sizes));
  DPI_RETURN_IF_ERROR(upload_constants());
  DPI_RETURN_IF_ERROR(prepare_ops());
  if (options_.small_batch) DPI_RETURN_IF_ERROR(prepare_small_batch());
  drop_params();
  store_ = std::move(store);
  if (store_ == nullptr) DPI_RETURN_IF_ERROR(make_store(bundle));
  DPI_RETURN_IF_ERROR(check_memory(bundle));
  DPI_RETURN_IF_ERROR(load_tables(bundle, watch));
  base_ = nullptr;
  DPI_RETURN_IF_ERROR(watch->enter(LoadStage::kOps, 1));
  graphs_ = options_.graphs && (caps_.flags & DPI_BACKEND_CAPTURE) != 0;
  return {};
}

/// The backend keeps what it needs of the weights: before tables come the plan's own go.
void Engine::drop_params() {
  for (PlanParam& p : plan_.params) {
    weight_bytes_ += p.data.size() * sizeof(float);
    std::vector<float>().swap(p.data);
  }
}

Status Engine::check_limit(const Bundle& bundle, DeviceSizes device) {
  device.warms = base_ != nullptr;
  DPI_ASSIGN_OR_RETURN(memory_, forecast_memory(bundle, plan_, options_, device));
  if (options_.memory_limit == 0 || memory_.most() <= options_.memory_limit) return {};
  return {Code::kOutOfMemory, "the model needs " + memory_.text() + ", but option memory_limit allows " +
                                  std::to_string(options_.memory_limit) + " bytes; nothing was loaded"};
}

/// Everything against the option; tables, weights and the device's part of a flight against what it has free.
/// What the host has free is looked at by the store.
Status Engine::check_memory(const Bundle& bundle) {
  DeviceSizes sizes{!host_memory(), caps_.alignment, 0, 0};
  sizes.shared = memory_.shared;
  sizes.tier_given = memory_.host_tier_shared > 0;
  sizes.range = range_;
  std::vector<uint64_t> scratch(static_cast<size_t>(plan_.n_streams), 64);
  const auto packed = [this](const dpi_backend_op* op) -> uint64_t {
    return op != nullptr && api().op_bytes != nullptr ? api().op_bytes(op) : 0;
  };
  for (size_t i = 0; i < ops_.size(); ++i) {
    sizes.weights += packed(ops_[i]);
    uint64_t& most = scratch[static_cast<size_t>(plan_.ops[i].stream)];
    most = std::max<uint64_t>(most, api().op_scratch_bytes(ops_[i], options_.max_rows));
  }
  for (const uint64_t bytes : scratch) sizes.scratch += bytes;
  sizes.weights += packed(small_batch_) + const_bytes_;
  DPI_RETURN_IF_ERROR(check_limit(bundle, sizes));
  const uint64_t rows = memory_.own_tables + memory_.device_cache + memory_.peer_copies;
  const uint64_t needs = rows + memory_.device_flight;  // weights are there
  if (host_memory() || caps_.memory_free == 0 || needs + memory_.weights <= caps_.memory_free) return {};
  const auto mib = [](uint64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; };
  return {Code::kOutOfMemory, "the model needs " + mib(needs + memory_.weights) + " (tables " + mib(rows) +
                                  ", weights " + mib(memory_.weights) +
                                  ", one call of max_rows=" + std::to_string(options_.max_rows) + " " +
                                  mib(memory_.device_flight) + "), but only " + mib(caps_.memory_free) +
                                  " of device memory are free; nothing was loaded"};
}

/// Before the model's memory is forecast: what others hold already need not fit. May wait for a model that
/// loads the same tables.
Status Engine::claim_tables(const Bundle& bundle, LoadWatch* watch) {
  if (!options_.share && table_token().empty()) return {};
  std::vector<StoreTable> tables = tables_of(bundle);
  if (const LoadBase* base = same_plan(plan_, base_); base != nullptr)
    take_rows_over(bundle, plan_, *base, table_messages(bundle, LogLevel::kInfo), &tables);
  for (const StoreTable& t : tables) versions_.push_back(t.version);
  DPI_ASSIGN_OR_RETURN(const ArenaMap map, make_arena_map(tables, !host_memory(), range_.least()));
  there_bytes_ = map.there_bytes;
  // Memory of one device, from one place. Blocks from hooks of a caller are for models with the same hooks.
  const void* const from[] = {&api(), reinterpret_cast<const void*>(device_->hooks.alloc),
                              reinterpret_cast<const void*>(device_->hooks.free), device_->hooks.user};
  const std::string place(reinterpret_cast<const char*>(from), sizeof from);
  const std::string where = std::to_string(caps_.device_index) + ' ' + place;
  const std::string range = "range " + std::to_string(range_.kind) + ' ' + device_text(range_.owners) + ' ' +
                            device_text(range_.readers) + ' ' + place;
  DPI_ASSIGN_OR_RETURN(claims_, BlockClaims::claim(&options_.environment->parts(), {where, range}, map,
                                                   tables, [watch] { return watch->advance(0); }));
  // A tier without copies on a device lies in host memory, which all devices of a model read.
  const bool several = !table_token().empty();
  const std::string on = several ? "devices " + device_text(options_.devices) + ' ' + place : where;
  return options_.share || several ? claim_tier(on, tables, watch) : Status();
}

/// After the tables: a load that has its tier waits for nothing, so loads cannot wait for each other in a
/// circle.
Status Engine::claim_tier(const std::string& where, const std::vector<StoreTable>& tables, LoadWatch* watch) {
  std::string key = tier_key(tables, options_.tiers);
  if (key.empty() || options_.tiers.host_bytes == 0) return {};
  key += where + options_.rocksdb_reads + ' ' + options_.backend_dir;
  DPI_ASSIGN_OR_RETURN(tier_claim_,
                       TierClaim::claim(&options_.environment->parts(), std::move(key), [this, watch] {
                         claims_.alive();
                         return watch->advance(0);
                       }));
  return {};
}

/// What the limit leaves over. To be asked when everything has been forecast.
std::function<uint64_t()> Engine::beyond_forecast() const {
  if (options_.memory_limit == 0) return {};
  return [this] { return options_.memory_limit - std::min(options_.memory_limit, memory_.most()); };
}

std::function<void(const std::string& text)> Engine::table_messages(const Bundle& bundle,
                                                                    LogLevel level) const {
  return [this, level, name = bundle.name()](const std::string& text) {
    log().write(level, "tables", name + ": " + text);
  };
}

std::vector<StoreTable> Engine::tables_of(const Bundle& bundle) const {
  std::vector<StoreTable> tables =
      store_tables(bundle, plan_, options_.share, base_, options_.spare_percent, table_token());
  for (size_t t = 0; t < versions_.size(); ++t) tables[t].version = versions_[t];
  return tables;
}

void Engine::find_overlaid(const Bundle& bundle) {
  std::vector<RowGroup> groups = row_groups(bundle, plan_);
  for (size_t g = 0; g < groups.size(); ++g) {
    std::shared_ptr<RowVersion> version = store_->row_version(static_cast<int32_t>(g));
    if (version != nullptr) overlaid_.push_back({std::move(groups[g]), std::move(version)});
  }
}

const RowOverlay* Engine::overlay_of(int32_t table) const {
  for (const Overlaid& o : overlaid_) {
    const std::vector<int32_t>& tables = o.group.tables;
    if (std::find(tables.begin(), tables.end(), table) == tables.end()) continue;
    const RowOverlay& overlay = o.version->overlay();
    return overlay.empty() ? nullptr : &overlay;
  }
  return nullptr;
}

Status Engine::make_store(const Bundle& bundle) {
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<HotKeyFile> hot, open_hot_keys(bundle, options_));
  DPI_ASSIGN_OR_RETURN(PeerCopyOptions copies, peer_copies(bundle, plan_, options_));
  TableSharing sharing{device_, std::move(claims_), table_messages(bundle, LogLevel::kWarn), range_};
  store_ =
      make_resident_store(&api(), device(), options_.memory_limit, std::move(sharing), std::move(copies));
  const auto elsewhere = [&bundle](const PlanTable& t) {
    return t.tiered || (t.source >= 0 && bundle.manifest().tables[static_cast<size_t>(t.source)].external);
  };
  if (std::none_of(plan_.tables.begin(), plan_.tables.end(), elsewhere)) return {};
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<BundleRows> rows, tier_rows(bundle, plan_, options_));
  DPI_ASSIGN_OR_RETURN(
      store_, make_tiered_store(std::move(store_), std::move(rows), options_.tiers, &api(), device(),
                                device_->hooks, std::move(hot),
                                {device_, std::move(tier_claim_), table_messages(bundle, LogLevel::kWarn),
                                 beyond_forecast()}));
  return {};
}

Status Engine::load_tables(Bundle& bundle, LoadWatch* watch) {
  DPI_ASSIGN_OR_RETURN(forecast_, store_->plan(tables_of(bundle)));
  versions_.clear();
  LoadedKeys loaded;
  const KeyPlaces* const there = first_ != nullptr ? first_->keys() : nullptr;
  DPI_RETURN_IF_ERROR(load_plan_tables(bundle, plan_, *store_, watch, &loaded, base_, there));
  keys_ = std::move(loaded.places);
  pads_ = std::move(loaded.pads);
  find_overlaid(bundle);
  if (keys() != nullptr) set_key_places(*keys(), &schema_);
  return {};
}

std::vector<LoadBase::Table> Engine::held_tables() const {
  std::vector<LoadBase::Table> held;
  for (size_t t = 0; t < plan_.tables.size(); ++t)
    held.push_back({plan_.tables[t].name, plan_.tables[t].source, store_->holds(static_cast<int32_t>(t))});
  return held;
}

Status Engine::upload_constants() {
  const_data_.assign(plan_.params.size(), nullptr);
  for (const PlanValue& v : plan_.values) {
    if (v.storage != Storage::kConst || v.param < 0 || const_data_[v.param] != nullptr) continue;
    const auto& data = plan_.params[v.param].data;
    void* p = nullptr;
    dpi_backend_error err{};
    const size_t bytes = std::max<size_t>(1, data.size()) * sizeof(float);
    const_bytes_ += bytes;
    DPI_RETURN_IF_ERROR(
        backend_status(api().alloc(device(), bytes, DPI_MEMORY_PARAM, &p, &err), err, v.name));
    const_data_[v.param] = static_cast<float*>(p);
    DPI_RETURN_IF_ERROR(backend_status(
        api().upload(device(), p, data.data(), data.size() * sizeof(float), &err), err, v.name));
  }
  return {};
}

int64_t Engine::row_stride(const PlanValue& v) const {
  switch (v.storage) {
    case Storage::kInput:
      return v.is_bags ? 0 : schema_.n_floats[schema_.features[v.feature].spec.space];
    case Storage::kOutput:
    case Storage::kLogit:
      return heads();
    case Storage::kConst:
      return 0;
    case Storage::kAlias:
      return row_stride(plan_.values[v.base]);
    case Storage::kArena:
      break;
  }
  return v.space == RowSpace::kConstant ? 0 : v.row_stride;
}

Status Engine::prepare_ops() {
  ops_.assign(plan_.ops.size(), nullptr);
  reports_.resize(plan_.ops.size());
  const RowStride stride = [this](const PlanValue& v) { return row_stride(v); };
  for (size_t i = 0; i < plan_.ops.size(); ++i) {
    OpDescription d;
    describe_op(plan_, plan_.ops[i], stride, options_.max_rows, &d);
    dpi_backend_error err{};
    char report[1024] = "";
    const int32_t code = api().op_prepare(device(), &d.desc, &ops_[i], report, sizeof report, &err);
    DPI_RETURN_IF_ERROR(backend_status(code, err, "op '" + plan_.ops[i].name + "'"));
    reports_[i] = report;
  }
  if (host_memory()) cut_ops();
  return {};
}

void Engine::cut_ops() {
  std::vector<OpParts> parts(ops_.size());
  for (size_t i = 0; i < ops_.size() && api().op_parts != nullptr; ++i)
    parts[i] = {api().op_parts(ops_[i]), api().op_scratch_bytes(ops_[i], 1) > 0};
  WorkCuts cuts = work_cuts(plan_, parts);
  set_work_rows(false, cuts.asleep);
  set_work_rows(true, cuts.awake);
  op_cuts_ = std::move(cuts.ops);
}

void Engine::set_work_rows(bool awake, const WorkRows& rows) const {
  share_rows_[awake].store(rows.min_share, std::memory_order_relaxed);
  crew_rows_[awake].store(rows.crew_rows, std::memory_order_relaxed);
}

/// A plan that no small batch takes runs op by op: small_batch_report says why.
Status Engine::prepare_small_batch() {
  if (api().small_batch_prepare == nullptr) return {};
  const SmallBatchDescription whole(
      plan_, [this](const PlanValue& v) { return row_stride(v); }, options_.max_rows);
  char report[1024] = "";
  dpi_backend_error err{};
  int32_t in_place = 0;
  const int32_t code = api().small_batch_prepare(
      device(), &whole.desc(), &small_batch_, &small_batch_max_rows_, &in_place, report, sizeof report, &err);
  small_batch_report_ = report;
  small_batch_in_place_ = in_place != 0;
  if (code == 0) return {};
  small_batch_ = nullptr;
  if (small_batch_report_.empty()) small_batch_report_ = err.message;
  if (code == static_cast<int32_t>(Code::kUnsupported)) return {};
  return backend_status(code, err, "small batch");
}

void Engine::give_up_graphs(const Status& why) const {
  graphs_.store(false, std::memory_order_relaxed);
  const std::lock_guard lock(note_mutex_);
  try {
    const bool first = graphs_note_.empty();
    graphs_note_ = why.message();
    graphs_note_new_ = first;
  } catch (const std::bad_alloc&) {
    return;  // the reason is not told; the call goes on
  }
}

std::string Engine::take_graphs_note() const {
  const std::lock_guard lock(note_mutex_);
  return std::exchange(graphs_note_new_, false) ? graphs_note_ : std::string();
}

std::string Engine::graphs_note() const {
  const std::lock_guard lock(note_mutex_);
  return graphs_note_;
}

}  // namespace dpi
