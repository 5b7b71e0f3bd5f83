// Small bundles with every primitive over awkward shapes; golden values come from numpy loops and torch in
// float64 (op_bundles/README.md). Loading recomputes each head, with and without the plan's rewrites.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/bundle_runs.hpp"

namespace dpi::test::op_bundles_test {
namespace {

std::vector<std::filesystem::path> op_bundles() { return bundles_in({"tests/e2e/op_bundles"}); }

TEST_CASE("all op bundles are there") { CHECK(op_bundles().size() == 16); }

TEST_CASE("every primitive computes its recorded values") {
  for (const auto& path : op_bundles()) {
    for (const char* rewrite : {"on", "off"}) {
      const std::string name = path.stem().string() + ", fold and fuse " + rewrite;
      CAPTURE(name);
      Error error;
      dpi_model* model = nullptr;
      const OptionsPtr opts = options(
          {{"device", device()}, {"debug.fold", rewrite}, {"debug.fuse", rewrite}, {"verify", "golden"}});
      CHECK_MESSAGE(dpi_model_load(path.c_str(), opts.get(), &model, &error) == DPI_OK, error.text());
      const ModelPtr owner(model);
    }
  }
}

}  // namespace
}  // namespace dpi::test::op_bundles_test
