// Models whose tables lie in the host tier, and what they score. For tests of the runtime.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/model.hpp"
#include "support/device.hpp"
#include "support/random_batch.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {

using Options = std::vector<std::pair<std::string, std::string>>;

/// Options of a tier of so many bytes that all tables are in which can be.
inline Options tier_of(const std::string& bytes, const Options& more = {}) {
  Options o = {{"store.host_bytes", bytes}, {"store.resident_bytes", "0"}};
  o.insert(o.end(), more.begin(), more.end());
  return o;
}

inline ModelOptions options_of(const Options& more) {
  ModelOptions options;
  options.device = device();
  options.max_rows = 16;
  options.max_nnz = 4096;
  options.max_contexts = 4;
  options.fold = false;  // with folds the resident model sums derived columns, which tiered tables have not
  options.refuse_nonfinite = false;
  for (const auto& [key, value] : more) {
    const Status set = set_option(&options, key, value);
    REQUIRE_MESSAGE(set.ok(), set.message());
  }
  return options;
}

inline std::unique_ptr<Model> load(const std::string& path, const Options& more) {
  auto made = Model::load(path, options_of(more));
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  return std::move(made).value();
}

struct Scores {
  Status status;
  std::vector<float> out, logits;
};

inline Scores score(Model& model, const RandomBatch& request, uint64_t deadline_ns = 0) {
  const auto n = static_cast<size_t>(request.batch.item.rows * model.engine().heads());
  Scores s{{}, std::vector<float>(n, std::nanf("")), std::vector<float>(n, std::nanf(""))};
  RunControl control;
  control.logits = s.logits.data();
  control.deadline_ns = deadline_ns;
  s.status = model.predict(request.batch, s.out.data(), control);
  return s;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The least budget, up to a quarter, with which the model loads.
inline std::string least_budget(const std::string& path, const Options& more = {}) {
  for (uint64_t bytes = 4096;; bytes += bytes / 4) {
    const auto made = Model::load(path, options_of(tier_of(std::to_string(bytes), more)));
    if (made.ok()) return std::to_string(bytes);
    REQUIRE(made.status().code() == Code::kOutOfMemory);
  }
}

inline std::vector<std::string> bundles() {
  std::vector<std::string> paths;
  for (const char* folder : {"weights/demo", "tests/e2e/golden", "tests/e2e/op_bundles"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/" + folder)) {
      if (entry.path().extension() == ".h5") paths.push_back(entry.path().string());
    }
  }
  return paths;
}

}  // namespace dpi::test
