// The C API as gpu_bench and gpu_check use it: a loaded model with its options, errors as text, and what an
// error means for a comparison. Nothing of the engine is linked, so the programs see what a user's program
// sees.
#pragma once

#include <dpi/dpi.h>

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace dpi::gpu {

using nlohmann::json;
using Options = std::map<std::string, std::string>;

struct Error : dpi_error {
  Error() : dpi_error{} { struct_size = sizeof(dpi_error); }
  /// "unsupported" where this build or device lacks an option, an option's value or an op; else "failed".
  const char* status() const {
    return code == DPI_E_UNSUPPORTED || code == DPI_E_NOT_FOUND ? "unsupported" : "failed";
  }
};

struct ModelFree {
  void operator()(dpi_model* m) const { dpi_model_free(m); }
};
using ModelPtr = std::unique_ptr<dpi_model, ModelFree>;

/// Null with *error filled when an option or the load is refused.
inline ModelPtr load(const std::string& bundle, const Options& options, Error* error) {
  const std::unique_ptr<dpi_options, void (*)(dpi_options*)> chosen(dpi_options_create(), dpi_options_free);
  for (const auto& [key, value] : options) {
    if (dpi_options_set(chosen.get(), key.c_str(), value.c_str(), error) != DPI_OK) return nullptr;
  }
  dpi_model* model = nullptr;
  return dpi_model_load(bundle.c_str(), chosen.get(), &model, error) == DPI_OK ? ModelPtr(model) : nullptr;
}

inline dpi_model_info info_of(const dpi_model* model) {
  dpi_model_info info{};
  info.struct_size = sizeof info;
  static_cast<void>(dpi_model_get_info(model, &info, nullptr));
  return info;
}

/// One of the *_json texts of a model.
template <class F>
json text_of(F function, const dpi_model* model) {
  std::string text(function(model, nullptr, 0), '\0');
  function(model, text.data(), text.size());
  return json::parse(text.c_str(), nullptr, false);
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace dpi::gpu
