// Whole bundles through the C API, for tests that compare devices and modes: which there are, loading one
// with options, its logits, and how far two sets of them lie apart.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "capi/capi_support.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {

/// The bundles of folders of the source tree, by name.
inline std::vector<std::filesystem::path> bundles_in(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> found;
  for (const std::string& folder : folders) {
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + ("/" + folder))) {
      if (entry.path().extension() == ".h5") found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// `pairs` name the device too.
inline ModelPtr load_bundle(const std::filesystem::path& path, const Pairs& pairs) {
  Error error;
  dpi_model* model = nullptr;
  const dpi_status status = dpi_model_load(path.c_str(), options(pairs).get(), &model, &error);
  INFO(error.text());
  REQUIRE(status == DPI_OK);
  return ModelPtr(model);
}

/// Logits, and scores for heads without one. Both start as NaN, so what is not written stays NaN.
inline std::vector<float> logits_of(dpi_model* m, const OneHotRows& rows) {
  const size_t n = static_cast<size_t>(rows.batch.rows) * rows.heads;
  std::vector<float> scores(n, NAN), logits(n, NAN);
  dpi_run_options run{};
  run.struct_size = sizeof run;
  run.logits = logits.data();
  run.logits_len = n;
  Error error;
  const dpi_status s = dpi_predict(m, &rows.batch, scores.data(), n, &run, &error);
  INFO(error.text());
  REQUIRE(s == DPI_OK);
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(logits[i])) logits[i] = scores[i];
  }
  return logits;
}

/// The largest error, relative to max(1, |want|); infinite where anything is NaN or sizes differ.
inline float worst_error(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return INFINITY;
  float worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const float error = std::fabs(got[i] - want[i]) / std::max(1.0f, std::fabs(want[i]));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

/// Not `dt_wdl_max` in fp16: its empty bag is -1e9 in each column, which float16 does not hold.
inline bool fits(const std::string& name, const std::string& precision) {
  return name != "dt_wdl_max" || precision != "fp16";
}

}  // namespace dpi::test
