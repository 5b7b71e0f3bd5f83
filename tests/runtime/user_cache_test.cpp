// Option user_cache_bytes: calls with users of before give the bits of calls without the option, users are
// told apart by every byte that they are, and memory, evictions and refusals are as the option says.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "runtime/engine/user_cache.hpp"
#include "runtime/user_chunks.hpp"
#include "support/device.hpp"
#include "support/random_batch.hpp"
#include "support/random_models.hpp"

namespace dpi::test::user_cache_test {
namespace {

ModelOptions with_cache(uint64_t bytes) {
  ModelOptions o;
  o.device = device();
  o.strict = true;
  o.max_contexts = 4;
  o.user_cache_bytes = bytes;
  return o;
}

std::unique_ptr<Model> load(ModelBuilder& b, uint64_t bytes) {
  BuiltBundle bundle(b);
  auto model = Model::create(bundle, with_cache(bytes));
  REQUIRE_MESSAGE(model.ok(), model.status().message());
  return std::move(model).value();
}

std::string refusal(ModelBuilder& b, const ModelOptions& options) {
  BuiltBundle bundle(b);
  return Model::create(bundle, options).status().message();
}

/// Scores of a request, with what its shape has.
std::vector<float> scores_of(Model& model, const Batch& batch) {
  std::vector<float> out(static_cast<size_t>(batch.item.rows * model.engine().heads()), -99.0f);
  const Status s = model.predict(batch, out.data(), {});
  REQUIRE_MESSAGE(s.ok(), s.message());
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

UserCounts users(const Model& m) { return m.counts().users; }

/// One user's candidates, with a history of its own.
struct OneUser {
  std::vector<int64_t> bag, offsets{0}, items, of{0};
  Batch batch;

  OneUser(std::vector<int64_t> history, int64_t candidates, unsigned seed) : bag(std::move(history)) {
    std::mt19937 random(seed);
    offsets.push_back(static_cast<int64_t>(bag.size()));
    for (int64_t i = 0; i < candidates; ++i) items.push_back(static_cast<int64_t>(random() % kVocab));
    of.push_back(candidates);
    batch.item = {candidates, nullptr, 0, items.data(), nullptr, nullptr, candidates};
    batch.shared = {1, nullptr, 0, bag.data(), offsets.data(), nullptr, offsets.back()};
    batch.shared_offsets = of.data();
  }
  OneUser(const OneUser&) = delete;
  OneUser& operator=(const OneUser&) = delete;
};

/// So many events, drawn.
std::vector<int64_t> history(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int64_t> h(static_cast<size_t>(n));
  for (int64_t& id : h) id = static_cast<int64_t>(random() % kVocab);
  return h;
}

constexpr uint64_t kRoomy = 64 << 20;

}  // namespace

TEST_CASE("user cache: a user of before is not computed, and scores have the bits of calls without it") {
  ModelBuilder b = history_model();
  const auto cached = load(b, kRoomy), plain = load(b, 0);
  uint64_t hits = 0, misses = 0;
  std::set<unsigned> known;
  std::mt19937 random(1);
  for (int call = 0; call < 200; ++call) {
    const auto who = static_cast<unsigned>(random() % 20);
    const OneUser request(history(4 + 7 * (who % 10), who), static_cast<int64_t>(1 + random() % 40),
                          static_cast<unsigned>(call));
    known.insert(who).second ? ++misses : ++hits;
    REQUIRE(same_bits(scores_of(*cached, request.batch), scores_of(*plain, request.batch)));
    REQUIRE(users(*cached).hits == hits);
    REQUIRE(users(*cached).misses == misses);
  }
  CHECK(users(*cached).drops == 0);
  CHECK(users(*plain).misses == 0);
  CHECK(cached->counters_json().find("\"user_hits\":" + std::to_string(hits)) != std::string::npos);
}

TEST_CASE("user cache: users differ by their length, their order and each event") {
  ModelBuilder b = history_model();
  const auto cached = load(b, kRoomy), plain = load(b, 0);
  const std::vector<int64_t> first = history(30, 5);
  std::vector<std::vector<int64_t>> all = {first, {first.begin(), first.end() - 1}, {}};
  for (size_t i = 0; i < first.size(); ++i) {
    all.push_back(first);
    all.back()[i] = (first[i] + 1) % kVocab;
  }
  all.push_back(first);
  std::swap(all.back()[0], all.back()[1]);
  REQUIRE(all.back() != first);
  for (const auto& h : all) {
    const OneUser request(h, 9, 2);
    CHECK(same_bits(scores_of(*cached, request.batch), scores_of(*plain, request.batch)));
  }
  CHECK(users(*cached).hits == 0);
  CHECK(users(*cached).misses == all.size());
}

TEST_CASE("user cache: random models, requests of several users in any order") {
  int with_part = 0;
  uint64_t hits = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    ModelBuilder b = random_model(seed);
    if (!refusal(b, with_cache(kRoomy)).empty()) continue;
    ++with_part;
    const auto cached = load(b, kRoomy), plain = load(b, 0);
    std::vector<std::unique_ptr<RandomBatch>> requests;
    requests.reserve(5);
    for (unsigned i = 0; i < 4; ++i)
      requests.push_back(
          std::make_unique<RandomBatch>(plain->engine().schema(), 3 + 8 * i, i < 2 ? 1 : 2 * i, seed + i));
    requests.push_back(
        std::make_unique<RandomBatch>(plain->engine().schema(), 7, 0, seed));  // no shared part
    std::mt19937 random(seed);
    for (int call = 0; call < 15; ++call) {
      const Batch& batch = requests[random() % requests.size()]->batch;
      REQUIRE(same_bits(scores_of(*cached, batch), scores_of(*plain, batch)));
    }
    hits += users(*cached).hits;
  }
  CHECK(with_part >= 20);
  CHECK(hits > 300);
}

TEST_CASE("user cache: callers side by side, in room for few users") {
  ModelBuilder b = history_model();
  const auto plain = load(b, 0), large = load(b, kRoomy);
  const uint64_t one = large->engine().user_cache()->sizes().entry_bytes();
  const auto cached = load(b, 12 * one + one / 2);
  CHECK(cached->engine().user_cache()->sizes().entries == 12);
  std::vector<std::unique_ptr<OneUser>> requests;
  requests.reserve(24);
  std::vector<std::vector<float>> want;
  want.reserve(24);
  for (unsigned who = 0; who < 24; ++who) {
    requests.push_back(std::make_unique<OneUser>(history(20, who), 5, who));
    want.push_back(scores_of(*plain, requests.back()->batch));
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (unsigned t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<float> out(5);
      for (int call = 0; call < 300; ++call) {
        const size_t who = std::min(random() % 24, random() % 24);
        if (!cached->predict(requests[who]->batch, out.data(), {}).ok() || !same_bits(out, want[who]))
          ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
  const UserCounts n = users(*cached);
  CHECK(n.hits + n.misses + n.repeats + n.drops == 1200);
  CHECK(n.hits > 0);
  CHECK(n.misses > 24);  // some had gone
}

TEST_CASE("user cache: the entry that was used longest ago goes, and none that is in use") {
  ModelBuilder b = history_model();
  const auto model = load(b, kRoomy);
  const Engine& e = model->engine();
  auto made = UserCache::create(e.api(), e.device(), {8, 64, 3}, [] { return Status(); });
  REQUIRE(made.ok());
  UserCache& cache = *made.value();
  const auto key = [](uint64_t n) {
    std::vector<std::byte> k(8);
    std::memcpy(k.data(), &n, sizeof n);
    return k;
  };
  for (uint64_t n = 0; n < 3; ++n) {
    const int64_t entry = cache.claim(key(n));
    REQUIRE(entry != UserCache::kNone);
    CHECK(cache.find(key(n)) == UserCache::kNone);   // nobody reads what is being written
    CHECK(cache.claim(key(n)) == UserCache::kNone);  // and nobody writes it twice
    std::memset(cache.values(entry), static_cast<int>(n), 64);
    cache.publish(entry);
  }
  const int64_t first = cache.find(key(0)), last = cache.find(key(2));
  REQUIRE(first != UserCache::kNone);
  CHECK(std::to_integer<int>(cache.values(last)[63]) == 2);
  cache.release(last);
  const int64_t fourth = cache.claim(key(3));  // 1 was used longest ago
  REQUIRE(fourth != UserCache::kNone);
  CHECK(cache.find(key(1)) == UserCache::kNone);
  const int64_t fifth = cache.claim(key(4));  // of 2, since 0 is read
  REQUIRE(fifth != UserCache::kNone);
  CHECK(fifth == last);
  CHECK(cache.claim(key(5)) == UserCache::kNone);  // one read, two written
  cache.abandon(fourth);
  CHECK(cache.find(key(3)) == UserCache::kNone);
  cache.publish(fifth);
  cache.release(first);
  CHECK(cache.find(std::vector<std::byte>(7)) ==
        UserCache::kNone);  // shorter than key(0), which begins with it
}

TEST_CASE("user cache: entries are in sets of equal sizes, and a load ends while its memory is taken") {
  ModelBuilder b = history_model();
  const auto model = load(b, kRoomy);
  const Engine& e = model->engine();
  for (const int64_t entries : {1, 7, 9, 17, 100}) {
    CAPTURE(entries);
    auto made = UserCache::create(e.api(), e.device(), {8, 64, entries}, [] { return Status(); });
    REQUIRE(made.ok());
    std::set<int64_t> used;
    std::mt19937_64 random(static_cast<uint64_t>(entries));
    for (int i = 0; i < 4000; ++i) {
      std::vector<std::byte> key(8);
      const uint64_t n = random();
      std::memcpy(key.data(), &n, sizeof n);
      const int64_t entry = made.value()->claim(key);
      REQUIRE(entry >= 0);
      REQUIRE(entry < entries);
      used.insert(entry);
      made.value()->publish(entry);
    }
    CHECK(static_cast<int64_t>(used.size()) == entries);
    // Users of one request, as many as a set holds at least, are all kept.
    std::vector<int64_t> held;
    for (uint64_t n = 0; n < static_cast<uint64_t>(std::min<int64_t>(entries, 8)); ++n) {
      std::vector<std::byte> key(8);
      std::memcpy(key.data(), &n, sizeof n);
      held.push_back(made.value()->claim(key));
      CHECK(held.back() != UserCache::kNone);
    }
  }
  const auto ended = UserCache::create(e.api(), e.device(), {8, 64, 1000},
                                       [] { return Status(Code::kCancelled, "cancelled by the caller"); });
  CHECK(ended.status().code() == Code::kCancelled);
}

TEST_CASE("user cache: chunks of several users, several threads") {
  ModelBuilder b = history_model();
  const auto plain = load(b, 0), cached = load(b, kRoomy);
  const UserRequest two({3, 4}), first({3}), many(std::vector<int64_t>(6, 40));
  // A UserRequest draws the same first history each time.
  static_cast<void>(scores_of(*cached, first.batch));
  CHECK(same_bits(scores_of(*cached, two.batch), scores_of(*plain, two.batch)));
  CHECK(users(*cached).misses == 2);
  CHECK(users(*cached).repeats == 1);
  CHECK(same_bits(scores_of(*cached, two.batch), scores_of(*plain, two.batch)));
  CHECK(users(*cached).hits == 2);
  ModelOptions several = with_cache(kRoomy);
  several.threads = 4;
  BuiltBundle bundle(b);
  auto shared_out = Model::create(bundle, several);
  REQUIRE(shared_out.ok());
  for (int call = 0; call < 3; ++call)
    CHECK(same_bits(scores_of(*shared_out.value(), many.batch), scores_of(*plain, many.batch)));
  CHECK(users(*shared_out.value()).hits > 0);
}

TEST_CASE("user cache: its memory is in the forecast, and refusals name what is missing") {
  ModelBuilder b = history_model();
  const auto plain = load(b, 0), cached = load(b, 1 << 20);
  const uint64_t held = cached->engine().memory().user_cache;
  CHECK(held > (1 << 20) - cached->engine().user_cache()->sizes().entry_bytes());
  CHECK(held <= 1 << 20);
  CHECK(cached->engine().memory().most() >= plain->engine().memory().most() + held);
  CHECK(cached->held().host() >= plain->held().host() + held);
  const std::string entry = std::to_string(cached->engine().user_cache()->sizes().entry_bytes());
  CHECK(refusal(b, with_cache(100)) ==
        "option 'user_cache_bytes' is 100, but one user of model 'history' takes " + entry);
  ModelOptions limited = with_cache(kRoomy);
  limited.memory_limit = kRoomy;
  CHECK(refusal(b, limited).find("users' values 6") != std::string::npos);
  ModelBuilder items("items");
  const std::string logit = items.linear(items.embed(items.categorical("item", 5), 5, 4), 4, 1);
  items.head("ctr", items.unary("sigmoid", logit), logit);
  CHECK(refusal(items, with_cache(kRoomy)) ==
        "option 'user_cache_bytes' finds nothing to keep: no op of model 'items' depends on shared features "
        "alone; leave it out");
  CHECK(load(items, 0) != nullptr);
}

}  // namespace dpi::test::user_cache_test
