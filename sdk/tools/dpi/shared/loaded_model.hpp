// A model through the C API, with failures as CommandError.
#pragma once

#include <dpi/dpi.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "sdk/tools/dpi/shared/command_error.hpp"
#include "sdk/tools/dpi/shared/common_flags.hpp"

namespace dpi::tool {

/// Which exit status a failure of loading or running is.
ExitCode exit_of(dpi_status status, bool loading);
/// Throws when `status` failed: used for the engine's own calls (inspect, plan).
void check(const Status& status, bool loading);
template <class T>
T take(Result<T> result) {
  if (!result.ok()) check(result.status(), true);
  return std::move(result).value();
}

class LoadedModel {
 public:
  LoadedModel(const std::string& path, const CommonFlags& flags);

  dpi_model* get() const { return model_.get(); }
  const dpi_model_info& info() const { return info_; }
  const std::vector<dpi_feature_info>& features() const { return features_; }
  const nlohmann::json& schema() const { return schema_; }
  const nlohmann::json& details() const { return details_; }                // dpi_model_info_json
  const nlohmann::json& options() const { return details_.at("options"); }  // in force
  nlohmann::json counters() const;                                          // dpi_model_counters_json
  std::string feature_name(int32_t i) const { return dpi_model_feature_name(get(), i); }
  std::string head_name(int32_t i) const { return dpi_model_head_name(get(), i); }
  /// "cpu (AMD EPYC, avx512)".
  std::string device_text() const;
  /// With --device auto: prints on stderr why a better device was not taken. Without the flag the summary's
  /// device says enough.
  void note_device() const;

 private:
  struct Free {
    void operator()(dpi_model* m) const { dpi_model_free(m); }
  };
  std::unique_ptr<dpi_model, Free> model_;
  bool asked_for_auto_;
  dpi_model_info info_{};
  std::vector<dpi_feature_info> features_;
  nlohmann::json schema_, details_;
};

}  // namespace dpi::tool
