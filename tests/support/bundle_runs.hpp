// Whole bundles through the C API, for tests that compare devices and modes: which there are, loading one
// with options, its logits, and how far two sets of them lie apart.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "support/capi_support.hpp"
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

/// The same rows with bags: a sequence has `r % 3` ids in row r, so every third bag is empty.
struct BagRows : OneHotRows {
  std::vector<int64_t> offsets{0};

  BagRows(const dpi_model* m, int64_t rows, uint64_t seed = 1) : OneHotRows(m, rows, seed) {
    const dpi_model_info info = info_of(m);
    std::vector<int64_t> vocabs(static_cast<size_t>(info.num_slots), 0);  // of sequences
    for (int32_t f = 0; f < info.num_features; ++f) {
      const dpi_feature_info feature = feature_of(m, f);
      if (feature.kind == DPI_FEATURE_SEQUENCE)
        vocabs[static_cast<size_t>(feature.slot)] = feature.vocab_size;
    }
    std::vector<int64_t> bags;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t vocab = vocabs[i % vocabs.size()];
      const int64_t n = vocab == 0 ? 1 : static_cast<int64_t>(i / vocabs.size() % 3);
      for (int64_t k = 0; k < n; ++k) bags.push_back(k == 0 ? ids[i] : (ids[i] + k) % vocab);
      offsets.push_back(static_cast<int64_t>(bags.size()));
    }
    ids = std::move(bags);
    batch.ids = ids.data();
    batch.offsets = offsets.data();
    batch.nnz = static_cast<int64_t>(ids.size());
  }
  BagRows(const BagRows&) = delete;
  BagRows& operator=(const BagRows&) = delete;
};

/// Logits as far as scores tell them apart: a sigmoid of 30 and more is 1 in float32. A pooled bag without
/// ids may be -1e9, which fp16 holds as -65504; beyond that only the score is promised.
inline std::vector<float> as_scored(std::vector<float> logits) {
  for (float& v : logits) v = v > 30 ? 30 : v < -30 ? -30 : v;
  return logits;
}

}  // namespace dpi::test
