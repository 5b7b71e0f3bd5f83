#include <array>
#include <atomic>
#include <span>

#include "base/at_load.hpp"
#include "handles.hpp"

using dpi::Status;
using dpi::capi::give_text;
using dpi::capi::guard;
using dpi::capi::Visit;

namespace {

const dpi::ModelOptions& options_or_default(const dpi_options* options) {
  static const dpi::ModelOptions kDefault;
  return options != nullptr ? options->values : kDefault;
}

const dpi::AtLoad g_defaults([] { options_or_default(nullptr); });

template <class Load>
dpi_status load_with(dpi_model** out, dpi_error* error, Load&& load) noexcept {
  return guard(error, [&]() -> Status {
    if (out == nullptr) return dpi::invalid_argument("out is null");
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<dpi::Model> model, load());
    auto handle = std::make_unique<dpi_model>();
    handle->model = std::move(model);
    handle->model->observe();
    *out = handle.release();
    return {};
  });
}

template <class Make>
size_t json_of(const dpi_model* model, char* buf, size_t cap, Make&& make) noexcept {
  if (cap > 0 && buf != nullptr) buf[0] = '\0';
  if (model == nullptr) return 0;
  const dpi::FloatEnvironment standard;
  const Visit visit(model);
  if (!visit.ok() || model->model->forked()) return 0;  // a thread that the child has not may hold a lock
  try {
    return give_text(make(*model->model), buf, cap);
  } catch (...) {
    return 0;
  }
}

bool in_range(size_t size, int32_t index) { return index >= 0 && static_cast<size_t>(index) < size; }

int32_t device_kind(const std::string& backend) {
  if (backend == "ref") return DPI_DEVICE_REF;
  if (backend == "cpu") return DPI_DEVICE_CPU;
  return backend == "cuda" ? DPI_DEVICE_CUDA : DPI_DEVICE_OTHER;
}

/// Keeps the last few closed models, so that a call which began before a model was freed, and was held up
/// before its first look, still finds it closed. Each is about a kilobyte, and a few lines per context. No
/// lock: a forked child frees models of its own.
void keep_closed(dpi_model* model) {
  static std::array<std::atomic<dpi_model*>, 64> kept{};
  static std::atomic<size_t> next{0};
  delete kept[next.fetch_add(1, std::memory_order_relaxed) % kept.size()].exchange(model);
}

}  // namespace

extern "C" {

dpi_options* dpi_options_create(void) noexcept { return new (std::nothrow) dpi_options; }

dpi_status dpi_options_set(dpi_options* options, const char* key, const char* value,
                           dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (options == nullptr || key == nullptr || value == nullptr) {
      return dpi::invalid_argument("options, key or value is null");
    }
    if (dpi::is_batch_setting(key)) return dpi::set_batch_setting(&options->batch, key, value);
    return dpi::set_option(&options->values, key, value);
  });
}

dpi_status dpi_options_set_env(dpi_options* options, dpi_env* env, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (options == nullptr) return dpi::invalid_argument("options is null");
    options->values.environment = env != nullptr ? env->environment : nullptr;
    return {};
  });
}

dpi_status dpi_options_set_progress(dpi_options* options, dpi_progress_fn progress, void* user,
                                    const volatile int32_t* cancel, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (options == nullptr) return dpi::invalid_argument("options is null");
    options->values.load = {progress, user, cancel};
    return {};
  });
}

void dpi_options_free(dpi_options* options) noexcept { delete options; }

dpi_status dpi_model_load(const char* path, const dpi_options* options, dpi_model** out,
                          dpi_error* error) noexcept {
  return load_with(out, error, [&]() -> dpi::Result<std::unique_ptr<dpi::Model>> {
    if (path == nullptr) return dpi::invalid_argument("path is null");
    return dpi::Model::load(path, options_or_default(options));
  });
}

dpi_status dpi_model_load_memory(const void* bytes, size_t size, const dpi_options* options, dpi_model** out,
                                 dpi_error* error) noexcept {
  return load_with(out, error, [&]() -> dpi::Result<std::unique_ptr<dpi::Model>> {
    if (bytes == nullptr) return dpi::invalid_argument("bytes is null");
    return dpi::Model::load_memory({static_cast<const std::byte*>(bytes), size}, options_or_default(options));
  });
}

void dpi_model_retain(dpi_model* model) noexcept {
  if (model != nullptr) model->references.fetch_add(1, std::memory_order_relaxed);
}

void dpi_model_free(dpi_model* model) noexcept {
  if (model == nullptr || model->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const dpi::FloatEnvironment standard;
  // In a forked child a GPU's handles and worker threads are the parent's: touching them may hang. The
  // child's copy of the memory goes when it ends.
  if (model->model->forked()) return;
  int64_t inside = model->visitors.fetch_add(dpi_model::kClosing, std::memory_order_acq_rel);
  if (inside >= dpi_model::kClosing) return;
  while ((inside = model->visitors.load(std::memory_order_acquire)) != dpi_model::kClosing)
    model->visitors.wait(inside, std::memory_order_acquire);
  model->model->close();
  keep_closed(model);
}

dpi_status dpi_model_warm_up(dpi_model* model, int64_t max_rows, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr) return dpi::invalid_argument("model is null");
    const Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    DPI_RETURN_IF_ERROR(model->model->check_process());
    Status warm = model->model->warm_up(max_rows);
    model->model->report_events();
    return warm;
  });
}

dpi_status dpi_model_get_info(const dpi_model* model, dpi_model_info* info, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr || info == nullptr) return dpi::invalid_argument("model or info is null");
    const Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    const dpi::Engine& e = model->model->engine();
    const dpi::BatchColumns& l = e.schema().columns;
    dpi_model_info i{};
    i.num_features = static_cast<int32_t>(e.schema().features.size());
    i.num_slots = l.n_slots;
    i.dense_dim = l.n_columns;
    i.num_item_slots = l.n_item_slots;
    i.num_shared_slots = l.n_shared_slots;
    i.item_dense_dim = l.n_item_columns;
    i.shared_dense_dim = l.n_shared_columns;
    i.num_heads = static_cast<int32_t>(e.heads());
    i.device_kind = device_kind(e.api().name);
    i.device_index = e.caps().device_index;
    i.max_rows = e.options().max_rows;
    const dpi::Model::TableBytes tables = model->model->table_bytes();
    const uint64_t weights = e.weight_bytes() * model->model->engines().size();
    i.host_bytes = tables.host + (e.host_memory() ? weights : 0);
    i.device_bytes = tables.device + (e.host_memory() ? 0 : weights);
    i.content_digest = model->model->content_digest();
    i.version = model->model->version();
    return dpi::capi::write_struct(info, "dpi_model_info", dpi::capi::kModelInfo10, sizeof i, &i);
  });
}

dpi_status dpi_model_get_feature(const dpi_model* model, int32_t index, dpi_feature_info* info,
                                 dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr || info == nullptr) return dpi::invalid_argument("model or info is null");
    const Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    const auto& features = model->model->engine().schema().features;
    if (!in_range(features.size(), index)) {
      return dpi::invalid_argument("feature index " + std::to_string(index) + " is not in [0, " +
                                   std::to_string(features.size()) + ")");
    }
    const auto& f = features[static_cast<size_t>(index)];
    dpi_feature_info i{};
    i.kind = static_cast<int32_t>(f.spec.kind);
    i.shared = f.shared ? 1 : 0;
    i.slot = f.slot;
    i.part_slot = f.part_slot;
    i.dense_column = f.column;
    i.part_column = f.part_column;
    i.dim = static_cast<int32_t>(f.spec.dim);
    i.vocab_size = f.spec.vocab_size;
    i.max_len = f.spec.max_len;
    i.has_encoder = f.spec.encoder.empty() ? 0 : 1;
    i.weighted = f.spec.weighted ? 1 : 0;
    return dpi::capi::write_struct(info, "dpi_feature_info", dpi::capi::kFeatureInfo10, sizeof i, &i);
  });
}

int32_t dpi_model_feature_index(const dpi_model* model, const char* name) noexcept {
  if (model == nullptr || name == nullptr) return -1;
  const Visit visit(model);
  if (!visit.ok()) return -1;
  const auto& features = model->model->manifest().features;
  for (size_t i = 0; i < features.size(); ++i) {
    if (features[i].name == name) return static_cast<int32_t>(i);
  }
  return -1;
}

const char* dpi_model_feature_name(const dpi_model* model, int32_t index) noexcept {
  if (model == nullptr) return nullptr;
  const Visit visit(model);
  if (!visit.ok()) return nullptr;
  const auto& features = model->model->manifest().features;
  return in_range(features.size(), index) ? features[static_cast<size_t>(index)].name.c_str() : nullptr;
}

const char* dpi_model_head_name(const dpi_model* model, int32_t index) noexcept {
  if (model == nullptr) return nullptr;
  const Visit visit(model);
  if (!visit.ok()) return nullptr;
  const auto& heads = model->model->manifest().heads;
  return in_range(heads.size(), index) ? heads[static_cast<size_t>(index)].name.c_str() : nullptr;
}

int32_t dpi_table_dim(const dpi_model* model, const char* table) noexcept {
  int32_t dim = -1;
  const dpi_status s = guard(nullptr, [&]() -> Status {
    if (model == nullptr || table == nullptr) return dpi::invalid_argument("model or table is null");
    const Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    DPI_ASSIGN_OR_RETURN(dim, model->model->row_dim(table));
    return {};
  });
  return s == DPI_OK ? dim : -1;
}

dpi_status dpi_table_lookup(const dpi_model* model, const char* table, const int64_t* keys, size_t n,
                            float* out, size_t out_len, dpi_error* error) noexcept {
  return dpi_table_lookup_run(model, table, keys, n, out, out_len, nullptr, error);
}

dpi_status dpi_table_lookup_run(const dpi_model* model, const char* table, const int64_t* keys, size_t n,
                                float* out, size_t out_len, const dpi_run_options* run,
                                dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr || table == nullptr) return dpi::invalid_argument("model or table is null");
    if (n > 0 && (keys == nullptr || out == nullptr))
      return dpi::invalid_argument("keys or out is null, n is " + std::to_string(n));
    dpi::RunControl control;
    size_t logits_len = 0;
    DPI_RETURN_IF_ERROR(dpi::capi::to_control(run, &control, &logits_len));
    if (control.logits != nullptr) return dpi::invalid_argument("logits is not null: rows have none");
    const Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    return model->model->read_rows(table, {keys, n}, {out, n > 0 ? out_len : 0}, control);
  });
}

size_t dpi_model_schema_json(const dpi_model* model, char* buf, size_t cap) noexcept {
  return json_of(model, buf, cap, [](const dpi::Model& m) { return m.schema_json(); });
}

size_t dpi_model_info_json(const dpi_model* model, char* buf, size_t cap) noexcept {
  return json_of(model, buf, cap, [](const dpi::Model& m) {
    m.report_events();
    return m.info_json();
  });
}

size_t dpi_model_counters_json(const dpi_model* model, char* buf, size_t cap) noexcept {
  return json_of(model, buf, cap, [](const dpi::Model& m) {
    m.report_events();
    return m.counters_json();
  });
}

}  // extern "C"
