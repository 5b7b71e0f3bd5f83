// Calls to a model with tables in the host tier allocate nothing after the first. By itself: a program that
// replaces operator new cannot load plugins under AddressSanitizer.
#include "runtime/tier_model.hpp"
#include "support/count_allocations.hpp"

namespace dpi::test::tiered_allocations_test {
namespace {

TEST_CASE("a call allocates nothing, whether its rows are there or fetched") {
  const std::string path = source_dir() + "/weights/demo/msweb_deepfm.h5";
  for (const char* budget : {"67108864", "40000"}) {
    CAPTURE(budget);
    const auto tiered = load(path, tier_of(budget));
    const auto heads = static_cast<size_t>(tiered->engine().heads());
    const RandomBatch first(tiered->engine().schema(), 5, 0, 0);
    std::vector<float> out(5 * heads);
    REQUIRE(tiered->predict(first.batch, out.data(), {}).ok());
    for (unsigned seed = 1; seed < 6; ++seed) {
      const RandomBatch request(tiered->engine().schema(), 5, 0, seed);
      Status s;
      CHECK(allocations_during([&] { s = tiered->predict(request.batch, out.data(), {}); }) == 0);
      CHECK_MESSAGE(s.ok(), s.message());
    }
  }
}

}  // namespace
}  // namespace dpi::test::tiered_allocations_test
