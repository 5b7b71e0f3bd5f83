#include "runtime/engine/engine_loader.hpp"

#include <algorithm>
#include <utility>

#include "graph/bundle_params.hpp"
#include "runtime/engine/flight_sizes.hpp"
#include "runtime/load/table_loader.hpp"
#include "runtime/load/tiers.hpp"

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

void count_held(void* self, int64_t bytes, int32_t on_device) {
  static_cast<HeldBytes*>(self)->add(bytes, on_device != 0);
}

kernels::DType activation_type(Precision precision) {
  if (precision == Precision::kFp16) return kernels::DType::kF16;
  return precision == Precision::kBf16 ? kernels::DType::kBF16 : kernels::DType::kF32;
}

}  // namespace

Status EngineLoader::load(std::unique_ptr<TableStore> store) {
  DPI_RETURN_IF_ERROR(watch_->enter(LoadStage::kPlan, 1));
  DPI_RETURN_IF_ERROR(make_plan());
  DPI_RETURN_IF_ERROR(check_user_cache());
  DPI_RETURN_IF_ERROR(choose_range());
  if (store == nullptr) DPI_RETURN_IF_ERROR(claim_tables());
  // Only the option's limit is looked at so early: what a device has free is the same once ops are prepared.
  DeviceSizes sizes{!engine_.host_memory(),
                    engine_.caps_.alignment,
                    0,
                    0,
                    least_weight_bytes(engine_.options_),
                    claims_.given_bytes() + there_bytes_,
                    tier_claim_.given() != nullptr};
  sizes.range = engine_.range_;
  DPI_RETURN_IF_ERROR(check_limit(sizes));
  DPI_RETURN_IF_ERROR(upload_constants());
  DPI_RETURN_IF_ERROR(prepare_ops());
  if (engine_.options_.small_batch) DPI_RETURN_IF_ERROR(prepare_small_batch());
  drop_params();
  engine_.weights_held_ = HeldCount(engine_.options_.held, packed_bytes(), !engine_.host_memory());
  engine_.store_ = std::move(store);
  if (engine_.store_ == nullptr) DPI_RETURN_IF_ERROR(make_store());
  DPI_RETURN_IF_ERROR(check_memory());
  DPI_RETURN_IF_ERROR(make_user_cache());
  DPI_RETURN_IF_ERROR(load_tables());
  DPI_RETURN_IF_ERROR(watch_->enter(LoadStage::kOps, 1));
  engine_.graphs_ = engine_.options_.graphs && (engine_.caps_.flags & DPI_BACKEND_CAPTURE) != 0;
  return {};
}

Status EngineLoader::open_backend() {
  backend::BackendRequest request;
  request.device = engine_.options_.device;
  request.backend_dir = engine_.options_.backend_dir;
  request.options = backend_options(engine_.options_);
  engine_.device_ = std::make_shared<Engine::OpenDevice>();
  engine_.device_->environment = engine_.options_.environment;
  engine_.device_->hooks = engine_.options_.environment->memory();
  engine_.device_->memory = memory_of(&engine_.device_->hooks);
  engine_.device_->hooks.held = engine_.options_.held;
  request.options.held_self = engine_.options_.held.get();
  if (request.options.held_self != nullptr) request.options.held = count_held;
  if (engine_.device_->hooks.alloc != nullptr) request.options.memory = &engine_.device_->memory;
  request.log = &engine_.log();
  DPI_ASSIGN_OR_RETURN(engine_.device_->backend, backend::open_backend(request));
  dpi_backend_error err{};
  engine_.caps_.struct_size = sizeof engine_.caps_;
  DPI_RETURN_IF_ERROR(
      backend_status(engine_.api().caps(engine_.device(), &engine_.caps_, &err), err, "backend"));
  if (!engine_.host_memory() || engine_.options_.threads == 1) return {};
  engine_.pool_user_.emplace(engine_.pool());
  engine_.pool().spin_for(int64_t{1000} * engine_.options_.spin_us);
  return engine_.pool().grow(engine_.options_.threads);
}

/// Refuses row types that the device does not decode.
Status EngineLoader::check_rows() const {
  if ((engine_.caps_.flags & DPI_BACKEND_ROWS) != 0) return {};
  for (const TableSpec& t : bundle_->manifest().tables) {
    if (!kernels::row_form(t.dtype).whole) continue;
    return unsupported(
        bundle_->name() + ": table '" + t.name + "' has rows of " + kernels::name_of(t.dtype) +
        ", which device '" + engine_.caps_.device_name + "' does not decode: load the model on the CPU, or " +
        (t.external ? std::string("load the table into the store as i8")
                    : "convert it: `dpi-export convert BUNDLE NEW --dtype i8 --table " + t.name + "`"));
  }
  return {};
}

Status EngineLoader::make_plan() {
  PlanOptions plan_options = dpi::plan_options(engine_.options_);
  if (Status chosen = choose_tiers(bundle_->manifest(), engine_.options_, &plan_options); !chosen.ok())
    return std::move(chosen).within(bundle_->name());
  BundleParams params(*bundle_);
  auto graph = build_graph(bundle_->manifest(), params);
  if (!graph.ok()) return std::move(graph).status().within(bundle_->name());
  DPI_RETURN_IF_ERROR(open_backend());
  DPI_RETURN_IF_ERROR(check_rows());
  plan_options.max_streams = std::max(1, engine_.caps_.max_streams);
  if ((engine_.caps_.flags & DPI_BACKEND_HALF) != 0)
    plan_options.activation = activation_type(engine_.options_.precision);
  DPI_ASSIGN_OR_RETURN(engine_.plan_, dpi::make_plan(graph.value(), plan_options));
  for (PlanOp& op : engine_.plan_.ops) op.bind_pointers();
  if (plan_options.activation != kernels::DType::kF32) narrow_tables(plan_options.activation, &engine_.plan_);
  engine_.schema_ = make_resolve_schema(engine_.plan_.features, engine_.plan_.placements);
  return {};
}

Status EngineLoader::check_limit(DeviceSizes device) {
  device.warms = base_ != nullptr;
  DPI_ASSIGN_OR_RETURN(engine_.memory_, forecast_memory(*bundle_, engine_.plan_, engine_.options_, device));
  if (engine_.options_.memory_limit == 0 || engine_.memory_.most() <= engine_.options_.memory_limit)
    return {};
  return {Code::kOutOfMemory,
          "the model needs " + engine_.memory_.text() + ", but option memory_limit allows " +
              std::to_string(engine_.options_.memory_limit) + " bytes; nothing was loaded"};
}

/// Everything against the option; tables, weights and the device's part of a flight against what it has free.
/// What the host has free is looked at by the store.
Status EngineLoader::check_memory() {
  DeviceSizes sizes{!engine_.host_memory(), engine_.caps_.alignment, 0, 0};
  sizes.shared = engine_.memory_.shared;
  sizes.tier_given = engine_.memory_.host_tier_shared > 0;
  sizes.range = engine_.range_;
  const ModelOptions& o = engine_.options_;
  DPI_ASSIGN_OR_RETURN(const FlightSizes flight,
                       FlightSizes::make(engine_.plan_, engine_.schema_, o,
                                         {o.max_rows, o.max_nnz, sizes.alignment, sizes.on_device}));
  std::vector<uint64_t> scratch(static_cast<size_t>(engine_.plan_.n_streams), 64);
  for (size_t i = 0; i < engine_.ops_.size(); ++i) {
    const PlanOp& op = engine_.plan_.ops[i];
    uint64_t& most = scratch[static_cast<size_t>(op.stream)];
    const int64_t rows = flight.rows_of(space_of(engine_.plan_, op));
    most = std::max<uint64_t>(most, engine_.api().op_scratch_bytes(engine_.ops_[i], rows));
  }
  for (const uint64_t bytes : scratch) sizes.scratch += bytes;
  sizes.weights = packed_bytes() + const_bytes_;
  DPI_RETURN_IF_ERROR(check_limit(sizes));
  const uint64_t rows =
      engine_.memory_.own_tables + engine_.memory_.device_cache + engine_.memory_.peer_copies;
  const uint64_t needs = rows + engine_.memory_.device_flight;  // weights are there
  if (engine_.host_memory() || engine_.caps_.memory_free == 0 ||
      needs + engine_.memory_.weights <= engine_.caps_.memory_free)
    return {};
  const auto mib = [](uint64_t bytes) { return std::to_string((bytes >> 20) + 1) + " MiB"; };
  return {Code::kOutOfMemory, "the model needs " + mib(needs + engine_.memory_.weights) + " (tables " +
                                  mib(rows) + ", weights " + mib(engine_.memory_.weights) +
                                  ", one call of max_rows=" + std::to_string(engine_.options_.max_rows) +
                                  " " + mib(engine_.memory_.device_flight) + "), but only " +
                                  mib(engine_.caps_.memory_free) +
                                  " of device memory are free; nothing was loaded"};
}

}  // namespace dpi
