#include "injection/stage.hpp"

#include "support/emu_plugin.hpp"

namespace dpi::test {
namespace {

constexpr int64_t kFew = 5, kMany = 40;
constexpr const char* kMaxRows = "16";

void hear(void*, int32_t, const char*, const char*) {}

void* open_plugin() {
  const std::string path = emu_plugin_path();
  void* const plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  need(plugin != nullptr, "the plugin cuda_emu");
  return plugin;
}

template <class F>
F symbol(void* plugin, const char* name) {
  auto* const f = reinterpret_cast<F>(dlsym(plugin, name));
  need(f != nullptr, name);
  return f;
}

}  // namespace

void Request::make(const dpi_model* m, int64_t rows) {
  dpi_model_info info{};
  info.struct_size = sizeof info;
  need(dpi_model_get_info(m, &info, nullptr) == DPI_OK, "model info");
  ids.assign(static_cast<size_t>(rows * info.num_slots), 0);
  dense.assign(static_cast<size_t>(rows * info.dense_dim), 0.25f);
  for (int32_t f = 0; f < info.num_features; ++f) {
    dpi_feature_info feature{};
    feature.struct_size = sizeof feature;
    need(dpi_model_get_feature(m, f, &feature, nullptr) == DPI_OK, "feature info");
    for (int64_t r = 0; feature.slot >= 0 && r < rows; ++r)
      ids[static_cast<size_t>(r * info.num_slots + feature.slot)] = (r * 7 + f) % feature.vocab_size;
  }
  out.assign(static_cast<size_t>(rows * info.num_heads), -1.0f);
  batch.rows = rows;
  batch.ids = ids.empty() ? nullptr : ids.data();
  batch.nnz = static_cast<int64_t>(ids.size());
  batch.dense = dense.empty() ? nullptr : dense.data();
}

void Request::predict(Run& run, dpi_model* m, const char* what) {
  out.assign(out.size(), -1.0f);
  run.call(what, [&](dpi_error* e) { return dpi_predict(m, &batch, out.data(), out.size(), nullptr, e); });
  run.check(right(), what);
}

ServingStage::ServingStage(const Cast& cast, int contexts) : cast_(cast), contexts_(contexts) {
  if (cast.device == "cuda_emu") {
    plugin_ = open_plugin();
    device.fail = symbol<decltype(&dpi_emu_fail)>(plugin_, "dpi_emu_fail");
    device.calls = symbol<decltype(&dpi_emu_calls)>(plugin_, "dpi_emu_calls");
  }
  if (contexts != 1) fill_closed();  // of one context they are there
  open_options();
  set("max_contexts", "1");  // it is always the same one
  served_ = load();
  close_options();
  for (Request* r : {&served_rows_, &few, &many}) {
    r->make(served_, r == &many ? kMany : kFew);
    dpi_error e = DPI_ERROR_INIT;
    need(dpi_predict(served_, &r->batch, r->out.data(), r->out.size(), nullptr, &e), e);
    r->want = r->out;
  }
  for (int i = 0; i < 3; ++i) static_cast<void>(served_bits());  // op by op, captured, replayed
  invariants.push_back({"the model that served", [this] { return served_bits(); }});
  if (plugin_ == nullptr) return;
  auto* const live = symbol<decltype(&dpi_emu_live)>(plugin_, "dpi_emu_live");
  auto* const last = symbol<decltype(&dpi_emu_last_code)>(plugin_, "dpi_emu_last_code");
  invariants.push_back({"what the device holds", [live] { return emu_alive(live); }});
  invariants.push_back({"the device's last error", [last] { return std::to_string(last()); }});
}

void fill_closed(const std::string& bundle) { ServingStage({"ref", bundle, "", "", {}}, 1).fill_closed(); }

ServingStage::~ServingStage() {
  act = nullptr;
  dpi_model_free(served_);
  if (plugin_ != nullptr) dlclose(plugin_);
}

void ServingStage::open_options() {
  need(dpi_env_create(&env_, nullptr) == DPI_OK, "an environment");
  need(dpi_env_set_log(env_, hear, nullptr, DPI_LOG_DEBUG, nullptr) == DPI_OK, "a log");
  options_ = dpi_options_create();
  need(options_ != nullptr, "options");
  need(dpi_options_set_env(options_, env_, nullptr) == DPI_OK, "options in an environment");
  set("device", cast_.device.c_str());
  set("max_rows", kMaxRows);
  set("max_nnz", "64");
  set("max_contexts", std::to_string(contexts_).c_str());
  for (const auto& [key, value] : cast_.extra) set(key.c_str(), value.c_str());
}

void ServingStage::close_options() {
  dpi_options_free(options_);
  dpi_env_free(env_);
}

void ServingStage::set(const char* key, const char* value) {
  dpi_error e = DPI_ERROR_INIT;
  need(dpi_options_set(options_, key, value, &e), e);
}

dpi_model* ServingStage::load() {
  dpi_model* m = nullptr;
  dpi_error e = DPI_ERROR_INIT;
  need(dpi_model_load(path(), options_, &m, &e), e);
  return m;
}

void ServingStage::fill_closed() {
  constexpr int kKept = 64;
  open_options();
  set("device", "ref");
  for (int i = 0; i < kKept; ++i) dpi_model_free(load());
  close_options();
}

std::string ServingStage::served_bits() {
  Request& r = served_rows_;
  r.out.assign(r.out.size(), -1.0f);
  dpi_error e = DPI_ERROR_INIT;
  if (dpi_predict(served_, &r.batch, r.out.data(), r.out.size(), nullptr, &e) != DPI_OK) return e.message;
  return r.right() ? "right" : "other scores";
}

}  // namespace dpi::test
