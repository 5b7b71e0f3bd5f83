// A model whose external rows come from a redis-server that is down, goes, comes back, hangs, is slow, or has
// something else in the rows' place: calls fail by name within their deadline, those that succeed have the
// right scores, rows that are in the tier need no server, and after it is back calls succeed within seconds.
// Planted, each seen: rows of a failed fetch served as they are; a failed fetch that is remembered; a
// deadline that a fetch does not get; the password left out; fetch_threads, fetch_queue or fetch_bytes not
// passed on.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "store/engine/fixture.hpp"

namespace dpi::test::redis_test {
namespace {

constexpr double kSlack = 0.7;  // seconds that a call may end behind its deadline on a busy machine

struct Filled {
  RedisServer redis;
  explicit Filled(std::vector<std::string> arguments = {}) : redis(false, std::move(arguments)) {}
  void fill(StoreSettings settings = {}) {
    settings.emplace_back("address", redis.address());
    fill_store("redis", settings);
  }
  Pairs options(const std::string& budget, Pairs more = {}) const {
    more.emplace_back("store.redis_address", redis.address());
    return tiered(budget, more);
  }
};

bool names(const Scored& s, const std::string& text) { return s.message.find(text) != std::string::npos; }

/// Rows nobody has asked for.
std::vector<Row> new_rows(size_t n) {
  static int64_t next = 0;
  std::vector<Row> rows(n);
  for (Row& r : rows) {
    r = {next % kRows, next % kRows, 1, 1, 1, 1, 0, {}};
    ++next;
  }
  return rows;
}

/// Callers who go on whatever happens, and what they met.
class Callers {
 public:
  Callers(dpi_model* m, int threads, int timeout_ms) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([=, this] { run(m, timeout_ms, i); });
  }
  ~Callers() { stop(); }
  void stop() {
    stop_ = true;
    for (std::thread& t : threads_) {
      if (t.joinable()) t.join();
    }
  }
  std::set<dpi_status> codes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(codes_, {});
  }
  std::atomic<int64_t> right{0}, failed{0}, wrong{0}, late{0};

 private:
  void run(dpi_model* m, int timeout_ms, int i) {
    std::mt19937_64 rng(static_cast<uint64_t>(i) + 100);
    while (!stop_) {
      const Request request(random_rows(4, rng));
      const std::vector<float> want = right_scores(request);
      const Scored got = score(m, request, timeout_ms);
      ++(got.code != DPI_OK ? failed : identical(got.out, want) ? right : wrong);
      if (got.seconds > timeout_ms * 1e-3 + kSlack) ++late;
      if (got.code == DPI_OK) continue;
      sleep_ms(2);
      const std::lock_guard<std::mutex> lock(mutex_);
      codes_.insert(got.code);
    }
  }
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::set<dpi_status> codes_;
  std::vector<std::thread> threads_;
};

/// Until ten calls of new rows one after the other succeed; at most 30.
double seconds_until_right(dpi_model* m) {
  const uint64_t begin = now_ns();
  for (int in_turn = 0; in_turn < 10 && now_ns() - begin < 30'000'000'000u;) {
    const Request request(new_rows(20));
    const Scored got = score(m, request, 1000);
    if (got.code == DPI_OK) CHECK(identical(got.out, right_scores(request)));
    in_turn = got.code == DPI_OK ? in_turn + 1 : 0;
    if (in_turn == 0) sleep_ms(10);
  }
  return static_cast<double>(now_ns() - begin) * 1e-9;
}

int threads_named(const std::string& name) {
  int n = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm");
    std::string line;
    std::getline(comm, line);
    n += line == name ? 1 : 0;
  }
  return n;
}

const std::string kSmall = "60000", kLarge = "4000000";

}  // namespace

TEST_CASE("down, empty, or with another password at the start: refused by name, at once; then up") {
  if (!have_models() || !redis_installed()) return;
  Filled store({"--requirepass", "secret"});
  const Pairs right = store.options(kSmall, {{"store.redis_password", "secret"}});
  const auto refused = [&](const Pairs& options, dpi_status code, const std::string& text) {
    const uint64_t begin = now_ns();
    const Loaded l = try_load(external(), options);
    CHECK_MESSAGE(l.code == code, l.message);
    CHECK_MESSAGE(l.message.find(text) != std::string::npos, l.message);
    CHECK(now_ns() - begin < 3'000'000'000u);
  };
  refused(right, DPI_E_NOT_FOUND, "dpi store load");
  store.fill({{"password", "secret"}});
  refused(store.options(kSmall), DPI_E_IO, "NOAUTH");
  refused(store.options(kSmall, {{"store.redis_password", "wrong"}}), DPI_E_IO, "WRONGPASS");
  CHECK(load_model(external(), right) != nullptr);
  store.redis.kill();
  refused(right, DPI_E_IO, store.redis.address());
  store.redis.start();
  store.fill({{"password", "secret"}});
  const Request request(new_rows(20));
  CHECK(identical(score(load_model(external(), right).get(), request).out, right_scores(request)));
}

TEST_CASE("killed under load and started again: errors by name in time, right scores, back within seconds") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  store.fill();
  const ModelPtr m = load_model(external(), store.options(kSmall, {{"max_contexts", "8"}}));
  Callers callers(m.get(), 4, 500);
  for (int round = 0; round < 2; ++round) {
    sleep_ms(100);
    store.redis.kill();
    sleep_ms(50);
    const int64_t right = callers.right, failed = callers.failed;
    callers.codes();
    sleep_ms(300);
    CHECK(callers.failed > failed);
    CHECK(callers.right - right < callers.failed - failed);  // rows that lie in the tier
    const std::set<dpi_status> codes = callers.codes();
    for (const dpi_status code : codes) CHECK_MESSAGE(code == DPI_E_IO, dpi_status_name(code));
    store.redis.start();  // empty
    store.fill();
    const double seconds = seconds_until_right(m.get());
    MESSAGE("back after ", seconds, " s");
    CHECK(seconds < 5);
  }
  callers.stop();
  CHECK(callers.wrong == 0);
  CHECK(callers.late == 0);
  CHECK(callers.right > 100);
}

TEST_CASE("rows that are in the tier need no server") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  store.fill();
  const ModelPtr m = load_model(external(), store.options(kLarge));
  const Request known(new_rows(100));
  REQUIRE(score(m.get(), known).code == DPI_OK);
  store.redis.kill();
  for (int i = 0; i < 3; ++i) CHECK(identical(score(m.get(), known).out, right_scores(known)));
  std::vector<Row> rows = new_rows(1);
  const Scored gone = score(m.get(), Request(rows));
  CHECK(gone.code == DPI_E_IO);
  CHECK_MESSAGE(names(gone, "table 'users'"), gone.message);
  CHECK_MESSAGE(names(gone, store.redis.address()), gone.message);
}

/// The only store in the counters.
nlohmann::json store_of(const dpi_model* m) {
  std::string text(dpi_model_counters_json(m, nullptr, 0) + 1024, '\0');
  text.resize(dpi_model_counters_json(m, text.data(), text.size()) - 1);
  nlohmann::json found;
  const auto counters = nlohmann::json::parse(text);
  for (const auto& s : counters.at("stores")) {
    if (s.at("name") == "redis") found = s;
  }
  REQUIRE(found.is_object());
  return found;
}

TEST_CASE("a server that goes and comes back: what the counters say, and what store.down=fail does") {
  if (!have_models() || !redis_installed()) return;
  Filled store({"--requirepass", "geheim"});
  store.fill({{"password", "geheim"}});
  const ModelPtr m = load_model(external(), store.options(kLarge, {{"store.redis_password", "geheim"},
                                                                   {"store.down", "fail"},
                                                                   {"store.down_failures", "3"}}));
  REQUIRE(score(m.get(), Request(new_rows(10))).code == DPI_OK);
  nlohmann::json s = store_of(m.get());
  CHECK(s.at("place") == store.redis.address());
  CHECK(s.at("up") == true);
  CHECK(s.at("last_error") == "");
  REQUIRE(s.at("nodes").size() == 1);
  CHECK(s.at("nodes")[0].at("up") == true);
  store.redis.kill();
  for (int i = 0; i < 100 && store_of(m.get()).at("up") == true; ++i)
    CHECK(score(m.get(), Request(new_rows(2)), 2000).code == DPI_E_IO);
  const Scored refused = score(m.get(), Request(new_rows(2)));
  CHECK(refused.code == DPI_E_IO);
  CHECK_MESSAGE(names(refused, "is down (store.down=fail); its last error: "), refused.message);
  CHECK(refused.seconds < kSlack);
  s = store_of(m.get());
  CHECK(s.at("up") == false);
  CHECK(s.at("nodes")[0].at("up") == false);
  CHECK(s.at("nodes")[0].at("name") == store.redis.address());
  store.redis.start();
  store.fill({{"password", "geheim"}});
  CHECK(seconds_until_right(m.get()) < 5);
  s = store_of(m.get());
  CHECK(s.at("up") == true);
  CHECK(s.at("times_down") == 1);
  CHECK(s.at("last_error") == "DPI_E_IO");  // stays
  CHECK(s.at("nodes")[0].at("up") == true);
  CHECK(s.at("nodes")[0].at("reconnects") >= 1);
  CHECK(s.at("nodes")[0].at("last_error") == "DPI_E_IO");
  CHECK(s.dump().find("geheim") == std::string::npos);
}

TEST_CASE("a server that hangs costs a call its deadline, or store.redis_timeout_ms where it has none") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  store.fill();
  const ModelPtr m = load_model(external(), store.options(kLarge));
  const ModelPtr quick = load_model(external(), store.options(kLarge, {{"store.redis_timeout_ms", "300"}}));
  store.redis.pause();
  for (const int timeout : {50, 300, 0}) {
    CAPTURE(timeout);
    const Scored late = score(m.get(), Request(new_rows(3)), timeout);
    CHECK_MESSAGE(late.code == DPI_E_TIMEOUT, late.message);
    CHECK(late.seconds >= (timeout > 0 ? timeout : 990) * 1e-3);
    CHECK(late.seconds < (timeout > 0 ? timeout * 1e-3 + kSlack : 1.95));
    CHECK_MESSAGE((timeout > 0 || !names(late, "deadline")), late.message);  // nobody gave one
    MESSAGE("deadline ", timeout, " ms: ended after ", late.seconds, " s: ", late.message);
  }
  const Scored late = score(quick.get(), Request(new_rows(3)));
  CHECK_MESSAGE(late.code == DPI_E_TIMEOUT, late.message);
  CHECK(late.seconds >= 0.29);
  CHECK(late.seconds < 0.99);
  store.redis.resume();
  CHECK(seconds_until_right(m.get()) < 3);
}

TEST_CASE("settings of the plugin as options: a user, replicas, connections, times; no secret is shown") {
  if (!have_models() || !redis_installed()) return;
  Filled store({"--requirepass", "secret", "--user", "reader", "on", ">of-reader", "~dpi1:*", "+@all"});
  store.fill({{"password", "secret"}});
  const Pairs user = {{"store.redis_user", "reader"},     {"store.redis_password", "of-reader"},
                      {"store.redis_connections", "3"},   {"store.redis_replicas", "off"},
                      {"store.redis_connect_ms", "2000"}, {"store.redis_timeout_ms", "3000"}};
  const ModelPtr m = load_model(external(), store.options(kSmall, user));
  const Request request(new_rows(20));
  CHECK(identical(score(m.get(), request).out, right_scores(request)));
  std::string info(dpi_model_info_json(m.get(), nullptr, 0), '\0');
  dpi_model_info_json(m.get(), info.data(), info.size());
  CHECK(info.find("of-reader") == std::string::npos);
  CHECK_MESSAGE(info.find("\"store.redis_user\"") != std::string::npos, info);
  const auto refused = [&](const Pairs& options, dpi_status code, const std::string& text) {
    const Loaded l = try_load(external(), store.options(kSmall, options));
    CHECK_MESSAGE(l.code == code, l.message);
    CHECK_MESSAGE(l.message.find(text) != std::string::npos, l.message);
    CHECK_MESSAGE(l.message.find("of-reader") == std::string::npos, l.message);
  };
  refused({{"store.redis_user", "nobody"}, {"store.redis_password", "of-reader"}}, DPI_E_IO, "WRONGPASS");
  refused({{"store.redis_user", "reader"}}, DPI_E_INVALID_ARGUMENT, "needs 'password'");
  refused({{"store.redis_password", "secret"}, {"store.redis_replicas", "on"}}, DPI_E_INVALID_ARGUMENT,
          "cluster support disabled");
}

TEST_CASE(
    "a server that hangs makes nobody wait by policy default or fail, nor does its model's end for long") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  store.fill();
  for (const char* policy : {"default", "fail"}) {
    CAPTURE(policy);
    ModelPtr m = load_model(
        external(), store.options(kLarge, {{"table.users.miss", policy}, {"table.items.miss", policy}}));
    const Request request(new_rows(20));
    store.redis.pause();
    for (int i = 0; i < 20; ++i) {
      const Scored got = score(m.get(), request);
      CHECK_MESSAGE(got.code == (*policy == 'd' ? DPI_OK : DPI_E_NOT_FOUND), got.message);
      CHECK(got.seconds < kSlack);
    }
    CHECK(tier(m.get(), "users").late == 0);
    if (*policy == 'd') CHECK(tier(m.get(), "users").defaulted == 20 * 20);
    const uint64_t begin = now_ns();
    m.reset();
    CHECK(now_ns() - begin < 4'000'000'000u);
    store.redis.resume();
  }
}

TEST_CASE("a server that is slow: calls that have time wait, and are right") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  store.fill();
  const ModelPtr m = load_model(external(), store.options(kSmall, {{"max_contexts", "8"}}));
  Callers callers(m.get(), 4, 10'000);
  for (int i = 0; i < 10; ++i) {
    store.redis.pause();
    sleep_ms(60);
    store.redis.resume();
    sleep_ms(10);
  }
  callers.stop();
  CHECK(callers.failed == 0);
  CHECK(callers.wrong == 0);
  CHECK(callers.right > 20);
}

TEST_CASE(
    "something else where the rows were: an error by name, no row of it; and rows again when they are back") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  store.fill();
  const ModelPtr m = load_model(external(), store.options(kLarge));
  const auto fails = [&](const std::string& text) {
    const Scored got = score(m.get(), Request(new_rows(20)), 2000);
    CHECK_MESSAGE(got.code != DPI_OK, "a call succeeded");
    CHECK_MESSAGE((got.code == DPI_E_IO || got.code == DPI_E_BAD_MODEL || got.code == DPI_E_NOT_FOUND),
                  got.message);
    CHECK_MESSAGE(names(got, text), got.message);
  };
  std::istringstream keys(store.redis.ask({"KEYS", "*"}));
  for (std::string key; keys >> key;) CHECK(store.redis.ask({"SET", key, "x"}) == "OK");
  fails("WRONGTYPE");
  CHECK(store.redis.ask({"FLUSHALL"}) == "OK");
  fails("table");
  store.fill();
  CHECK(seconds_until_right(m.get()) < 3);
}

/// Of 16 calls at once, each with a read for each of two tables, those that wait for a server that hangs;
/// the others are told that no more reads may be under way.
int waiting(Filled& store, Pairs more) {
  more.emplace_back("max_contexts", "16");
  const ModelPtr m = load_model(external(), store.options(kLarge, more));
  store.redis.pause();
  std::atomic<int> late{0}, full{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&, request = std::make_shared<Request>(new_rows(1))] {
      const Scored got = score(m.get(), *request, 600);
      late += got.code == DPI_E_TIMEOUT ? 1 : 0;
      full += got.code == DPI_E_QUEUE_FULL ? 1 : 0;
    });
  }
  for (std::thread& t : callers) t.join();
  store.redis.resume();
  CHECK(late + full == 16);
  return late;
}

TEST_CASE("threads, reads and bytes that may be under way are those of the options") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  store.fill();
  for (const int threads : {1, 5, 0}) {
    const std::string option = std::to_string(std::max(1, threads));
    const ModelPtr m =
        load_model(threads > 0 ? external() : whole(),
                   threads > 0 ? store.options(kLarge, {{"store.fetch_threads", option}}) : Pairs{});
    for (int i = 0; i < 200 && threads_named("dpi-fetch") != threads; ++i) sleep_ms(10);  // each names itself
    CHECK(threads_named("dpi-fetch") == threads);
  }
  CHECK(waiting(store, {}) == 16);
  const int queue = waiting(store, {{"store.fetch_queue", "5"}});
  CHECK(queue > 1);
  CHECK(queue <= 5);
  CHECK(waiting(store, {{"store.fetch_bytes", "65536"}}) <= 6);  // 256 rows of 64 bytes are a quarter of it
}

}  // namespace dpi::test::redis_test
