// Chunks of a batcher over models and requests of all forms: bags, weights, shared parts with users that have
// no items, several heads, tables in the host tier. Each request's bits are those of a call of its own.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/batch/batcher.hpp"
#include "runtime/emu_control.hpp"
#include "runtime/gated_bundle.hpp"
#include "runtime/shared_world.hpp"
#include "runtime/stated_bundle.hpp"
#include "runtime/tier_model.hpp"
#include "store/resident/resident_store.hpp"
#include "support/built_bundle.hpp"
#include "support/random_models.hpp"
#include "support/slow_store.hpp"

namespace dpi::test::batch_test {
namespace {

using Requests = std::vector<std::unique_ptr<RandomBatch>>;

std::unique_ptr<Batcher> make_batcher(BatchSettings settings) {
  auto made = Batcher::create(settings);
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  return std::move(made).value();
}

/// Chunks that wait 20 ms for others.
BatchSettings merging() {
  BatchSettings s;
  s.max_rows = 16;
  s.max_delay_us = 20'000;
  s.queue = 16;
  return s;
}

Scores room_for(const Model& m, const RandomBatch& request) {
  const auto n = static_cast<size_t>(request.batch.item.rows * m.engine().heads());
  return {{}, std::vector<float>(n, -77.0f), std::vector<float>(n, -77.0f)};
}

BatchRequest request_of(const RandomBatch& request, Scores& s) {
  BatchRequest r;
  r.batch = request.batch;
  r.out = s.out.data();
  r.control.logits = s.logits.data();
  return r;
}

/// Each request on a thread of its own, through the batcher.
std::vector<Scores> ask_at_once(Batcher& b, Model& m, const Requests& requests) {
  auto lane = b.lane_of(m);
  REQUIRE_MESSAGE(lane.ok(), lane.status().message());
  std::vector<Scores> scores;
  scores.reserve(requests.size());
  for (const auto& r : requests) scores.push_back(room_for(m, *r));
  std::vector<std::thread> threads;
  threads.reserve(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] {
      const Batcher::Visit visit(b);
      scores[i].status = (*lane)->predict(request_of(*requests[i], scores[i]));
    });
  }
  for (std::thread& t : threads) t.join();
  return scores;
}

/// The same requests, submitted.
std::vector<Scores> submit_all(Batcher& b, Model& m, const Requests& requests) {
  auto lane = b.lane_of(m);
  REQUIRE(lane.ok());
  std::vector<Scores> scores;
  for (const auto& r : requests) scores.push_back(room_for(m, *r));
  size_t left = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    uint64_t ticket = 0;
    const Batcher::Visit visit(b);
    scores[i].status = (*lane)->submit(request_of(*requests[i], scores[i]), i, &ticket);
    left += scores[i].status.ok() ? 1 : 0;
  }
  while (left > 0) {
    REQUIRE(b.wait_done(monotonic_ns() + 60'000'000'000u).ok());
    Ticket* const t = b.tickets().next_done();
    if (t == nullptr) continue;
    scores[t->user].status = t->status;
    b.tickets().release(t);
    --left;
  }
  return scores;
}

void check_same(Model& oracle, const Requests& requests, const std::vector<Scores>& got) {
  for (size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    const Scores want = score(oracle, *requests[i]);
    REQUIRE_MESSAGE(want.status.ok(), want.status.message());
    REQUIRE_MESSAGE(got[i].status.ok(), got[i].status.message());
    CHECK(same_bits(got[i].out, want.out));
    CHECK(same_bits(got[i].logits, want.logits));
  }
}

void check_scored(const std::vector<Scores>& got) {
  for (const Scores& s : got) REQUIRE_MESSAGE(s.status.ok(), s.status.message());
}

uint64_t status_of(Batcher& b, const std::string& key) {
  const std::string text = b.status_json(), quoted = "\"" + key + "\":";
  return std::stoull(text.substr(text.find(quoted) + quoted.size()));
}

Requests random_requests(const Model& m, bool with_users, unsigned seed) {
  Requests all;
  for (unsigned i = 0; i < 6; ++i) {
    const int64_t rows = 1 + static_cast<int64_t>((seed + i) % 5);
    const int64_t users = with_users ? 1 + static_cast<int64_t>(i % 3) : 0;  // of which some have no items
    all.push_back(std::make_unique<RandomBatch>(m.engine().schema(), rows, users, seed * 16 + i));
  }
  return all;
}

/// Chunks that take all that is asked at once, and wait 200 ms for more.
BatchSettings patient() {
  BatchSettings s = merging();
  s.max_rows = 64;
  s.max_delay_us = 200'000;
  return s;
}

/// The last calls, which ran by themselves after their chunk: the wait is from when they came. No chunk was
/// full, so the first call waited all of that time, and hardly for a context that long.
void check_waits(const Model& m, size_t calls) {
  std::vector<SlowCalls::Text> slow = m.slow_calls();
  REQUIRE(slow.size() >= calls);
  slow.erase(slow.begin(), slow.end() - static_cast<std::ptrdiff_t>(calls));
  double longest = 0, rows = 0;
  for (const SlowCalls::Text& t : slow) {
    const auto number = [&](const std::string& key) {
      return std::stod(t.json.substr(t.json.find("\"" + key + "\":") + key.size() + 3));
    };
    longest = std::max(longest, number("wait_us"));
    rows += number("rows");
    CHECK(number("wait_us") <= number("took_us"));
    CHECK(number("compute_us") > 0);
  }
  CHECK(longest >= 190'000);
  CHECK(rows > static_cast<double>(calls));
}

/// What `body` launches on the emulated device, after a first time, which captures graphs.
int64_t launches(const EmuControl& emu, const std::function<void()>& body) {
  body();
  const int64_t before = emu.kernels(0);
  body();
  return emu.kernels(0) - before;
}

}  // namespace

TEST_CASE("batches: launches of a request fall to one in as many as share its chunk") {
  if (on_host()) return;
  const EmuControl emu;
  ModelBuilder builder = WideDeep().b;
  BuiltBundle bundle(builder);
  const ModelPtr m = create(bundle, options_of({{"determinism", "strict"}, {"max_contexts", "1"}}));
  Requests requests, one;
  for (unsigned i = 0; i < 8; ++i)
    requests.push_back(std::make_unique<RandomBatch>(m->engine().schema(), 1, 0, 70 + i));
  BatchSettings settings;
  settings.max_rows = 8;
  settings.max_delay_us = 10'000'000;  // until the chunk is full
  const auto b = make_batcher(settings);
  const int64_t direct = launches(emu, [&] {
    for (const auto& r : requests) REQUIRE(score(*m, *r).status.ok());
  });
  const int64_t merged = launches(emu, [&] { check_scored(ask_at_once(*b, *m, requests)); });
  const int64_t submitted = launches(emu, [&] { check_scored(submit_all(*b, *m, requests)); });
  REQUIRE(status_of(*b, "chunks") == 4);
  REQUIRE(status_of(*b, "chunk_requests") == 32);
  REQUIRE(direct > 0);
  CHECK(8 * merged == direct);
  CHECK(8 * submitted == direct);
}

TEST_CASE("batches: chunks of a model on several devices") {
  if (on_host()) return;
  const EmuControl emu;
  World world;
  WideDeep made;
  StatedBundle bundle{made.b, 1};
  const ModelPtr alone = create(bundle, world.options({{"determinism", "strict"}}));
  const ModelPtr m =
      create(bundle, world.options({{"determinism", "strict"}, {"devices", "0,1,2"}, {"max_contexts", "6"}}));
  const auto b = make_batcher(merging());
  for (unsigned round = 0; round < 6; ++round) {
    const Requests requests = random_requests(*m, false, 300 + round);
    check_same(*alone, requests, ask_at_once(*b, *m, requests));
    check_same(*alone, requests, submit_all(*b, *m, requests));
  }
  CHECK(status_of(*b, "running") == 3);  // one chunk a device
  CHECK(status_of(*b, "chunk_requests") == 72);
  CHECK(status_of(*b, "again") == 0);
  const std::string counted = m->counters_json();
  for (int d = 0; d < 3; ++d) {
    const std::string none = "{\"name\":\"cuda_emu:" + std::to_string(d) + "\",\"calls\":0}";
    CHECK_MESSAGE(counted.find(none) == std::string::npos, counted);
  }
}

TEST_CASE("batches: random models, with users and without") {
  uint64_t merged = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    ModelBuilder builder = random_model(seed);
    BuiltBundle bundle(builder);
    const ModelPtr m = create(bundle, options_of({{"determinism", "strict"}, {"max_rows", "64"}}));
    for (const bool with_users : {false, true}) {
      const Requests requests = random_requests(*m, with_users, seed);
      const auto b = make_batcher(merging());
      check_same(*m, requests, ask_at_once(*b, *m, requests));
      check_same(*m, requests, submit_all(*b, *m, requests));
      merged += status_of(*b, "chunk_requests") - status_of(*b, "chunks");
    }
  }
  CHECK(merged > 100);
}

TEST_CASE("batches: users whose part is kept") {
  if (!on_host()) return;  // else the option is refused
  uint64_t hits = 0, merged = 0;
  for (uint32_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    ModelBuilder builder = random_model(seed);
    BuiltBundle bundle(builder);
    Options options = {{"determinism", "strict"}, {"max_rows", "64"}};
    const ModelPtr oracle = create(bundle, options_of(options));
    options.emplace_back("user_cache_bytes", "16777216");
    const auto made = Model::create(bundle, options_of(options));
    if (made.status().code() == Code::kInvalidArgument) continue;  // nothing of it is the user's alone
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    const Model& m = *made.value();
    const Requests requests = random_requests(*oracle, true, seed);
    const auto b = make_batcher(merging());
    for (int round = 0; round < 3; ++round)
      check_same(*oracle, requests, ask_at_once(*b, *made.value(), requests));
    check_same(*oracle, requests, submit_all(*b, *made.value(), requests));
    hits += m.counts().users.hits;
    merged += status_of(*b, "chunk_requests") - status_of(*b, "chunks");
  }
  CHECK(hits > 0);
  CHECK(merged > 0);
}

TEST_CASE("batches: requests with users and without never share a chunk") {
  ModelBuilder builder = random_model(3);
  BuiltBundle bundle(builder);
  const ModelPtr m = create(bundle, options_of({{"determinism", "strict"}, {"max_rows", "64"}}));
  Requests mixed;
  for (unsigned i = 0; i < 8; ++i)
    mixed.push_back(std::make_unique<RandomBatch>(m->engine().schema(), 2, i % 2, 900 + i));
  const auto b = make_batcher(merging());
  check_same(*m, mixed, ask_at_once(*b, *m, mixed));
  check_same(*m, mixed, submit_all(*b, *m, mixed));
}

TEST_CASE("batches: rows of a tier that are not here, each by itself") {
  WideDeep made;
  GatedBundle bundle{made.b};
  bundle.gate->set(true);
  const Options plain = {{"debug.fold", "off"}, {"store.share", "off"}, {"determinism", "strict"}};
  const ModelPtr oracle = create(bundle, options_of(plain));
  const ModelPtr m = create(bundle, options_of(tier_of("200000", plain)));
  const auto b = make_batcher(merging());
  for (unsigned round = 0; round < 8; ++round) {
    const Requests requests = random_requests(*m, false, 50 + round);
    check_same(*oracle, requests, ask_at_once(*b, *m, requests));
    check_same(*oracle, requests, submit_all(*b, *m, random_requests(*m, false, 50 + round)));
  }
  CHECK(status_of(*b, "again") > 0);           // cold rows
  CHECK(status_of(*b, "chunk_requests") > 0);  // and warm ones
}

TEST_CASE("batches: a fault of a chunk fails no request that works by itself") {
  if (!on_host()) return;  // the store's rows lie in host memory
  auto opened = Bundle::open(source_dir() + "/weights/demo/adult_widedeep.h5");
  REQUIRE(opened.ok());
  backend::BackendRequest host;
  host.device = "ref";
  host.options.struct_size = sizeof host.options;
  host.options.isa = "auto";
  const auto memory = backend::open_backend(host);
  REQUIRE(memory.ok());
  const auto control = std::make_shared<SlowStoreControl>();
  {
    const ModelOptions options =
        options_of({{"determinism", "strict"}, {"slow_us", "1"}, {"max_rows", "64"}});
    auto made =
        Model::create(**opened, options,
                      std::make_unique<SlowStore>(
                          make_resident_store(memory.value().api, memory.value().device, 0), control));
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    Model& m = **made;
    const Requests requests = random_requests(m, false, 7);
    const auto slow = make_batcher(patient());
    control->failure = Code::kDevice;
    for (const auto& how : {ask_at_once, submit_all}) {
      control->failing_calls = 1;
      const std::vector<Scores> got = how(*slow, m, requests);
      CHECK(status_of(*slow, "max_rows") > 18);  // those of all requests, so that one chunk takes them
      check_waits(m, requests.size());
      check_same(m, requests, got);
    }
    const auto b = make_batcher(merging());
    for (const Code code : {Code::kDevice, Code::kOutOfMemory, Code::kIo}) {
      control->failure = code;
      control->failing_calls = 1;  // the chunk's
      check_same(m, requests, ask_at_once(*b, m, requests));
      control->failing_calls = 1;
      check_same(m, requests, submit_all(*b, m, requests));
    }
    CHECK(status_of(*b, "again") >= 6);
    control->failing_calls = 1000;  // and then each request's
    for (const auto& how : {ask_at_once, submit_all}) {
      for (const Scores& s : how(*b, m, requests)) {
        CHECK(s.status.code() == Code::kIo);
        CHECK(s.out == std::vector<float>(s.out.size(), -77.0f));
      }
    }
    control->failing_calls = 0;
  }
  CHECK(control->leases == 0);
  memory.value().api->close(memory.value().device);
}

}  // namespace dpi::test::batch_test
