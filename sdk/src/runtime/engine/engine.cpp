#include "runtime/engine/engine.hpp"

#include <algorithm>
#include <utility>

#include "runtime/engine/engine_loader.hpp"
#include "runtime/options/device_list.hpp"

namespace dpi {

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

Result<std::unique_ptr<Engine>> Engine::create(Bundle& bundle, const ModelOptions& options,
                                               std::unique_ptr<TableStore> store, LoadWatch* watch) {
  static std::atomic<uint64_t> loads{0};
  std::unique_ptr<Engine> e(new Engine());
  e->number_ = ++loads;
  e->options_ = options;
  e->options_.environment = environment_of(options);
  e->options_.load = {};  // the caller's, and only while loading
  e->options_.device_index = devices_of(options)[0];
  LoadWatch own(options, bundle.name());
  EngineLoader loader(e.get(), &bundle, options.load.base, watch != nullptr ? watch : &own);
  DPI_RETURN_IF_ERROR(loader.load(std::move(store)));
  loader.tell_range();
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
  ModelOptions quiet = e->options_;  // its stages are no stages of the model's
  quiet.load.cancel = options.load.cancel;
  quiet.load.bytes_per_second = options.load.bytes_per_second;
  LoadWatch watch(quiet, bundle.name());
  DPI_RETURN_IF_ERROR(EngineLoader(e.get(), &bundle, &base, &watch).load(nullptr));
  return e;
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

std::vector<LoadBase::Table> Engine::held_tables() const {
  std::vector<LoadBase::Table> held;
  held.reserve(plan_.tables.size());
  for (size_t t = 0; t < plan_.tables.size(); ++t)
    held.push_back(
        {plan_.tables[t].name, plan_.tables[t].source, store_->handover().holds(static_cast<int32_t>(t))});
  return held;
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

void Engine::set_work_rows(bool awake, const WorkRows& rows) const {
  share_rows_[awake].store(rows.min_share, std::memory_order_relaxed);
  crew_rows_[awake].store(rows.crew_rows, std::memory_order_relaxed);
}

void Engine::capture_failed(const Status& why, bool given_up) const {
  if (given_up && !captured_.load(std::memory_order_relaxed)) graphs_.store(false, std::memory_order_relaxed);
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
