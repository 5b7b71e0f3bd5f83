// Bundles that the importers wrote from FuxiCTR's and DeepCTR-Torch's models (tests/parity writes them): the
// engine recomputes what the library computed, with and without the plan's rewrites, in one chunk or in many.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "capi/capi_support.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {
namespace {

std::vector<std::filesystem::path> bundles() {
  std::vector<std::filesystem::path> found;
  const std::filesystem::path folder = std::filesystem::path(source_dir()) / "tests/e2e/golden";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".h5") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// A loaded bundle, or none and the reason in `error`.
ModelPtr try_load(const std::filesystem::path& path, Pairs pairs, Error* error) {
  pairs.emplace_back("device", device());
  dpi_model* model = nullptr;
  const dpi_status status = dpi_model_load(path.c_str(), options(pairs).get(), &model, error);
  return status == DPI_OK ? ModelPtr(model) : ModelPtr();
}

/// Within 1e-5 of max(1, |want|): heads without a sigmoid are logits. False on NaN.
bool near(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!(std::fabs(got[i] - want[i]) <= 1e-5f * std::max(1.0f, std::fabs(want[i])))) return false;
  }
  return true;
}

TEST_CASE("all bundles are there") { CHECK(bundles().size() >= 24); }

TEST_CASE("golden rows hold, whatever the plan rewrites") {
  for (const auto& path : bundles()) {
    for (const char* rewrite : {"on", "off"}) {
      const std::string name = path.stem().string() + ", fold and fuse " + rewrite;
      CAPTURE(name);
      Error error;
      const ModelPtr model =
          try_load(path, {{"debug.fold", rewrite}, {"debug.fuse", rewrite}, {"verify", "golden"}}, &error);
      CHECK_MESSAGE(model != nullptr, error.text());
    }
  }
}

TEST_CASE("a row's score does not depend on rewrites or on its chunk") {
  for (const auto& path : bundles()) {
    CAPTURE(path.stem().string());
    Error error;
    const ModelPtr plain = try_load(path, {{"debug.fold", "off"}, {"debug.fuse", "off"}}, &error);
    const ModelPtr rewritten = try_load(path, {}, &error);
    const ModelPtr chunked = try_load(path, {{"max_rows", "3"}}, &error);
    const ModelPtr one_kernel = try_load(path, {{"small_batch", "on"}}, &error);
    const ModelPtr no_graphs = try_load(path, {{"debug.graphs", "off"}}, &error);
    REQUIRE_MESSAGE((plain && rewritten && chunked && one_kernel && no_graphs), error.text());
    for (const int64_t rows : {int64_t{1}, int64_t{2}, int64_t{33}}) {
      const OneHotRows request(plain.get(), rows);
      const std::vector<float> want = request.scores(plain.get());
      CHECK(near(request.scores(rewritten.get()), want));
      CHECK(near(request.scores(chunked.get()), want));
      for (int pass = 0; pass < 2; ++pass) {  // the second may be captured
        CHECK(near(request.scores(one_kernel.get()), want));
        CHECK(near(request.scores(no_graphs.get()), want));
      }
    }
  }
}

}  // namespace
}  // namespace dpi::test
