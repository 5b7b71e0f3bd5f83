// Models of one environment whose tiered tables and options are equal use one host tier: scores are those of
// models that share nothing, memory is counted by the environment's hooks, fetch threads by the process, and
// each model counts what its own calls met. Rows that differ are never shared, whatever hash they come with.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/filed_bundle.hpp"
#include "runtime/shared_world.hpp"

namespace dpi::test::shared_tiers_test {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNoTable = 64;           // the block of resident tables of a model that has none
constexpr const char* kBudget = "80000";  // of 324000 bytes of rows

int64_t holders(const Model& m) {
  int64_t models = -1;
  for (size_t t = 0; t < m.engine().plan().tables.size(); ++t) {
    if (m.engine().plan().tables[t].tiered)
      models = m.engine().store().handover().share(static_cast<int32_t>(t)).models;
  }
  return models;
}

TierStats sum(const Model& m) {
  TierStats all;
  for (size_t t = 0; t < m.engine().plan().tables.size(); ++t) {
    const auto s = m.engine().store().tier_stats(static_cast<int32_t>(t));
    if (!s) continue;
    all.hits += s->hits, all.late += s->late, all.defaulted += s->defaulted;
    all.fetched += s->fetched, all.failed += s->failed, all.bytes += s->bytes;
  }
  return all;
}

Scores resident_scores(Bundle& bundle, World& world, const RandomBatch& request) {
  const ModelPtr resident = create(bundle, world.options({{"debug.fold", "off"}, {"store.share", "off"}}));
  return score(*resident, request);
}

ModelOptions tier_options(World& world, const Options& more = {}) {
  Options all = {{"debug.fold", "off"}};
  all.insert(all.end(), more.begin(), more.end());
  return world.options(tier_of(kBudget, all));
}

/// The scores of `m` are those of a model whose tables are resident, and those of one that is alone.
void check_scores(Model& m, Bundle& bundle, World& world) {
  const ModelPtr alone = create(bundle, tier_options(world, {{"store.share", "off"}}));
  CHECK(holders(*alone) == 0);
  for (unsigned seed = 0; seed < 3; ++seed) {
    const RandomBatch request(m.engine().schema(), 37, 0, seed);
    const Scores want = resident_scores(bundle, world, request), own = score(*alone, request);
    const Scores got = score(m, request);
    CHECK_MESSAGE(got.status.ok(), got.status.message());
    CHECK(same_bits(got.out, want.out));
    CHECK(same_bits(got.logits, want.logits));
    CHECK(same_bits(got.out, own.out));
  }
}

int fetch_threads() {
  int n = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string name;
    std::getline(comm, name);
    n += name == "dpi-fetch" ? 1 : 0;
  }
  return n;
}

/// A thread takes its name, and leaves the process, a moment after others hear of it.
bool has_fetch_threads(int n) {
  for (int ms = 0; ms < 20000 && fetch_threads() != n; ++ms)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return fetch_threads() == n;
}

TEST_CASE("five models of equal tables and different dense parts use one tier, which goes with the last") {
  World world;
  WideDeep made;
  std::vector<std::unique_ptr<FiledBundle>> bundles;
  std::vector<ModelPtr> models;
  size_t with_one = 0, most = 0;
  for (int i = 0; i < 5; ++i) {
    bundles.push_back(std::make_unique<FiledBundle>(made.b, 1.0f + 0.25f * static_cast<float>(i)));
    const size_t before = world.meter.tables;
    models.push_back(create(*bundles.back(), tier_options(world)));
    (i == 0 ? with_one : most) = world.meter.tables - before;
    if (i > 0) CHECK(most <= kNoTable);  // nothing that rows or directories lie in
  }
  if (on_host()) CHECK(with_one >= 40000);
  if (on_host()) CHECK(with_one <= 80000 + 4 * 4096);
  CHECK(has_fetch_threads(2));
  const MemoryForecast& first = models[0]->engine().memory();
  CHECK(first.host_tier > 40000);
  CHECK(first.host_tier_shared == 0);
  for (size_t i = 1; i < models.size(); ++i) {
    const MemoryForecast& m = models[i]->engine().memory();
    CHECK(m.host_tier == 0);
    CHECK(m.host_tier_shared == first.host_tier);
    CHECK(m.most() + first.host_tier == first.most());
    CHECK(m.text().find("a host tier that other models hold: " + std::to_string(first.host_tier)) !=
          std::string::npos);
    CHECK(models[i]->engine().forecast().host_bytes + first.host_tier ==
          models[0]->engine().forecast().host_bytes);
  }
  for (const ModelPtr& m : models) CHECK(holders(*m) == 5);
  CHECK(models[1]->info_json().find("\"host_tier_shared_bytes\":" + std::to_string(first.host_tier)) !=
        std::string::npos);
  CHECK(models[1]->info_json().find("\"models\":5") != std::string::npos);
  for (size_t i = 0; i < models.size(); ++i) check_scores(*models[i], *bundles[i], world);
  for (const size_t gone : {0u, 3u}) {  // the first is who made it
    models[gone].reset();
    bundles[gone].reset();
  }
  CHECK(holders(*models[1]) == 3);
  check_scores(*models[4], *bundles[4], world);
  check_scores(*models[1], *bundles[1], world);
  models.clear();
  CHECK(world.meter.all == 0);
  CHECK(has_fetch_threads(0));
  CHECK(warnings(world).empty());
}

TEST_CASE("each model counts its own calls, and finds the rows that another one's brought") {
  World world;
  WideDeep made;
  FiledBundle a(made.b, 1), b(made.b, 2);
  ModelPtr first = create(a, tier_options(world));
  const ModelPtr second = create(b, tier_options(world));
  const RandomBatch request(first->engine().schema(), 16, 0, 7);
  REQUIRE(score(*first, request).status.ok());
  const TierStats brought = sum(*first);
  CHECK(brought.late > 0);
  CHECK(brought.fetched > 0);
  CHECK(brought.bytes > 0);
  for (const uint64_t n : {sum(*second).hits, sum(*second).late, sum(*second).fetched, sum(*second).bytes})
    CHECK(n == 0);
  first.reset();  // its rows stay for the other
  const Scores got = score(*second, request);
  REQUIRE(got.status.ok());
  CHECK(same_bits(got.out, resident_scores(b, world, request).out));
  CHECK(sum(*second).late == 0);
  CHECK(sum(*second).fetched == 0);
  CHECK(sum(*second).hits == brought.hits + brought.late);
}

TEST_CASE("late rows are each model's own policy; another default row is another tier") {
  World world;
  WideDeep made;
  FiledBundle a(made.b, 1), b(made.b, 2);
  Options by_default;
  Options other_row;
  for (const TableSpec& t : a.manifest().tables) {
    by_default.emplace_back("table." + t.name + ".miss", "default");
    other_row.emplace_back("table." + t.name + ".default", "0.5");
  }
  const ModelPtr waits = create(a, tier_options(world));
  const ModelPtr hurries = create(b, tier_options(world, by_default));
  const ModelPtr other = create(b, tier_options(world, other_row));
  CHECK(holders(*waits) == 2);
  CHECK(holders(*hurries) == 2);
  CHECK(holders(*other) == 1);
  const RandomBatch request(waits->engine().schema(), 16, 0, 3);
  const Scores now = score(*hurries, request);
  CHECK(now.status.ok());
  CHECK(sum(*hurries).defaulted > 0);
  CHECK(sum(*hurries).late == 0);
  const Scores got = score(*waits, request);
  CHECK(same_bits(got.out, resident_scores(a, world, request).out));
  CHECK(sum(*waits).defaulted == 0);
  const std::vector<float> want = resident_scores(b, world, request).out;
  bool equal = false;
  for (int i = 0; i < 2000 && !equal; ++i) {  // rows may go again before they are asked for
    equal = same_bits(score(*hurries, request).out, want);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(equal);
}

TEST_CASE("what differs in a table or in an option is another tier, and off is off") {
  World world, elsewhere;
  WideDeep made;
  FiledBundle a(made.b, 1), b(made.b, 1);
  b.tables[2][kRows * kDim - 1] += 1;
  b.state();
  b.write();
  const ModelPtr first = create(a, tier_options(world));
  const Options others[] = {{{"store.host_bytes", "90000"}},
                            {{"store.fetch_threads", "1"}},
                            {{"store.fetch_queue", "8"}},
                            {{"store.fetch_bytes", "100000"}},
                            {{"store.resident_bytes", "20000"}}};
  for (const Options& o : others) {
    const ModelPtr m = create(a, tier_options(world, o));
    CHECK(holders(*m) == 1);
    CHECK(m->engine().memory().host_tier > 0);
  }
  CHECK(holders(*create(b, tier_options(world))) == 1);
  CHECK(holders(*create(a, tier_options(elsewhere))) == 1);
  CHECK(holders(*create(a, tier_options(world, {{"store.share", "off"}}))) == 0);
  CHECK(holders(*create(a, tier_options(world, {{"max_contexts", "2"}}))) == 2);  // not of the tier
  check_scores(*first, a, world);
  CHECK(warnings(world).empty());
}

TEST_CASE("a hash that is not the table's shares no tier, and misleads nobody") {
  const std::pair<size_t, size_t> places[] = {{0, 0}, {2, kRows * kDim - 1}, {1, kRows - 1}, {5, 700}};
  for (const auto& [table, element] : places) {
    CAPTURE(table);
    CAPTURE(element);
    World world;
    WideDeep made;
    FiledBundle honest(made.b, 1), liar(made.b, 1);
    liar.tables[table][element] += 1;  // and the hashes are those of `honest`
    liar.write();
    const ModelPtr first = create(liar, tier_options(world)), second = create(honest, tier_options(world));
    CHECK(holders(*first) == 1);
    CHECK(holders(*second) == 1);
    const std::vector<std::string> told = warnings(world);
    REQUIRE(told.size() == 1);
    CHECK(told[0].find("the host tier is not shared") != std::string::npos);
    check_scores(*first, liar, world);
    check_scores(*second, honest, world);
    const ModelPtr third = create(honest, tier_options(world));  // the liar stands in nobody's way
    CHECK(holders(*third) == 2);
    check_scores(*third, honest, world);
  }
}

TEST_CASE("a file that cannot be read any more is not joined") {
  World world;
  WideDeep made;
  FiledBundle a(made.b, 1), b(made.b, 2);
  const ModelPtr first = create(a, tier_options(world));
  fs::resize_file(a.path(), 1000);
  const ModelPtr second = create(b, tier_options(world));
  CHECK(holders(*second) == 1);
  CHECK(warnings(world).size() == 1);
  check_scores(*second, b, world);
}

TEST_CASE("every bundle of the tree, loaded twice, takes its tier once") {
  for (const std::string& path : bundles()) {
    CAPTURE(path);
    World world;
    const auto copy = fs::temp_directory_path() / ("dpi_twice_" + std::to_string(getpid()) + ".h5");
    fs::copy_file(path, copy, fs::copy_options::overwrite_existing);
    const auto load_in = [&](const std::string& from, const char* share) {
      auto m = Model::load(from,
                           world.options(tier_of("300000", {{"debug.fold", "off"}, {"store.share", share}})));
      REQUIRE_MESSAGE(m.ok(), m.status().message());
      return std::move(m).value();
    };
    const ModelPtr first = load_in(path, "on");
    if (holders(*first) < 0) continue;  // no table
    const size_t once = world.meter.tables;
    const ModelPtr second = load_in(copy.string(), "on");
    CHECK(world.meter.tables <= once + kNoTable);
    CHECK(holders(*second) == 2);
    const ModelPtr alone = load_in(path, "off");
    for (unsigned seed = 0; seed < 2; ++seed) {
      const RandomBatch request(alone->engine().schema(), 5, 0, seed);
      const Scores want = score(*alone, request), got = score(*second, request);
      CHECK(got.status.code() == want.status.code());
      CHECK((!want.status.ok() || same_bits(got.out, want.out)));
    }
    fs::remove(copy);
    if (!on_host()) break;
  }
}

TEST_CASE("twelve threads that load at once make one tier") {
  World world;
  WideDeep made;
  FiledBundle plain(made.b, 1);
  std::vector<ModelPtr> models(12);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < models.size(); ++i) {
    threads.emplace_back([&, i] {
      WideDeep own;
      FiledBundle bundle(own.b, 1);
      auto m = Model::create(bundle, tier_options(world));
      if (m.ok()) models[i] = std::move(m).value();
    });
  }
  for (std::thread& t : threads) t.join();
  int made_by = 0;
  for (const ModelPtr& m : models) {
    REQUIRE(m != nullptr);
    made_by += m->engine().memory().host_tier > 0 ? 1 : 0;
  }
  CHECK(made_by == 1);
  CHECK(holders(*models[0]) == 12);
  CHECK(has_fetch_threads(2));
  if (on_host()) CHECK(world.meter.most_tables == world.meter.tables);
  check_scores(*models[11], plain, world);
}

TEST_CASE("threads that load, score, fail and free at once, while others score") {
  World world;
  WideDeep made;
  FiledBundle a(made.b, 1), b(made.b, 2);
  const RandomBatch requests[] = {{create(a, world.options())->engine().schema(), 16, 0, 1},
                                  {create(a, world.options())->engine().schema(), 16, 0, 2}};
  std::vector<float> want[2][2];
  for (int r = 0; r < 2; ++r) {
    want[0][r] = resident_scores(a, world, requests[r]).out;
    want[1][r] = resident_scores(b, world, requests[r]).out;
  }
  std::atomic<int> wrong{0}, good{0}, failed{0};
  const auto check = [&](Model& m, int which, int r) {
    const Scores got = score(m, requests[r]);
    if (got.status.code() == Code::kQueueFull || got.status.code() == Code::kOutOfMemory) return;
    if (!got.status.ok() || !same_bits(got.out, want[which][r])) ++wrong;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) {
        const int which = (i + round) % 2;
        WideDeep own;
        FiledBundle bundle(own.b, which == 0 ? 1.0f : 2.0f);
        if (round % 3 == i % 3)
          bundle.before_block = [](size_t table, int64_t) {
            return table == 2 ? Status(Code::kIo, "torn") : Status();
          };
        auto m = Model::create(bundle, tier_options(world));
        m.ok() ? ++good : ++failed;
        if (!m.ok()) continue;
        for (int call = 0; call < 6; ++call) check(**m, which, call % 2);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(good + failed == 40);
  CHECK(failed >= 12);
  CHECK(holders(*create(a, tier_options(world))) == 1);  // nobody is left
  CHECK(has_fetch_threads(0));
}

TEST_CASE("the failure of who loads does not reach who waits for the tier") {
  World world;
  WideDeep made;
  FiledBundle torn(made.b, 1), whole(made.b, 1);
  std::atomic<bool> waits{false}, began{false};
  torn.before_block = [&](size_t table, int64_t) {
    began = true;
    await(waits);
    return table == 1 ? Status(Code::kIo, "torn") : Status();
  };
  Code code = Code::kOk;
  std::thread first([&] { code = Model::create(torn, tier_options(world)).status().code(); });
  await(began);
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    waits = true;
  });
  const ModelPtr second = create(whole, tier_options(world));
  release.join();
  first.join();
  CHECK(code == Code::kIo);
  CHECK(holders(*second) == 1);
  CHECK(second->engine().memory().host_tier > 0);
  check_scores(*second, whole, world);
}

TEST_CASE("memory_limit counts a tier that another model holds once") {
  World world;
  WideDeep made;
  FiledBundle bundle(made.b, 1);
  const ModelPtr first = create(bundle, tier_options(world));
  const MemoryForecast& m = first->engine().memory();
  const Options limit = {{"memory_limit", std::to_string(m.most() - m.host_tier / 2)}};
  CHECK(holders(*create(bundle, tier_options(world, limit))) == 2);
  World empty;
  CHECK(Model::create(bundle, tier_options(empty, limit)).status().code() == Code::kOutOfMemory);
  FiledBundle liar(made.b, 1);  // who would need a tier of his own
  liar.tables[0][0] += 1;
  liar.write();
  const Status refused = Model::create(liar, tier_options(world, limit)).status();
  CHECK(refused.code() == Code::kOutOfMemory);
  CHECK(refused.message().find("for this model alone is more than option memory_limit allows") !=
        std::string::npos);
  CHECK(create(liar, tier_options(world))->engine().store().handover().share(0).models == 1);
}

}  // namespace
}  // namespace dpi::test::shared_tiers_test
