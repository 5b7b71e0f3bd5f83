// Bundles that the importers wrote from FuxiCTR's and DeepCTR-Torch's models (tests/parity writes them): the
// engine recomputes what the library computed, with and without the plan's rewrites, in one chunk or in many.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support/bundle_runs.hpp"

namespace dpi::test::golden_bundles_test {
namespace {

std::vector<std::filesystem::path> bundles() { return bundles_in({"tests/e2e/golden"}); }

/// A loaded bundle, or none and the reason in `error`.
ModelPtr try_load(const std::filesystem::path& path, Pairs pairs, Error* error) {
  pairs.emplace_back("device", device());
  dpi_model* model = nullptr;
  const dpi_status status = dpi_model_load(path.c_str(), options(pairs).get(), &model, error);
  return status == DPI_OK ? ModelPtr(model) : ModelPtr();
}

TEST_CASE("a NaN anywhere is infinitely far") {
  CHECK(std::isinf(worst_error({NAN, 1}, {0, 1})));
  CHECK(std::isinf(worst_error({1}, {1, 1})));
  CHECK(worst_error({0, 3}, {0, 2}) == 0.5f);
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
      CHECK(worst_error(request.scores(rewritten.get()), want) <= 1e-5f);
      CHECK(worst_error(request.scores(chunked.get()), want) <= 1e-5f);
      for (int pass = 0; pass < 2; ++pass) {  // the second may be captured
        CHECK(worst_error(request.scores(one_kernel.get()), want) <= 1e-5f);
        CHECK(worst_error(request.scores(no_graphs.get()), want) <= 1e-5f);
      }
    }
  }
}

}  // namespace
}  // namespace dpi::test::golden_bundles_test
