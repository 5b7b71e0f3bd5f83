// One host tier under the devices of one model: scores are those of resident tables to the bit, whichever
// device a call is on and whatever rows its neighbours have the tier give up meanwhile; the tier is there
// once, and each lookup is counted once. On four emulated devices.
#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/asked.hpp"
#include "runtime/emu_control.hpp"
#include "runtime/filed_bundle.hpp"
#include "runtime/shared_world.hpp"

namespace dpi::test::device_tiers_test {
namespace {

constexpr int kDevices = 4;

struct Fixture {
  World world;
  WideDeep made;
  FiledBundle bundle{made.b, 1};

  ModelPtr model(const Options& more) {
    Options all = {{"debug.fold", "off"}, {"max_contexts", "8"}};
    all.insert(all.end(), more.begin(), more.end());
    return create(bundle, world.options(all));
  }
};

/// Four threads ask, device `slow` is the slowest.
void check_all(Model& m, const Asked& asked, const EmuControl& emu, int slow) {
  for (int d = 0; d < kDevices; ++d) emu.delay(d, d == slow ? 400 : 30);
  std::vector<Scores> got(asked.requests.size());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = t; i < got.size(); i += 4) got[i] = score(m, *asked.requests[i]);
    });
  }
  for (auto& t : threads) t.join();
  for (int d = 0; d < kDevices; ++d) emu.delay(d, 0);
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK_MESSAGE(got[i].status.ok(), got[i].status.message());
    CHECK(same_bits(got[i].out, asked.want[i].out));
    CHECK(same_bits(got[i].logits, asked.want[i].logits));
  }
}

/// Of every tiered table, over the model's devices.
uint64_t looked_up(const Model& m) {
  uint64_t n = 0;
  for (const auto& e : m.engines()) {
    for (size_t t = 0; t < e->plan().tables.size(); ++t) {
      if (const auto s = e->store().tier_stats(static_cast<int32_t>(t))) n += s->hits + s->late + s->absent;
    }
  }
  return n;
}

TEST_CASE("device tiers: four devices over one tier that holds a quarter have the bits of resident tables") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 24);
  DpiEmuLive pinned{};
  for (const char* share : {"on", "off"}) {
    CAPTURE(std::string(share));
    const std::string before = emu.alive();
    emu.live(&pinned);
    int64_t kernels[kDevices];
    for (int d = 0; d < kDevices; ++d) kernels[d] = emu.kernels(d);
    ModelPtr m = f.model(
        tier_of("80000", {{"devices", "0,1,2,3"}, {"store.share", share}}));  // of 324000 bytes of rows
    for (int round = 0; round < 3; ++round) {
      emu.seed(static_cast<unsigned>(round + 1));
      check_all(*m, asked, emu, round);
    }
    for (int d = 0; d < kDevices; ++d) CHECK(emu.kernels(d) > kernels[d]);
    const auto lookups = static_cast<uint64_t>(3 * asked.ids * kFields * 2);  // vectors and weights
    CHECK(looked_up(*m) == lookups);
    CHECK(m->engine().memory().host_tier > 0);
    CHECK(m->engines()[1]->memory().host_tier == 0);
    CHECK(m->engines()[1]->memory().host_tier_shared == m->engine().memory().host_tier);
    CHECK(m->info_json().find("\"tier\":\"host\",\"in_range\":false,\"copied_rows\":0,\"shared\":false") !=
          std::string::npos);
    uint64_t counted = 0;
    const std::string json = m->counters_json();
    for (const char* what : {"\"hits\":", "\"late\":"}) {
      for (size_t at = json.find(what); at != std::string::npos; at = json.find(what, at + 1))
        counted += std::stoull(json.substr(at + std::string(what).size()));
    }
    CHECK(counted == lookups);
    m.reset();
    CHECK(emu.alive() == before);
  }
}

TEST_CASE("device tiers: a device that has come to a stand keeps its own call's rows, and another goes on") {
  const EmuControl emu;
  Fixture f;
  const Asked asked(f, 16);
  const ModelPtr m =
      f.model(tier_of("450000", {{"devices", "0,1"}}));  // room for two calls that begin at once
  const RandomBatch held(m->engine().schema(), 30, 0, 99);
  const ModelPtr plain = f.model({{"store.share", "off"}});
  const Scores want = score(*plain, held);
  emu.delay(0, -1);
  std::atomic<int> done{0};
  std::atomic<bool> one{false};
  Scores got[2];
  std::vector<std::thread> threads;
  for (Scores& g : got) {
    threads.emplace_back([&] {
      g = score(*m, held);
      ++done;
      one = true;
    });
  }
  await(one);
  CHECK(done >= 1);  // on device 1; the other one at least has begun on device 0, or is there too
  emu.delay(0, 0);
  for (auto& t : threads) t.join();
  for (const Scores& g : got) {
    CHECK_MESSAGE(g.status.ok(), g.status.message());
    CHECK(same_bits(g.out, want.out));
  }
  check_all(*m, asked, emu, 1);
}

TEST_CASE("device tiers: beside a table in a range over the devices, and copies of its rows") {
  const EmuControl emu;
  World world;
  WideDeep made(300000);
  FiledBundle bundle(made.b, 1);
  const auto options = [&](const Options& more) {
    Options all = {{"debug.fold", "off"}, {"max_contexts", "8"}};
    all.insert(all.end(), more.begin(), more.end());
    return world.options(all);
  };
  const ModelPtr plain = create(bundle, options({{"store.share", "off"}}));
  std::string large;
  for (const TableSpec& t : bundle.manifest().tables) {
    if (t.rows == 300000 && t.dim == kDim) large = t.name;
  }
  REQUIRE(!large.empty());
  const ModelPtr m = create(bundle, options(tier_of("100000", {{"devices", "0,1"},
                                                               {"store.peer_devices", "0,1,2"},
                                                               {"table." + large + ".tier", "resident"}})));
  CHECK(m->engine().forecast().range_bytes > 0);
  CHECK(looked_up(*m) == 0);
  for (unsigned seed = 0; seed < 12; ++seed) {
    const RandomBatch request(m->engine().schema(), 25, 0, seed);
    CHECK(same_bits(score(*m, request).out, score(*plain, request).out));
  }
  CHECK(looked_up(*m) > 0);
  CHECK(m->counters_json().find("\"remote\":") != std::string::npos);
}

}  // namespace
}  // namespace dpi::test::device_tiers_test
