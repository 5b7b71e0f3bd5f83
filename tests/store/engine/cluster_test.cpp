// A model whose external rows come from a Redis cluster of three masters with a replica each, under four
// callers: slots move without a call that fails; a master is killed and calls fail by name, in time, until
// its replica has taken over. No call has a wrong score.
// Planted, seen: ASK followed without ASKING.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>

#include "store/engine/fixture.hpp"

namespace dpi::test::cluster_test {
namespace {

constexpr int kTimeoutMs = 1000;

struct Callers {
  explicit Callers(dpi_model* m) {
    for (uint64_t i = 0; i < 4; ++i) threads.emplace_back([this, m, i] { run(m, i); });
  }
  ~Callers() { end(); }
  void end() {
    stop = true;
    for (std::thread& t : threads) {
      if (t.joinable()) t.join();
    }
  }
  void run(dpi_model* m, uint64_t i) {
    std::mt19937_64 rng(i);
    while (!stop) {
      const Request request(random_rows(8, rng));
      const std::vector<float> want = right_scores(request);
      const Scored got = score(m, request, kTimeoutMs);
      ++(got.code != DPI_OK ? failed : identical(got.out, want) ? right : wrong);
      late += got.seconds > kTimeoutMs * 1e-3 + 1.0 ? 1 : 0;
      if (got.code == DPI_OK) continue;
      last_failure = now_ns();
      sleep_ms(5);
      const std::lock_guard<std::mutex> lock(mutex);
      codes.insert(dpi_status_name(got.code));
      text = got.message;
    }
  }
  std::atomic<bool> stop{false};
  std::atomic<int64_t> right{0}, failed{0}, wrong{0}, late{0};
  std::atomic<uint64_t> last_failure{0};
  std::mutex mutex;
  std::set<std::string> codes;
  std::string text;
  std::vector<std::thread> threads;
};

ModelPtr model_over(const RedisCluster& cluster) {
  return load_model(external(), tiered("60000", {{"store.redis_address", cluster.addresses()}}));
}

/// Slots of one server that have keys, a few of them.
std::vector<int> slots_of(const RedisServer& server) {
  std::vector<int> slots;
  std::istringstream keys(server.ask({"KEYS", "*"}));
  for (std::string key; keys >> key && slots.size() < 6;)
    slots.push_back(std::stoi(server.ask({"CLUSTER", "KEYSLOT", key})));
  return slots;
}

/// Of the counters: commands that each server sent on to another one.
int64_t redirects(const dpi_model* m) {
  std::string text(dpi_model_counters_json(m, nullptr, 0) + 4096, '\0');  // it grows meanwhile
  text.resize(dpi_model_counters_json(m, text.data(), text.size()) - 1);
  int64_t n = 0;
  const auto counters = nlohmann::json::parse(text);
  for (const auto& store : counters.at("stores")) {
    for (const auto& node : store.at("nodes")) n += node.at("redirects").get<int64_t>();
  }
  return n;
}

/// While a slot's keys are at their new server and its owner is the old one, calls are right without waiting.
struct Between {
  dpi_model* m;
  std::mt19937_64& rng;
  std::string wrong = {};
  static void call(void* self) {
    auto* b = static_cast<Between*>(self);
    for (int i = 0; i < 20 && b->wrong.empty(); ++i) {
      const Request request(random_rows(40, b->rng));
      const Scored got = score(b->m, request, kTimeoutMs);
      if (got.code != DPI_OK) b->wrong = got.message;
      if (got.code == DPI_OK && !identical(got.out, right_scores(request))) b->wrong = "wrong scores";
    }
  }
};

}  // namespace

TEST_CASE("store.down=default: of three masters one is killed, the rows of the others keep their scores") {
  if (!have_models() || !redis_installed()) return;
  RedisCluster cluster(3, 0, {"--cluster-require-full-coverage", "no"});
  fill_store("redis", {{"address", cluster.addresses()}, {"partitions", "24"}});
  const ModelPtr m = load_model(
      external(), tiered("60000", {{"store.redis_address", cluster.addresses()}, {"store.down", "default"}}));
  const auto store = [&] {
    std::string text(dpi_model_counters_json(m.get(), nullptr, 0) + 4096, '\0');
    text.resize(dpi_model_counters_json(m.get(), text.data(), text.size()) - 1);
    const auto counters = nlohmann::json::parse(text);
    return counters.at("stores").back();
  };
  cluster[1].kill();
  std::mt19937_64 rng(5);
  for (int i = 0; i < 1000 && store().at("up") == true; ++i)
    score(m.get(), Request(random_rows(1, rng)), kTimeoutMs);
  const auto down = store();
  REQUIRE(down.at("up") == false);
  for (const auto& node : down.at("nodes"))
    CHECK_MESSAGE(node.at("open") == (node.at("name") == cluster[1].address()), down.dump());
  int right = 0, failed = 0;
  for (int i = 0; i < 200; ++i) {
    const Request request(random_rows(1, rng));
    const Scored got = score(m.get(), request, kTimeoutMs);
    failed += got.code == DPI_OK ? 0 : 1;
    right += got.code == DPI_OK && identical(got.out, right_scores(request)) ? 1 : 0;
  }
  CHECK(failed == 0);
  MESSAGE(right, " of 200 scores are those of the right rows");
  CHECK(right > 20);  // two tables, two thirds of the rows of each
  CHECK(right < 200);
}

TEST_CASE(
    "resharding and a failover under load: no wrong score, no failure while slots move, back in seconds") {
  if (!have_models() || !redis_installed()) return;
  RedisCluster cluster(3, 1);
  fill_store("redis", {{"address", cluster.addresses()}, {"partitions", "24"}, {"write_replicas", "1"}});
  const ModelPtr m = model_over(cluster);
  CHECK(redirects(m.get()) == 0);
  Callers callers(m.get());
  std::mt19937_64 rng(77);
  int moved = 0;
  for (const size_t from : {0, 2}) {
    for (const int slot : slots_of(cluster[from])) {
      Between between{m.get(), rng};
      cluster.move_slot(slot, cluster[from], cluster[1], Between::call, &between);
      CHECK(between.wrong == "");
      ++moved;
    }
  }
  sleep_ms(200);
  CHECK(moved >= 6);
  CHECK(cluster.errors("MOVED") + cluster.errors("ASK") > 0);
  CHECK(redirects(m.get()) >= moved);
  CHECK_MESSAGE(callers.failed == 0, callers.text);
  const int64_t before = callers.right;
  CHECK(before > 50);

  const uint64_t killed = now_ns();
  cluster[1].kill();  // who has most of the rows
  while (now_ns() - killed < 30'000'000'000u &&
         now_ns() - std::max(killed, callers.last_failure.load()) < 2'000'000'000u)
    sleep_ms(50);
  callers.end();
  const double seconds = static_cast<double>(callers.last_failure - killed) * 1e-9;
  std::string codes;
  for (const std::string& code : callers.codes) codes += code + " ";
  MESSAGE(callers.failed.load(), " calls failed (", codes, "), the last ", seconds,
          " s after the kill: ", callers.text);
  CHECK(callers.failed > 0);
  CHECK(seconds < 15);
  for (const std::string& code : callers.codes)
    CHECK_MESSAGE((code == "DPI_E_IO" || code == "DPI_E_TIMEOUT"), code);
  CHECK(callers.wrong == 0);
  CHECK(callers.late == 0);
  CHECK(callers.right > before + 50);
}

}  // namespace dpi::test::cluster_test
