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
#include "runtime/tier_model.hpp"

namespace dpi::test {
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
}  // namespace dpi::test
