// Models whose host tier has copies of warm rows on the device: the scores of the same models with resident
// tables, to the bit, with a cache that holds everything, a part or next to nothing, from the first call on
// and while rows come and go under several callers; a budget that is told and counted.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "bundle/bundle.hpp"
#include "runtime/emu_control.hpp"
#include "runtime/execute/context.hpp"
#include "runtime/filed_bundle.hpp"
#include "runtime/shared_world.hpp"
#include "store/host_tier/shared_tier.hpp"

namespace dpi::test::device_cache_model_test {
namespace {

const std::string kWhole = "67108864";

Options copied(const std::string& host, const std::string& gpu, const Options& more = {}) {
  Options o = tier_of(host, {{"store.gpu_bytes", gpu}});
  o.insert(o.end(), more.begin(), more.end());
  return o;
}

bool same(const Scores& a, const Scores& b) {
  CHECK_MESSAGE(a.status.ok(), a.status.message());
  return same_bits(a.out, b.out) && same_bits(a.logits, b.logits);
}

TierStats sum(const Model& model) {
  TierStats all;
  for (size_t t = 0; t < model.engine().plan().tables.size(); ++t) {
    const auto s = model.engine().store().tier_stats(static_cast<int32_t>(t));
    if (!s) continue;
    all.device_sampled += s->device_sampled, all.device_hits += s->device_hits;
  }
  return all;
}

bool on_device() { return device() != "ref" && device() != "cpu"; }

const char* const kBundles[] = {"/weights/demo/msweb_deepfm.h5", "/weights/demo/bank_dcnv2.h5",
                                "/weights/demo/adult_widedeep.h5"};

TEST_CASE("scores with copies of rows on the device are those of resident tables") {
  if (!on_device()) return;
  for (const char* name : kBundles) {
    const std::string path = source_dir() + name;
    for (const char* precision : {"fp32", "fp16"}) {
      const auto plain = load(path, {{"precision", precision}});
      for (const std::string& gpu : {std::string("12000"), std::string("60000"), kWhole}) {
        CAPTURE(path);
        CAPTURE(precision);
        CAPTURE(gpu);
        const auto cached = load(path, copied(kWhole, gpu, {{"precision", precision}}));
        for (const int64_t rows : {1, 13, 37}) {
          const RandomBatch request(plain->engine().schema(), rows, 0, 5);
          const Scores want = score(*plain, request);
          for (int pass = 0; pass < 3; ++pass)  // op by op, captured, replayed
            CHECK(same(score(*cached, request), want));
        }
      }
    }
  }
}

TEST_CASE("folded models: scalars that ride in rows come with the copies") {
  if (!on_device()) return;
  for (const char* name : kBundles) {
    const std::string path = source_dir() + name;
    const auto plain = load(path, {{"debug.fold", "tiered"}});
    const auto cached = load(path, copied(kWhole, kWhole, {{"debug.fold", "on"}}));
    const RandomBatch request(plain->engine().schema(), 29, 0, 2);
    const Scores want = score(*plain, request);
    for (int pass = 0; pass < 3; ++pass) CHECK(same(score(*cached, request), want));
  }
}

TEST_CASE("rows come and go under callers, and every call gets its own scores") {
  if (!on_device()) return;
  const std::string path = source_dir() + kBundles[0];
  const auto plain = load(path, {});
  const auto cached = load(path, copied("60000", "20000"));
  constexpr int kCallers = 3, kCalls = 60;
  std::vector<std::unique_ptr<RandomBatch>> requests;
  std::vector<Scores> want;
  for (unsigned i = 0; i < 12; ++i) {
    requests.push_back(std::make_unique<RandomBatch>(plain->engine().schema(), 5, 0, i));
    want.push_back(score(*plain, *requests.back()));
  }
  std::atomic<int> wrong{0}, right{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < kCalls; ++i) {
        const size_t r = static_cast<size_t>(i * 5 + c * 7) % requests.size();
        const Scores got = score(*cached, *requests[r]);
        if (got.status.ok()) ++(same_bits(got.out, want[r].out) ? right : wrong);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
  CHECK(right > kCallers * kCalls / 2);
}

TEST_CASE("what lookups find on the device is counted, and the budget is told") {
  if (!on_device()) return;
  const std::string path = source_dir() + kBundles[0];
  const auto cached = load(path, copied(kWhole, kWhole));
  CHECK(cached->engine().memory().device_cache > 0);
  CHECK(cached->engine().memory().device_cache <= uint64_t{67108864});
  CHECK(load(path, tier_of(kWhole))->engine().memory().device_cache == 0);
  const RandomBatch request(cached->engine().schema(), 16, 0, 1);
  for (int i = 0; i < 400 && sum(*cached).device_hits == 0; ++i) {
    CHECK(score(*cached, request).status.ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(sum(*cached).device_hits > 0);
  CHECK(sum(*cached).device_hits == sum(*cached).device_sampled);  // it holds every row
}

/// Loads, scores and frees while the n-th call of a kind fails, whoever makes it: the load, a call, or the
/// copies' own thread. False: there were not so many.
bool ends_well(const EmuControl& emu, const char* kind, int64_t n, const std::string& path,
               const RandomBatch& request, const Scores& want) {
  const bool memory = std::string(kind) == "alloc" || std::string(kind) == "pinned";
  const std::string spec = std::string(kind) + ':' + std::to_string(n) + (memory ? ":2" : ":719");
  const auto is_told = [memory](const Status& s) {
    return (memory && s.code() == Code::kOutOfMemory) ||
           s.message().find("injected fault") != std::string::npos;
  };
  REQUIRE(emu.fail(spec.c_str()));
  auto made = Model::load(path, options_of(copied("60000", "20000", {{"max_contexts", "1"}})));
  bool fired = true;
  if (made.ok()) {
    for (int i = 0; i < 5; ++i) {  // op by op, captured, replayed
      const Scores got = score(*made.value(), request);
      if (got.status.ok()) CHECK(same_bits(got.out, want.out));
      if (!got.status.ok()) CHECK_MESSAGE(is_told(got.status), got.status.message());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the thread's
    }
    fired = emu.calls(kind) >= n;
    emu.fail(nullptr);
    CHECK(same(score(*made.value(), request), want));
  } else {
    CHECK_MESSAGE(is_told(made.status()), made.status().message());
  }
  emu.fail(nullptr);
  return fired;
}

TEST_CASE("any call of the device that fails is told or made good, no score is wrong, and nothing stays") {
  if (!on_device()) return;
  const EmuControl emu;
  const std::string path = source_dir() + kBundles[0];
  const auto plain = load(path, {});
  const RandomBatch request(plain->engine().schema(), 9, 0, 4);
  const Scores want = score(*plain, request);
  const std::string before = emu.alive();
  for (const char* kind :
       {"alloc", "pinned", "copy", "launch", "event", "stream", "capture", "graph", "sync"}) {
    CAPTURE(std::string(kind));
    int64_t tried = 0;
    for (int64_t n = 1; n < 200 && ends_well(emu, kind, n, path, request, want); n += n > 12 ? 5 : 1) {
      CAPTURE(n);
      CHECK(emu.alive() == before);
      ++tried;
    }
    CHECK(tried > 0);
  }
}

/// The nodes of the graph that is captured for calls of 8 rows.
std::string captured_nodes(const std::string& path, const Options& more) {
  const auto bundle = Bundle::open(path);
  REQUIRE(bundle.ok());
  const ModelOptions options = options_of(more);
  auto engine = Engine::create(**bundle, options);
  REQUIRE_MESSAGE(engine.ok(), engine.status().message());
  auto context = Context::create(*engine.value(), 8, options.max_nnz);
  REQUIRE(context.ok());
  const RandomBatch request(engine.value()->schema(), 8, 0, 3);
  std::vector<float> out(static_cast<size_t>(8 * engine.value()->heads()));
  for (int pass = 0; pass < 2; ++pass) REQUIRE(context.value()->run(request.batch, out.data(), {}).ok());
  return context.value()->graph_text(8);
}

TEST_CASE("the graph of a whole model has as many nodes with copies on the device as without") {
  if (!on_device()) return;
  for (const char* name : kBundles) {
    CAPTURE(std::string(name));
    const std::string path = source_dir() + name;
    for (const char* fold : {"on", "tiered", "off"}) {
      CAPTURE(fold);
      const auto nodes = [&](const Options& o) { return captured_nodes(path, o); };
      const std::string without = nodes(tier_of(kWhole, {{"debug.fold", fold}}));
      const std::string with = nodes(copied(kWhole, kWhole, {{"debug.fold", fold}}));
      const std::string resident = nodes({{"debug.fold", "tiered"}});
      const auto count = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
      CHECK(count(without) > 2);
      CHECK(count(with) == count(without));
      CHECK(with.find("kernel cached_") != std::string::npos);
      CHECK(without.find("kernel cached_") == std::string::npos);
      // The same nodes in the same order, and edges, but for the kernel of the lookup.
      const auto but_for_lookup = [](std::string text) {
        for (const char* kernel : {" cached_", " lookup_"}) {
          for (size_t at; (at = text.find(kernel)) != std::string::npos;)
            text.replace(at, text.find(" <-", at) - at, " a_lookup");
        }
        return text;
      };
      CHECK(but_for_lookup(with) == but_for_lookup(without));
      if (std::string(fold) == "tiered") CHECK(count(with) == count(resident));
    }
  }
}

TEST_CASE("what the device's copies take is what was forecast") {
  if (!on_device()) return;
  const EmuControl emu;
  const auto taken = [&](const Options& o, uint64_t* forecast) {
    DpiEmuLive before{}, after{};
    emu.live(&before);
    const auto model = load(source_dir() + kBundles[0], o);
    emu.live(&after);
    *forecast = model->engine().memory().device_cache;
    return after.device_bytes - before.device_bytes;
  };
  for (const std::string& gpu : {std::string("60000"), std::string("400000"), kWhole}) {
    CAPTURE(gpu);
    uint64_t none = 0, forecast = 0;
    const int64_t without = taken(tier_of(kWhole), &none);
    const auto more = static_cast<double>(taken(copied(kWhole, gpu), &forecast) - without);
    CHECK(none == 0);
    CHECK(more == doctest::Approx(static_cast<double>(forecast)).epsilon(0.01));
  }
}

SharedTier& tier_in(const Model& m) {
  for (size_t t = 0; t < m.engine().plan().tables.size(); ++t) {
    if (!m.engine().plan().tables[t].tiered) continue;
    return *std::static_pointer_cast<SharedTier>(
        m.engine().store().handover().holds(static_cast<int32_t>(t)).memory);
  }
  FAIL("no table is tiered");
  std::abort();
}

/// Calls ask the tables of one size class only, until the copies of its rows have got what the others' had.
/// From then on the tier's own thread changes nothing.
std::vector<uint32_t> learned_split(SharedTier& tier, int32_t size_class) {
  device_cache::DeviceCache& copies = *tier.copies;
  copies.stop();
  tiered::HostCache& cache = *tier.cache;
  const auto reader = cache.make_reader(64).value();
  const std::vector<int32_t>& tables = cache.plan().classes[static_cast<size_t>(size_class)].tables;
  std::vector<int64_t> keys(64);
  std::vector<int32_t> places(64);
  bool pays = false;
  for (int round = 0; round < 20000 && !pays; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i * 7 + 1);
    const tiered::CacheLookup lookup{tables[static_cast<size_t>(round) % tables.size()], keys.data(), 64,
                                     places.data()};
    const Status found = cache.acquire(*reader, {&lookup, 1}, 0);
    REQUIRE_MESSAGE(found.ok(), found.message());
    cache.release(*reader);
    REQUIRE(copies.step().ok());
    pays = copies.weigh();
  }
  REQUIRE(pays);
  for (int i = 0; i < 100 && copies.counts().moved == 0; ++i) REQUIRE(copies.step().ok());
  REQUIRE(copies.counts().moved == 1);
  return copies.split();
}

TEST_CASE("the copies of the next version are shared out as those of the version before had come to be") {
  if (!on_device()) return;
  World world;
  WideDeep made;
  FiledBundle old(made.b, 1), next(made.b, 1);
  constexpr int64_t kChanged = 17;
  next.tables[0][kChanged * kDim] += 1;
  next.state();
  next.write();
  const auto options = [&](const LoadBase* base, const char* gpu) {
    ModelOptions o = world.options(tier_of("150000", {{"debug.fold", "off"}, {"store.gpu_bytes", gpu}}));
    o.load.base = base;
    return o;
  };
  const ModelPtr first = create(old, options(nullptr, "12000"));
  const std::vector<uint32_t> by_bytes = tier_in(*first).copies->split();
  REQUIRE(by_bytes.size() == 2);
  const std::vector<uint32_t> learned = learned_split(tier_in(*first), 1);
  REQUIRE(learned != by_bytes);
  LoadBase base{first->engine().held_tables(), std::vector<RowHistory>(next.manifest().tables.size()),
                std::vector<std::vector<int64_t>>(next.manifest().tables.size())};
  base.rows[0].add(std::make_shared<RowMap>(kRows, std::vector<int64_t>{kChanged}, std::vector<int64_t>{},
                                            std::vector<int64_t>{}, std::vector<int64_t>{}));
  ModelPtr second = create(next, options(&base, "12000"));
  REQUIRE(&tier_in(*second) != &tier_in(*first));
  CHECK(tier_in(*second).copies->split() == learned);
  const ModelPtr plain = create(next, world.options({{"debug.fold", "off"}, {"store.share", "off"}}));
  for (unsigned seed = 0; seed < 3; ++seed) {
    const RandomBatch request(plain->engine().schema(), 29, 0, seed);
    CHECK(same(score(*second, request), score(*plain, request)));
  }
  second.reset();  // or they would use its tier
  // One that nothing is known of, and one whose budget is too small for it.
  CHECK(tier_in(*create(next, options(nullptr, "12000"))).copies->split() == by_bytes);
  CHECK(tier_in(*create(next, options(&base, "9000"))).copies->split() != learned);
}

TEST_CASE("a budget without a host tier, and one that is no set of rows, are refused by name") {
  const std::string path = source_dir() + kBundles[0];
  const auto refusal = [&](const Options& o) { return Model::load(path, options_of(o)).status().message(); };
  CHECK(refusal({{"store.gpu_bytes", "100000"}}) ==
        path +
            ": option 'store.gpu_bytes' copies rows of a host tier, and there is none: set "
            "'store.host_bytes'");
  if (!on_device()) return;
  CHECK(refusal(copied(kWhole, "100"))
            .find("option 'store.gpu_bytes' is 100, which is less than 16 rows of "
                  "any table take") != std::string::npos);
}

TEST_CASE("a backend in host memory refuses the option by name") {
  if (on_device()) return;
  const auto refused = Model::load(source_dir() + kBundles[0], options_of(copied(kWhole, "100000")));
  CHECK(refused.status().code() == Code::kUnsupported);
  CHECK(refused.status().message().find("'store.gpu_bytes' is about a device with memory of its own; '" +
                                        device() + "'") != std::string::npos);
}

}  // namespace
}  // namespace dpi::test::device_cache_model_test
