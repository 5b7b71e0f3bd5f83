// A model whose rows' file goes bad under it (somebody writes to it): scores with store.down=default are
// those of a resident model whose tables have the default row in place of each row that is not cached, and
// counters, info and the log say what happened. The oracle never sees a tier. Planted, each seen: the number
// of table.NAME.default left out; store.down_failures not passed on.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/filed_bundle.hpp"
#include "runtime/shared_world.hpp"

namespace dpi::test::store_down_model_test {
namespace {

constexpr const char* kBudget = "80000";  // of 324000 bytes of rows
constexpr float kFill = 0.1f;

ModelOptions options_of(World& world, const Bundle& bundle, const std::string& policy) {
  Options o = {{"debug.fold", "off"},
               {"store.down", policy},
               {"store.down_failures", "2"},
               {"store.fetch_threads", "1"}};
  for (const TableSpec& t : bundle.manifest().tables) o.emplace_back("table." + t.name + ".default", "0.1");
  return world.options(tier_of(kBudget, o));
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Has the file written to, and calls fail until its store is down.
void bring_down(FiledBundle* bundle, Model& m) {
  bundle->write();
  for (unsigned seed = 100; seed < 150 && has(m.counters_json(), "\"up\":true"); ++seed) {
    const Scores s = score(m, RandomBatch(m.engine().schema(), 37, 0, seed));
    CHECK(
        (s.status.ok() || s.status.code() == Code::kIo));  // a call of several reads may be the last to fail
  }
  REQUIRE(has(m.counters_json(), "\"up\":false"));
}

/// Puts the default row where the model has no row: how many it has, and how many it has not.
std::pair<int64_t, int64_t> replace_missing(const Model& m, StatedBundle* expected) {
  int64_t there = 0, missing = 0;
  for (const PlanTable& t : m.engine().plan().tables) {
    std::vector<float>& rows = expected->tables[static_cast<size_t>(t.source)];
    const auto dim = static_cast<size_t>(t.dim);
    for (size_t row = 0; row * dim < rows.size(); ++row) {
      std::vector<float> got(dim);
      const auto key = static_cast<int64_t>(row);
      REQUIRE(m.read_rows(t.name, {&key, 1}, got).ok());
      const std::span<float> want(rows.data() + row * dim, dim);
      const bool gone = !std::equal(want.begin(), want.end(), got.begin());
      ++(gone ? missing : there);
      if (!gone) continue;
      std::fill(want.begin(), want.end(), kFill);
      CHECK(std::equal(want.begin(), want.end(), got.begin()));
    }
  }
  return {there, missing};
}

TEST_CASE("store.down=default: the scores of a model that has default rows where none is cached") {
  World world;
  WideDeep made;
  FiledBundle bundle(made.b, 1), expected(made.b, 1);
  const ModelPtr m = create(bundle, options_of(world, bundle, "default"));
  REQUIRE(score(*m, RandomBatch(m->engine().schema(), 37, 0, 1)).status.ok());
  CHECK(has(m->counters_json(), "\"last_error\":\"\",\"last_error_text\":\"\",\"last_error_ms\":0"));
  bring_down(&bundle, *m);
  if (device() == "cuda_emu") return;  // whose rows read_rows cannot see
  const auto [there, missing] = replace_missing(*m, &expected);
  CHECK(there > 100);
  CHECK(missing > 100);
  const ModelPtr oracle = create(expected, world.options({{"debug.fold", "off"}, {"store.share", "off"}}));
  for (unsigned seed = 0; seed < 5; ++seed) {
    const RandomBatch request(m->engine().schema(), 37, 0, seed);
    const Scores got = score(*m, request), want = score(*oracle, request);
    REQUIRE_MESSAGE(got.status.ok(), got.status.message());
    CHECK(same_bits(got.out, want.out));
    CHECK(same_bits(got.logits, want.logits));
  }
}

TEST_CASE("store.down=fail: DPI_E_IO that names the store; counters and info say so, too") {
  World world;
  WideDeep made;
  FiledBundle bundle(made.b, 1);
  const ModelPtr m = create(bundle, options_of(world, bundle, "fail"));
  bring_down(&bundle, *m);
  const Scores s = score(*m, RandomBatch(m->engine().schema(), 37, 0, 1));
  CHECK(s.status.code() == Code::kIo);
  CHECK_MESSAGE(has(s.status.message(), "store 'bundle' (stated) is down (store.down=fail)"),
                s.status.message());
  for (const std::string& json : {m->counters_json(), m->info_json()}) {
    CHECK_MESSAGE(
        has(json, "\"stores\":[{\"name\":\"bundle\",\"place\":\"stated\",\"up\":false,\"since_ms\":1"), json);
    CHECK(has(json, "\"times_down\":1,"));
    CHECK(
        has(json, "\"last_error\":\"DPI_E_IO\",\"last_error_text\":\"stated: the file has been written to"));
  }
  std::vector<std::string> said;
  for (int ms = 0; ms < 20000 && said.empty(); ++ms) {
    said = warnings(world);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(said.size() == 1);
  CHECK_MESSAGE(
      has(said[0], "store 'bundle' (stated) is down after 2 failed reads: DPI_E_IO, stated: the file "),
      said[0]);
}

}  // namespace
}  // namespace dpi::test::store_down_model_test
