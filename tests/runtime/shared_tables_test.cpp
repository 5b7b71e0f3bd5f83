// Models of one environment hold tables of equal content once: scores are those of models that share nothing,
// memory is counted by the environment's hooks and by where rows lie. What bundles state of their tables is
// believed by nobody: rows that differ are never shared, whatever hash they come with.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shared_world.hpp"
#include "runtime/stated_bundle.hpp"
#include "support/device.hpp"

namespace dpi::test::shared_tables_test {
namespace {

/// Where the rows of each table lie, and of how many models.
std::vector<const void*> bases(const Model& m) {
  const auto reader = m.engine().store().open_reader({16, 1});
  REQUIRE(reader.ok());
  std::vector<const void*> out;
  for (size_t t = 0; t < m.engine().plan().tables.size(); ++t)
    out.push_back(reader.value()->view(static_cast<int32_t>(t)).base);
  return out;
}

int64_t holders(const Model& m, size_t table = 0) {
  return m.engine().store().handover().share(static_cast<int32_t>(table)).models;
}

/// The scores of `m` are those of a model of the same bundle that shares nothing.
void check_scores(Model& m, Bundle& bundle, World& world) {
  const ModelPtr alone = create(bundle, world.options({{"store.share", "off"}}));
  for (unsigned seed = 0; seed < 3; ++seed) {  // op by op, captured, replayed
    const RandomBatch request(m.engine().schema(), 37, 0, seed);
    const Scores got = score(m, request), want = score(*alone, request);
    CHECK_MESSAGE(got.status.ok(), got.status.message());
    CHECK(same_bits(got.out, want.out));
    CHECK(same_bits(got.logits, want.logits));
  }
}

TEST_CASE("five models of equal tables and different dense parts hold one copy, which goes with the last") {
  World world;
  WideDeep made;
  std::vector<std::unique_ptr<StatedBundle>> bundles;
  std::vector<ModelPtr> models;
  for (int i = 0; i < 5; ++i) {
    bundles.push_back(std::make_unique<StatedBundle>(made.b, 1.0f + 0.25f * static_cast<float>(i)));
    models.push_back(create(*bundles.back(), world.options()));
  }
  bool rides = false;
  for (const PlanTable& t : models[0]->engine().plan().tables) rides = rides || t.ride_with >= 0;
  CHECK(rides);
  const uint64_t once = models[0]->engine().memory().tables;
  CHECK(once >= static_cast<uint64_t>(kFields * kRows * kDim) * sizeof(float));
  CHECK(models[0]->engine().memory().shared == 0);
  CHECK(models[4]->engine().memory().tables == 0);
  CHECK(models[4]->engine().memory().shared == once);
  CHECK(models[4]->engine().memory().text().find("other models hold: " + std::to_string(once)) !=
        std::string::npos);
  for (size_t t = 0; t < models[0]->engine().plan().tables.size(); ++t) CHECK(holders(*models[2], t) == 5);
  CHECK(bases(*models[4]) == bases(*models[0]));
  if (on_host()) CHECK(world.meter.tables == (once + 63) / 64 * 64);
  if (on_host()) CHECK(world.meter.most_tables == world.meter.tables);
  for (size_t i = 0; i < models.size(); ++i) check_scores(*models[i], *bundles[i], world);
  const size_t with_all = world.meter.tables;
  models[0].reset();  // who loaded them
  models[3].reset();
  CHECK(holders(*models[1]) == 3);
  CHECK(world.meter.tables == with_all);
  check_scores(*models[4], *bundles[4], world);
  models.clear();
  CHECK(world.meter.all == 0);
  CHECK(warnings(world).empty());
}

TEST_CASE("tables of equal names of which one row differs are not shared") {
  World world;
  WideDeep made;
  StatedBundle a(made.b, 1), b(made.b, 1);
  b.tables[2][kRows * kDim - 1] += 1;
  b.state();
  const ModelPtr first = create(a, world.options()), second = create(b, world.options());
  CHECK(holders(*first) == 1);
  CHECK(holders(*second) == 1);
  CHECK(bases(*first)[0] != bases(*second)[0]);
  CHECK(second->engine().memory().shared == 0);
  CHECK(warnings(world).empty());
  check_scores(*first, a, world);
  check_scores(*second, b, world);
}

TEST_CASE("a hash that is not the table's shares nothing, and misleads nobody") {
  // of a vector, of a linear weight that rides with one; in the first block, in the last row
  const std::pair<size_t, size_t> places[] = {{0, 0}, {2, kRows * kDim - 1}, {1, kRows - 1}, {5, 700}};
  for (const auto& [table, element] : places) {
    CAPTURE(table);
    CAPTURE(element);
    World world;
    WideDeep made;
    StatedBundle honest(made.b, 1), liar(made.b, 1);
    liar.tables[table][element] += 1;  // and the hashes are those of `honest`
    const ModelPtr first = create(liar, world.options()), second = create(honest, world.options());
    CHECK(bases(*first) != bases(*second));
    CHECK(holders(*second) == 1);
    const std::vector<std::string> told = warnings(world);
    REQUIRE(told.size() == 1);
    CHECK(told[0].find("is not shared") != std::string::npos);
    check_scores(*first, liar, world);
    check_scores(*second, honest, world);
    const ModelPtr third = create(honest, world.options());  // the liar stands in nobody's way
    CHECK(bases(*third) == bases(*second));
    CHECK(holders(*third) == 2);
    check_scores(*third, honest, world);
  }
}

TEST_CASE(
    "scalars of dense weights are shared where those weights are equal, and else keep their tables apart") {
  World world;
  DenseScalars made;
  StatedBundle a(made.b, 1), b(made.b, 2);
  const ModelPtr first = create(a, world.options()), other = create(b, world.options());
  bool dots = false;
  for (const PlanTable& t : first->engine().plan().tables) {
    for (const auto& column : t.columns)
      dots = dots || (!column.empty() && column[0].kind == PlanTable::Term::Kind::kDot && t.ride_with >= 0);
  }
  CHECK(dots);
  CHECK(holders(*first) == 1);
  CHECK(holders(*other) == 1);
  const ModelPtr same = create(b, world.options());
  CHECK(bases(*same) == bases(*other));
  CHECK(warnings(world).empty());
  check_scores(*first, a, world);
  check_scores(*same, b, world);
}

TEST_CASE("a large table is shared where the others differ") {
  constexpr int64_t kLarge = ArenaMap::kOwnBlock / (kDim * 4);
  World world;
  WideDeep made(kLarge);
  StatedBundle a(made.b, 1), b(made.b, 2);
  b.tables[4][0] += 1;
  b.state();
  const ModelPtr first = create(a, world.options()), second = create(b, world.options());
  const auto there = bases(*first), here = bases(*second);
  CHECK(there[0] == here[0]);
  CHECK(holders(*second, 0) == 2);
  CHECK(second->engine().memory().shared >= static_cast<uint64_t>(ArenaMap::kOwnBlock));
  for (size_t t = 0; t < made.b.tables().size(); ++t) {
    if (second->engine().plan().tables[t].rows == kLarge || second->engine().plan().tables[t].source < 0)
      continue;
    CHECK(there[t] != here[t]);
    CHECK(holders(*second, t) == 1);
  }
  check_scores(*second, b, world);
}

TEST_CASE("every bundle of the tree, loaded twice, takes its tables once") {
  const std::vector<std::string> precisions =
      on_host() ? std::vector<std::string>{"fp32"} : std::vector<std::string>{"fp32", "fp16"};
  for (const std::string& path : bundles()) {
    for (const std::string& precision : precisions) {
      CAPTURE(path);
      CAPTURE(precision);
      World world;
      const auto load_in = [&](const char* share) {
        auto m = Model::load(path, world.options({{"store.share", share}, {"precision", precision}}));
        return m.ok() ? std::move(m).value() : nullptr;
      };
      const ModelPtr first = load_in("on");
      if (first == nullptr || first->engine().memory().tables == 0) continue;  // rows beyond fp16; no tables
      const size_t once = world.meter.tables;
      const ModelPtr second = load_in("on");
      CHECK(world.meter.tables == once);
      CHECK(holders(*second) == 2);
      CHECK(bases(*first) == bases(*second));
      CHECK(second->engine().memory().tables == 0);
      const ModelPtr alone = load_in("off");
      const RandomBatch request(alone->engine().schema(), 21, 0, 1);
      const Scores want = score(*alone, request), got = score(*second, request);
      CHECK(got.status.code() == want.status.code());
      CHECK((!want.status.ok() || same_bits(got.out, want.out)));
    }
  }
}

TEST_CASE("twelve threads that load at once take one copy") {
  World world;
  WideDeep made;
  StatedBundle plain(made.b, 1);
  std::vector<ModelPtr> models(12);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < models.size(); ++i) {
    threads.emplace_back([&, i] {
      WideDeep own;
      StatedBundle bundle(own.b, 1);
      auto m = Model::create(bundle, world.options());
      if (m.ok()) models[i] = std::move(m).value();
    });
  }
  for (std::thread& t : threads) t.join();
  for (const ModelPtr& m : models) {
    REQUIRE(m != nullptr);
    CHECK(bases(*m) == bases(*models[0]));
  }
  CHECK(holders(*models[0]) == 12);
  if (on_host()) CHECK(world.meter.most_tables == world.meter.tables);
  check_scores(*models[11], plain, world);
}

TEST_CASE("threads that load, score, fail and free at once") {
  World world;
  WideDeep made;
  StatedBundle a(made.b, 1), b(made.b, 1);
  b.tables[0][0] += 1;
  b.state();
  const ModelPtr alone[2] = {create(a, world.options({{"store.share", "off"}})),
                             create(b, world.options({{"store.share", "off"}}))};
  const RandomBatch request(alone[0]->engine().schema(), 16, 0, 1);
  const Scores want[2] = {score(*alone[0], request), score(*alone[1], request)};
  std::atomic<int> wrong{0}, good{0}, failed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 12; ++round) {
        const int which = (i + round) % 2;
        WideDeep own;
        StatedBundle bundle(own.b, 1);
        if (which == 1) {
          bundle.tables[0][0] += 1;
          bundle.state();
        }
        if (round % 3 == i % 3)
          bundle.before_block = [](size_t table, int64_t) {
            return table == 2 ? Status(Code::kIo, "torn") : Status();
          };
        auto m = Model::create(bundle, world.options());
        m.ok() ? ++good : ++failed;
        if (!m.ok()) continue;
        const Scores got = score(*m.value(), request);
        if (!got.status.ok() || !same_bits(got.out, want[which].out)) ++wrong;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(good == 48);
  CHECK(failed == 24);
  CHECK(holders(*create(a, world.options())) == 1);  // nobody is left
}

TEST_CASE("the failure of who loads does not reach who waits") {
  World world;
  WideDeep made;
  StatedBundle torn(made.b, 1), whole(made.b, 1);
  std::atomic<bool> waits{false}, began{false};
  torn.before_block = [&](size_t table, int64_t) {
    began = true;
    await(waits);
    return table == 1 ? Status(Code::kIo, "torn") : Status();
  };
  Code code = Code::kOk;
  std::thread first([&] { code = Model::create(torn, world.options()).status().code(); });
  await(began);
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    waits = true;
  });
  const ModelPtr second = create(whole, world.options());
  release.join();
  first.join();
  CHECK(code == Code::kIo);
  CHECK(holders(*second) == 1);
  check_scores(*second, whole, world);
}

TEST_CASE("a load that waits can be cancelled, and one on the loader's own thread does not wait") {
  World world;
  WideDeep made;
  StatedBundle outer(made.b, 1), inner(made.b, 2);
  Code cancelled = Code::kOk;
  ModelPtr nested;
  outer.before_block = [&](size_t table, int64_t first) -> Status {
    if (table != 1 || first != 0) return {};
    int32_t cancel = 0;
    ModelOptions options = world.options();
    options.load.cancel = &cancel;
    std::thread other([&] {
      WideDeep own;
      StatedBundle third(own.b, 1);
      cancelled = Model::create(third, options).status().code();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    __atomic_store_n(&cancel, 1, __ATOMIC_RELEASE);
    other.join();
    nested = create(inner, world.options());
    return {};
  };
  const ModelPtr model = create(outer, world.options());
  outer.before_block = nullptr;
  CHECK(cancelled == Code::kCancelled);
  CHECK(bases(*nested)[0] != bases(*model)[0]);
  check_scores(*nested, inner, world);
  check_scores(*model, outer, world);
  CHECK(holders(*create(outer, world.options())) == 2);  // with `model`, which was told of
}

TEST_CASE("environments and hooks are not mixed, and off is off") {
  World world, other;
  Meter later;
  WideDeep made;
  StatedBundle bundle(made.b, 1);
  const ModelPtr first = create(bundle, world.options());
  const ModelPtr elsewhere = create(bundle, other.options());
  const ModelPtr off = create(bundle, world.options({{"store.share", "off"}}));
  world.environment->set_memory(later.hooks());
  const ModelPtr hooked = create(bundle, world.options());
  for (const ModelPtr* m : {&first, &elsewhere, &hooked}) CHECK(holders(**m) == 1);
  CHECK(holders(*off) == 0);
  if (on_host()) CHECK(later.tables == other.meter.tables);
  if (on_host()) CHECK(world.meter.tables == 2 * later.tables);
}

TEST_CASE("memory_limit counts tables that another model holds once") {
  World world;
  WideDeep made;
  StatedBundle bundle(made.b, 1), liar(made.b, 1);
  const ModelPtr first = create(bundle, world.options());
  const uint64_t needs = first->engine().memory().most(), tables = first->engine().memory().tables;
  const ModelOptions tight = world.options({{"memory_limit", std::to_string(needs - tables / 2)}});
  const ModelPtr second = create(bundle, tight);
  CHECK(second->engine().memory().most() <= needs - tables / 2);
  World empty;
  ModelOptions alone = empty.options({{"memory_limit", std::to_string(needs - tables / 2)}});
  CHECK(Model::create(bundle, alone).status().code() == Code::kOutOfMemory);
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a forked child begins with nothing shared, even when a load was under way") {
  if (!on_host()) return;  // a device is the parent's
  World world;
  WideDeep made;
  StatedBundle loads(made.b, 1), plain(made.b, 1);
  const ModelPtr before = create(plain, world.options({{"debug.fold", "off"}}));
  std::atomic<bool> began{false}, go_on{false};
  loads.before_block = [&](size_t, int64_t) {
    began = true;
    await(go_on);
    return Status();
  };
  ModelPtr slow;
  std::thread loader([&] { slow = create(loads, world.options()); });
  await(began);
  const pid_t child = fork();
  if (child == 0) {
    auto same = Model::create(plain, world.options({{"debug.fold", "off"}}));
    auto under_way = Model::create(plain, world.options());
    const bool good =
        same.ok() && under_way.ok() && holders(*same.value()) == 1 && holders(*under_way.value()) == 1;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  go_on = true;
  loader.join();
  CHECK(holders(*slow) == 1);
  check_scores(*slow, plain, world);
}
#endif

}  // namespace
}  // namespace dpi::test::shared_tables_test
