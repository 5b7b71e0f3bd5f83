#include "sdk/tools/dpi/shared/loaded_model.hpp"

#include <cstdio>

#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

struct FreeOptions {
  void operator()(dpi_options* o) const { dpi_options_free(o); }
};

void show_stage(void* progress, const char* stage, uint64_t done, uint64_t total) {
  auto* p = static_cast<Progress*>(progress);
  p->set_label(std::string("loading: ") + stage);
  p->update(done, total);
}

template <class Fill>
nlohmann::json json_of(Fill fill) {
  std::string text;
  // Counters of a model that is called meanwhile have more digits at the next look.
  for (size_t n = fill(nullptr, 0); n > text.size(); n = fill(text.data(), text.size()))
    text.assign(n + 256, '\0');
  text.resize(text.find('\0') + 1);
  if (!text.empty()) text.pop_back();  // the NUL
  return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace

ExitCode exit_of(dpi_status status, bool loading) {
  switch (status) {
    case DPI_E_NO_DEVICE:
    case DPI_E_DEVICE:
    case DPI_E_OUT_OF_MEMORY:
      return kExitDevice;
    case DPI_E_NOT_FOUND:
    case DPI_E_IO:
    case DPI_E_BAD_MODEL:
    case DPI_E_UNSUPPORTED:
      return loading ? kExitBadBundle : kExitOther;
    case DPI_E_INVALID_ARGUMENT:
      return loading ? kExitUsage : kExitBadInput;
    default:
      return kExitOther;
  }
}

void check(const Status& status, bool loading) {
  if (status.ok()) return;
  throw CommandError(exit_of(static_cast<dpi_status>(status.code()), loading), status.message());
}

LoadedModel::LoadedModel(const std::string& path, const CommonFlags& flags)
    : asked_for_auto_(flags.device == "auto") {
  dpi_error e{};
  e.struct_size = sizeof e;
  const std::unique_ptr<dpi_options, FreeOptions> options(dpi_options_create());
  if (options == nullptr) throw CommandError(kExitDevice, "out of memory");
  for (const auto& [key, value] : flags.pairs()) {
    if (dpi_options_set(options.get(), key.c_str(), value.c_str(), &e) != DPI_OK)
      throw CommandError(kExitUsage, e.message);
  }
  dpi_model* model = nullptr;
  Progress progress("loading");
  if (dpi_options_set_progress(options.get(), show_stage, &progress, nullptr, &e) != DPI_OK)
    throw CommandError(kExitOther, e.message);
  const dpi_status status = dpi_model_load(path.c_str(), options.get(), &model, &e);
  if (status != DPI_OK) throw CommandError(exit_of(status, true), e.message);
  model_.reset(model);
  info_.struct_size = sizeof info_;
  if (dpi_model_get_info(model, &info_, &e) != DPI_OK) throw CommandError(kExitOther, e.message);
  for (int32_t i = 0; i < info_.num_features; ++i) {
    dpi_feature_info f{};
    f.struct_size = sizeof f;
    if (dpi_model_get_feature(model, i, &f, &e) != DPI_OK) throw CommandError(kExitOther, e.message);
    features_.push_back(f);
  }
  schema_ = json_of([&](char* b, size_t n) { return dpi_model_schema_json(model, b, n); });
  details_ = json_of([&](char* b, size_t n) { return dpi_model_info_json(model, b, n); });
}

nlohmann::json LoadedModel::counters() const {
  return json_of([&](char* b, size_t n) { return dpi_model_counters_json(get(), b, n); });
}

std::string LoadedModel::device_text() const {
  const auto device = details_.value("device", nlohmann::json::object());
  const std::string name = device.value("name", "");
  return device.value("backend", "?") + (name.empty() ? "" : " (" + name + ")");
}

void LoadedModel::note_device() const {
  const std::string note = details_.value("device", nlohmann::json::object()).value("note", "");
  if (asked_for_auto_ && !note.empty()) print_line(stderr, "dpi: note: %s", note.c_str());
}

}  // namespace dpi::tool
