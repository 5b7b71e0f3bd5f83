// RAII and request data for the tests of the C API. Everything goes through <dpi/dpi.h>, as a user's program
// would.
#pragma once

#include <doctest/doctest.h>
#include <dpi/dpi.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/device.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {

inline std::string demo(const std::string& name) { return source_dir() + "/weights/demo/" + name; }

struct Error : dpi_error {
  Error() : dpi_error{} { struct_size = sizeof(dpi_error); }
  std::string text() const { return message; }
};

struct ModelFree {
  void operator()(dpi_model* m) const { dpi_model_free(m); }
};
struct OptionsFree {
  void operator()(dpi_options* o) const { dpi_options_free(o); }
};
struct ContextFree {
  void operator()(dpi_context* c) const { dpi_context_free(c); }
};
struct RowsFree {
  void operator()(dpi_rows* r) const { dpi_rows_free(r); }
};
using ModelPtr = std::unique_ptr<dpi_model, ModelFree>;
using OptionsPtr = std::unique_ptr<dpi_options, OptionsFree>;
using ContextPtr = std::unique_ptr<dpi_context, ContextFree>;
using RowsPtr = std::unique_ptr<dpi_rows, RowsFree>;

using Pairs = std::vector<std::pair<const char*, std::string>>;

inline OptionsPtr options(const Pairs& pairs) {
  OptionsPtr o(dpi_options_create());
  for (const auto& [key, value] : pairs) {
    Error e;
    INFO(e.text());
    REQUIRE(dpi_options_set(o.get(), key, value.c_str(), &e) == DPI_OK);
  }
  return o;
}

/// A demo bundle on the device of this test run.
inline ModelPtr load(const std::string& file, Pairs pairs = {}) {
  pairs.emplace_back("device", device());
  Error e;
  dpi_model* m = nullptr;
  const dpi_status s = dpi_model_load(demo(file).c_str(), options(pairs).get(), &m, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  return ModelPtr(m);
}

inline dpi_model_info info_of(const dpi_model* m) {
  dpi_model_info i{};
  i.struct_size = sizeof i;
  REQUIRE(dpi_model_get_info(m, &i, nullptr) == DPI_OK);
  return i;
}

inline dpi_feature_info feature_of(const dpi_model* m, int32_t f) {
  dpi_feature_info i{};
  i.struct_size = sizeof i;
  REQUIRE(dpi_model_get_feature(m, f, &i, nullptr) == DPI_OK);
  return i;
}

/// Valid one-hot rows of any model: ids spread over the vocabularies, floats in [-1, 1].
struct OneHotRows {
  std::vector<int64_t> ids;
  std::vector<float> dense;
  dpi_batch batch{};
  size_t heads = 1;

  OneHotRows(const dpi_model* m, int64_t rows, uint64_t seed = 1) {
    const dpi_model_info info = info_of(m);
    heads = static_cast<size_t>(info.num_heads);
    ids.resize(static_cast<size_t>(rows * info.num_slots));
    dense.resize(static_cast<size_t>(rows * info.dense_dim));
    uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
    const auto next = [&] { return (state = state * 6364136223846793005ull + 1442695040888963407ull) >> 33; };
    for (int32_t f = 0; f < info.num_features; ++f) {
      const dpi_feature_info feature = feature_of(m, f);
      for (int64_t r = 0; r < rows; ++r) {
        if (feature.slot >= 0) {
          const auto id = static_cast<int64_t>(next() % static_cast<uint64_t>(feature.vocab_size));
          ids[static_cast<size_t>(r * info.num_slots + feature.slot)] = id;
        }
        for (int32_t k = 0; feature.dense_column >= 0 && k < feature.dim; ++k) {
          dense[static_cast<size_t>(r * info.dense_dim + feature.dense_column + k)] =
              static_cast<float>(next() % 2001) / 1000.0f - 1.0f;
        }
      }
    }
    batch.struct_size = sizeof batch;
    batch.rows = rows;
    batch.ids = ids.empty() ? nullptr : ids.data();
    batch.nnz = static_cast<int64_t>(ids.size());
    batch.dense = dense.empty() ? nullptr : dense.data();
  }

  std::vector<float> scores(dpi_model* m) const { return scores_of(m, batch); }

  std::vector<float> scores_of(dpi_model* m, const dpi_batch& b) const {
    std::vector<float> out(static_cast<size_t>(b.rows) * heads, -1.0f);
    Error e;
    const dpi_status s = dpi_predict(m, &b, out.data(), out.size(), nullptr, &e);
    INFO(e.text());
    REQUIRE(s == DPI_OK);
    return out;
  }
};

/// Same bits.
inline bool identical(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Probabilities, so a plain absolute bound; false on NaN.
inline bool close(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const float d = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
    if (!(d <= tolerance)) return false;
  }
  return true;
}

}  // namespace dpi::test
