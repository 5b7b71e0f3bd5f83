// What an endpoint tells of its past: the log in the order of what happened, the history, counters that
// outlive versions, and files that it saw and did not take.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/endpoint_support.hpp"

namespace dpi::test::endpoint_told_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json told(const dpi_endpoint* e) { return json::parse(status(e).c_str()); }

/// By rename, as a publisher does.
void put(const Folder& folder, const std::string& name, const std::string& from) {
  fs::copy_file(from, folder.path + "/.part", fs::copy_options::overwrite_existing);
  fs::rename(folder.path + "/.part", folder.path + "/" + name);
}

dpi_status load_status(dpi_endpoint* e, const std::string& path, uint64_t number) {
  return dpi_endpoint_load(e, path.c_str(), number, nullptr);
}

/// How many descriptors of this process are of that file.
int64_t open_of(const std::string& path) {
  int64_t n = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    n += fs::read_symlink(entry.path(), gone) == path;
  }
  return n;
}

/// Follows messages of versions that serve and are rolled back to: each has to fit the one before.
struct Order {
  std::mutex mutex;
  uint64_t now = 0;
  int faults = 0, loads = 0, rollbacks = 0;

  static void hear(void* user, int32_t, const char*, const char* text) {
    auto* o = static_cast<Order*>(user);
    const std::lock_guard<std::mutex> lock(o->mutex);
    unsigned long long a = 0, b = 0;
    if (std::sscanf(text, "ordered: version %llu serves", &a) == 1) {
      o->faults += a <= o->now;  // the loader counts up from what serves
      o->now = a;
      ++o->loads;
    } else if (std::sscanf(text, "ordered: rolled back from version %llu to %llu", &a, &b) == 2) {
      o->faults += a != o->now;
      o->now = b;
      ++o->rollbacks;
    }
  }
};

}  // namespace

TEST_CASE("the log tells loads and rollbacks in the order in which they happened") {
  if (versions() == nullptr) return;
  Order order;
  const EnvPtr env = make_env();
  REQUIRE(dpi_env_set_log(env.get(), Order::hear, &order, DPI_LOG_INFO, nullptr) == DPI_OK);
  const EndpointPtr e = make_endpoint("ordered", {{"max_contexts", "1"}}, env.get());
  set(e.get(), "warm_up_rows", "0");
  set(e.get(), "golden", "off");
  std::atomic<bool> done{false};
  std::thread back([&] {
    while (!done) {
      if (dpi_endpoint_rollback(e.get(), nullptr) != DPI_OK) sleep_ms(1);  // nothing is kept
    }
  });
  for (int i = 0; i < 60; ++i) load(e.get(), bundle(i % 2));
  done = true;
  back.join();
  const json status = told(e.get());
  CHECK(order.faults == 0);
  CHECK(order.loads == 60);
  CHECK(order.rollbacks == status["rollbacks"].get<int>());
  CHECK(order.now == dpi_endpoint_version(e.get()));
  MESSAGE(order.rollbacks << " rollbacks");
}

TEST_CASE("the history holds the last 32 loads, refusals and rollbacks with their codes") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("history", {{"max_contexts", "1"}});
  set(e.get(), "warm_up_rows", "0");
  CHECK(told(e.get())["history"].empty());
  load(e.get(), bundle(1), 4);
  load(e.get(), bundle(2), 5);
  CHECK(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  for (int i = 0; i < 3; ++i) CHECK(load_status(e.get(), "/nowhere.h5", 9) == DPI_E_NOT_FOUND);
  json history = told(e.get())["history"];
  REQUIRE(history.size() == 4);
  CHECK(history[0]["event"] == "load");
  CHECK(history[0]["version"] == 4);
  CHECK(history[1]["path"] == bundle(2));
  CHECK(history[2]["event"] == "rollback");
  CHECK(history[2]["from"] == 5);
  CHECK(history[2]["version"] == 4);
  CHECK(history[3]["event"] == "failed_load");
  CHECK(history[3]["code"] == DPI_E_NOT_FOUND);
  CHECK(history[3]["times"] == 3);
  CHECK(history[3]["error"].get<std::string>().find("/nowhere.h5") != std::string::npos);
  CHECK(told(e.get())["highest_served"] == 5);
  for (int i = 0; i < 40; ++i) load(e.get(), bundle(i % 2));
  history = told(e.get())["history"];
  REQUIRE(history.size() == 32);
  CHECK(history[31]["version"] == 45);
  CHECK(history[0]["version"] == 14);
  CHECK(told(e.get())["last_load"]["version"] == 45);
}

TEST_CASE("the counters of an endpoint outlive its versions and never fall") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("counts", {{"max_contexts", "2"}});
  set(e.get(), "keep_seconds", "0");
  const TagRows rows(3);
  uint64_t calls = 0, refused = 0;
  for (int version = 1; version <= 5; ++version) {
    load(e.get(), bundle(version));
    const uint64_t warm = told(e.get())["counters"]["calls"].get<uint64_t>() - calls;
    CHECK(warm == 0);  // nobody's calls
    for (int i = 0; i < 4 * version; ++i, ++calls) CHECK(ask(e.get(), rows).code == DPI_OK);
    float out[1];
    CHECK(dpi_endpoint_predict(e.get(), &rows.batch, out, 1, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
    ++refused;
    dpi_model* held = nullptr;
    REQUIRE(dpi_endpoint_acquire(e.get(), &held, nullptr) == DPI_OK);
    load(e.get(), bundle(version + 1));
    std::vector<float> scores(3);
    CHECK(dpi_predict(held, &rows.batch, scores.data(), scores.size(), nullptr, nullptr) == DPI_OK);
    ++calls;
    dpi_model_free(held);  // the version's last reader: its counts are the endpoint's from now on
    const json counters = told(e.get())["counters"];
    CHECK(counters["calls"] == calls);
    CHECK(counters["rows"] == 3 * calls);
    CHECK(counters["errors"] == json{{std::to_string(DPI_E_INVALID_ARGUMENT), refused}});
  }
}

TEST_CASE("files that are seen and not taken are told with the reason") {
  if (versions() == nullptr) return;
  Heard heard;
  const EnvPtr env = make_env();
  heard.listen(env.get(), DPI_LOG_WARN);
  const Folder folder;
  put(folder, "v5.h5", bundle(5));
  put(folder, "v3.h5", bundle(3));
  const EndpointPtr e = make_endpoint("passes", {{"max_contexts", "1"}}, env.get());
  set(e.get(), "follow_ms", "5");
  REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), nullptr) == DPI_OK);
  REQUIRE(dpi_endpoint_wait(e.get(), 5, in_ms(30'000), nullptr) == DPI_OK);
  const auto not_taken = [&] { return told(e.get())["follows"]["not_taken"]; };
  sleep_ms(50);
  CHECK(not_taken().empty());  // v3 was there before: an older version, nothing to tell
  put(folder, "v4.h5", bundle(4));
  REQUIRE(soon([&] { return not_taken().size() == 1; }));
  CHECK(not_taken()[0]["path"] == folder.path + "/v4.h5");
  CHECK(not_taken()[0]["version"] == 4);
  CHECK(not_taken()[0]["reason"] == "version 4 is not above 5, the highest that served");
  put(folder, "v005.h5", bundle(6));
  REQUIRE(soon([&] { return not_taken().size() == 2; }));
  CHECK(not_taken()[0]["reason"].get<std::string>().find("another file is version 5: ") == 0);
  put(folder, "v6.h5", bundle(6));
  REQUIRE(dpi_endpoint_wait(e.get(), 6, in_ms(30'000), nullptr) == DPI_OK);
  CHECK(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  REQUIRE(soon([&] { return not_taken()[0]["version"] == 6; }));
  CHECK(not_taken()[0]["reason"] == "version 6 was rolled back; publish the next one under a higher number");
  CHECK(heard.find("endpoint", "v4.h5 is not loaded: version 4 is not above 5", DPI_LOG_WARN) != "");
  fs::remove(folder.path + "/v4.h5");
  CHECK(soon([&] { return not_taken().size() == 2; }));
}

TEST_CASE("a status is of one moment: a version that serves is counted, and is not still loading") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("moment", {{"max_contexts", "1"}});
  set(e.get(), "warm_up_rows", "0");
  std::atomic<bool> done{false};
  int looks = 0, loading = 0, wrong = 0;
  std::string text;
  std::thread watcher([&] {
    while (!done) {
      const json s = told(e.get());
      const uint64_t version = s.value("version", uint64_t{0});  // numbers are counted up from 1
      const bool told_apart = !s.contains("loading") || s["loading"]["path"] != s.value("path", "");
      const bool whole = s["loads"] == version && s["highest_served"] == version && told_apart &&
                         (version == 0 || s["last_load"]["version"] == version);
      ++looks;
      loading += s.contains("loading");
      if (!whole && ++wrong == 1) text = s.dump();
    }
  });
  for (int i = 0; i < 60; ++i) load(e.get(), bundle(i % 2));
  done = true;
  watcher.join();
  CHECK_MESSAGE(wrong == 0, text);
  CHECK(looks > 60);
  CHECK(loading > 0);
}

TEST_CASE("times in a status have milliseconds, and no digits that mean nothing") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("digits", {{"max_contexts", "1"}});
  for (int i = 0; i < 6; ++i) {
    load(e.get(), bundle(i % 2));
    if (i == 0) continue;
    const std::string text = status(e.get());
    const std::string key = "\"seconds_left\":";
    const size_t at = text.find(key);
    REQUIRE(at != std::string::npos);
    const std::string number = text.substr(at + key.size(), text.find_first_of(",}", at) - at - key.size());
    const size_t point = number.find('.');
    CHECK_MESSAGE((point == std::string::npos || number.size() - point <= 4), number);
    CHECK(std::stod(number) > 200);
    CHECK(std::stod(number) <= 300);
    sleep_ms(3);
  }
}

TEST_CASE("the file of a version is closed when nobody reads the version any more") {
  if (versions() == nullptr) return;
  if (device() != "cpu") return;  // a host tier reads its rows from the file
  for (const bool tier : {false, true}) {
    CAPTURE(tier);
    const Folder folder;
    Pairs pairs = {{"max_contexts", "1"}};
    if (tier) pairs.insert(pairs.end(), {{"store.host_bytes", "100000"}, {"store.resident_bytes", "0"}});
    const EndpointPtr e = make_endpoint("closes", pairs);
    for (int i = 1; i <= 3; ++i) put(folder, std::to_string(i) + ".h5", bundle(i));
    const auto path = [&](int i) { return folder.path + "/" + std::to_string(i) + ".h5"; };
    set(e.get(), "keep_seconds", "300");
    load(e.get(), path(1));
    CHECK(open_of(path(1)) > 0);  // the next delta starts from it
    dpi_model* held = nullptr;
    REQUIRE(dpi_endpoint_acquire(e.get(), &held, nullptr) == DPI_OK);
    load(e.get(), path(2));
    load(e.get(), path(3));
    CHECK(told(e.get())["kept"]["version"] == 2);
    const TagRows rows(3);
    std::vector<float> scores(3);
    CHECK(dpi_predict(held, &rows.batch, scores.data(), scores.size(), nullptr, nullptr) == DPI_OK);
    CHECK(rows.tag(scores) == 1);
    // Who holds the model reads rows of its tier from the file; resident tables need none.
    CHECK((tier ? open_of(path(1)) > 0 : soon([&] { return open_of(path(1)) == 0; })));
    dpi_model_free(held);
    // The endpoint's thread may be hashing a version that has gone.
    CHECK(soon([&] { return open_of(path(1)) == 0; }));
    CHECK(open_of(path(2)) > 0);  // a rollback and the deltas behind it need it
    CHECK(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
    CHECK(soon([&] { return open_of(path(3)) == 0; }));
    CHECK(ask(e.get(), rows).tag == 2);
    set(e.get(), "keep_seconds", "0");
    load(e.get(), path(3));
    CHECK(soon([&] { return open_of(path(2)) == 0; }));
  }
}

}  // namespace dpi::test::endpoint_told_test
