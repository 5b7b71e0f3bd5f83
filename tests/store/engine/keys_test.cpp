// Keys as nobody expects them, through a model: the least and the greatest int64, negative ones, strided ones
// whose low bits are equal, all equal, absent, outside the table; and dpi_table_lookup's policies, its
// deadline and its flag.
// Planted, each seen: the lowest bit of a key left out of its index; policy default without its number; a
// lookup that gives its store no deadline, or no flag.
#include <dpi/batcher.h>

#include <algorithm>
#include <thread>

#include "store/engine/fixture.hpp"

namespace dpi::test::keys_test {
namespace {

Scored lookup(dpi_model* m, const char* table, const std::vector<int64_t>& keys, size_t dim,
              const dpi_run_options* run = nullptr) {
  Scored s;
  s.out.assign(keys.size() * dim, -7.0f);
  Error e;
  const uint64_t begin = now_ns();
  s.code =
      run == nullptr
          ? dpi_table_lookup(m, table, keys.data(), keys.size(), s.out.data(), s.out.size(), &e)
          : dpi_table_lookup_run(m, table, keys.data(), keys.size(), s.out.data(), s.out.size(), run, &e);
  s.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  s.message = e.text();
  return s;
}

dpi_run_options deadline_in(int ms) {
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  run.deadline_ns = now_ns() + static_cast<uint64_t>(ms) * 1'000'000u;
  return run;
}

bool all_are(const std::vector<float>& values, float v) {
  return std::all_of(values.begin(), values.end(), [v](float x) { return x == v; });
}

/// How many keys were in no row so far.
int64_t absent_keys(const dpi_model* m) {
  std::string text(dpi_model_counters_json(m, nullptr, 0), '\0');
  dpi_model_counters_json(m, text.data(), text.size());
  const size_t feature = text.find("\"name\":\"key\""), at = text.find("\"absent\":", feature);
  REQUIRE(feature != std::string::npos);
  REQUIRE(at != std::string::npos);
  return std::stoll(text.substr(at + 9));
}

/// A server with the external rows.
struct Filled {
  RedisServer redis;
  Filled() { fill_store("redis", {{"address", redis.address()}}); }
  Pairs and_(Pairs more) const {
    more.emplace_back("store.redis_address", redis.address());
    return more;
  }
};

}  // namespace

TEST_CASE("every known key, keys beside them, and one key a thousand times") {
  if (!have_models()) return;
  std::vector<Row> all, near, same;
  for (const int64_t key : known_keys()) {
    all.push_back({0, kRows - 1, 0, kRows - 1, 0, 0, key, {}});
    near.push_back({1, 1, 1, 1, 1, 1, static_cast<int64_t>(static_cast<uint64_t>(key) + 2), {}});  // wraps
  }
  for (int i = 0; i < 1000; ++i) same.push_back({7, 7, 7, 7, 7, 7, INT64_MIN, {7, 7, 7, 7, 7, 7, 7, 7}});
  for (const char* budget : {"60000", "4000000"}) {
    CAPTURE(budget);
    const ModelPtr m = load_model(whole(), tiered(budget));
    const auto check = [&](const std::vector<Row>& rows, int64_t absent) {
      const Request request(rows);
      const int64_t before = absent_keys(m.get());
      const Scored got = score(m.get(), request);
      REQUIRE_MESSAGE(got.code == DPI_OK, got.message);
      CHECK(identical(got.out, right_scores(request)));
      CHECK(absent_keys(m.get()) - before == absent);
    };
    check(all, 0);
    check(near, static_cast<int64_t>(known_keys().size()) - 2);  // -1 + 2 and the greatest + 2 are known
    check(same, 0);
  }
}

TEST_CASE("ids outside a table are told by row and feature, and nothing is fetched for them") {
  if (!have_models()) return;
  const ModelPtr m = load_model(whole(), tiered("4000000"));
  for (const int64_t id : {int64_t{-1}, kRows, INT64_MIN, INT64_MAX, int64_t{1} << 32}) {
    CAPTURE(id);
    const Request request({{1, 1, 1, 1, 1, 1, 0, {}}, {1, id, 1, 1, 1, 1, 0, {}}});
    Error e;
    std::vector<float> out(2);
    CHECK(dpi_predict(m.get(), &request.batch, out.data(), 2, nullptr, &e) == DPI_E_INVALID_ARGUMENT);
    CHECK(e.row == 1);
    CHECK(e.feature == 1);
    const Scored rows = lookup(m.get(), "items", {5, id}, 16);
    CHECK(rows.code == DPI_E_INVALID_ARGUMENT);
    CHECK_MESSAGE(rows.message.find(std::to_string(id)) != std::string::npos, rows.message);
    CHECK(all_are(rows.out, -7.0f));  // left as it is
  }
  CHECK(tier(m.get(), "items").late == 0);
}

/// Requests of the model keys(): known keys, some of the other feature's only, some of none.
struct KeyRequest {
  std::vector<int64_t> ids;
  dpi_batch batch = DPI_BATCH_INIT;
  std::vector<float> out;

  KeyRequest(int64_t rows, std::mt19937_64& rng) : out(static_cast<size_t>(rows), -7.0f) {
    for (int64_t i = 0; i < 2 * rows; ++i) ids.push_back(rng() % 8 == 0 ? kNoKey : known_keys()[rng() % 300]);
    batch.rows = rows;
    batch.ids = ids.data();
    batch.nnz = 2 * rows;
  }
  std::vector<float> scores(dpi_model* m) const {
    std::vector<float> direct(out.size());
    Error e;
    const dpi_status s = dpi_predict(m, &batch, direct.data(), direct.size(), nullptr, &e);
    REQUIRE_MESSAGE(s == DPI_OK, e.text());
    return direct;
  }
};

TEST_CASE("keys of external sets, of several requests in one chunk: each has its own rows") {
  if (!have_models() || !redis_installed()) return;
  RedisServer redis;
  fill_keys("redis", {{"address", redis.address()}});
  const ModelPtr oracle = load_model(keys(), {});
  const ModelPtr m = load_model(keys_external(),
                                {{"store.host_bytes", "4000000"}, {"store.redis_address", redis.address()}});
  std::mt19937_64 rng(31);
  const OptionsPtr o(dpi_options_create());
  Error e;
  REQUIRE(dpi_options_set(o.get(), "batch.max_rows", "12", &e) == DPI_OK);  // a chunk is full
  REQUIRE(dpi_options_set(o.get(), "batch.max_delay_us", "1000000", &e) == DPI_OK);
  dpi_batcher* b = nullptr;
  REQUIRE(dpi_batcher_create(m.get(), o.get(), &b, &e) == DPI_OK);
  const std::unique_ptr<dpi_batcher, decltype(&dpi_batcher_free)> owner(b, dpi_batcher_free);
  for (int round = 0; round < 10; ++round) {
    std::vector<std::unique_ptr<KeyRequest>> requests;
    for (const int64_t rows : {3, 1, 6, 2}) {
      requests.push_back(std::make_unique<KeyRequest>(rows, rng));
      CHECK(
          identical(requests.back()->scores(m.get()), requests.back()->scores(oracle.get())));  // now cached
    }
    uint64_t ticket = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      std::vector<float>& out = requests[i]->out;
      REQUIRE(dpi_batcher_submit(b, &requests[i]->batch, out.data(), out.size(), nullptr, i, &ticket, &e) ==
              DPI_OK);
    }
    for (size_t taken = 0, n = 0; taken < requests.size(); taken += n) {
      dpi_completion done = DPI_COMPLETION_INIT;
      REQUIRE(dpi_batcher_poll(b, &done, 1, 60'000'000, &n, &e) == DPI_OK);
      REQUIRE(n == 1);
      REQUIRE_MESSAGE(done.status == DPI_OK, done.error.message);
      const KeyRequest& r = *requests[done.user];
      CHECK(identical(r.out, r.scores(oracle.get())));
    }
  }
  std::string status(dpi_batcher_status_json(b, nullptr, 0) + 64, '\0');
  dpi_batcher_status_json(b, status.data(), status.size());
  CHECK_MESSAGE(status.find("\"chunks\":10,\"chunk_requests\":40") != std::string::npos, status);
  CHECK_MESSAGE(status.find("\"again\":0") != std::string::npos, status);
}

TEST_CASE(
    "a lookup under miss=default: the number now, the row later; under fail: told, and fetched behind") {
  if (!have_models() || !redis_installed()) return;
  const Filled store;
  const ModelPtr m = load_model(external(), store.and_(tiered("4000000", {{"table.users.miss", "default"},
                                                                          {"table.users.default", "0.5"},
                                                                          {"table.items.miss", "fail"}})));
  const ModelPtr rows = load_model(whole(), {});
  const std::vector<int64_t> keys = {3, kRows - 1, 3};
  const Scored first = lookup(m.get(), "users", keys, 8);
  REQUIRE_MESSAGE(first.code == DPI_OK, first.message);
  CHECK(all_are(first.out, 0.5f));
  CHECK(tier(m.get(), "users").defaulted == 3);
  const Scored told = lookup(m.get(), "items", keys, 16);
  CHECK(told.code == DPI_E_NOT_FOUND);
  CHECK_MESSAGE(told.message.find("table 'items': key 3 is not in host memory") != std::string::npos,
                told.message);
  CHECK(all_are(told.out, -7.0f));
  const std::vector<float> users = lookup(rows.get(), "users", keys, 8).out,
                           items = lookup(rows.get(), "items", keys, 16).out;
  bool equal = false;
  for (int i = 0; i < 2000 && !equal; ++i) {
    sleep_ms(1);
    equal = lookup(m.get(), "users", keys, 8).out == users && lookup(m.get(), "items", keys, 16).out == items;
  }
  CHECK(equal);
  CHECK(tier(m.get(), "users").late == 0);
}

TEST_CASE("a lookup of a store that has gone: exact and fail are told, default has its number") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  const ModelPtr m = load_model(
      external(),
      store.and_(tiered("4000000", {{"table.users.miss", "default"}, {"table.users.default", "-2"}})));
  store.redis.kill();
  for (int i = 0; i < 3; ++i) {
    CHECK(all_are(lookup(m.get(), "users", {1, 2}, 8).out, -2.0f));
    const Scored gone = lookup(m.get(), "items", {1, 2}, 16);
    CHECK_MESSAGE(gone.code == DPI_E_IO, gone.message);
    CHECK_MESSAGE(gone.message.find(store.redis.address()) != std::string::npos, gone.message);
    CHECK(all_are(gone.out, -7.0f));
  }
  CHECK(tier(m.get(), "users").defaulted == 6);
  CHECK(tier(m.get(), "items").failed >= 6);
}

TEST_CASE("a lookup of a store that hangs ends at its deadline or by its flag, with out as it was") {
  if (!have_models() || !redis_installed()) return;
  Filled store;
  const ModelPtr m = load_model(external(), store.and_(tiered("4000000")));
  const ModelPtr rows = load_model(whole(), {});
  const std::vector<int64_t> known = {1, 2};
  REQUIRE(lookup(m.get(), "users", known, 8).code == DPI_OK);
  store.redis.pause();
  int64_t next = 100;
  uint64_t version = 77;
  for (const int ms : {50, 300}) {
    CAPTURE(ms);
    dpi_run_options run = deadline_in(ms);
    run.version = &version;
    const Scored late = lookup(m.get(), "users", {1, next, 2, next + 1}, 8, &run);  // some are there
    next += 2;
    CHECK_MESSAGE(late.code == DPI_E_TIMEOUT, late.message);
    CHECK(late.seconds >= ms * 0.9e-3);
    CHECK(late.seconds < ms * 1e-3 + 1.0);
    CHECK(all_are(late.out, -7.0f));
  }
  CHECK(version == 77);
  int32_t flag = 0;
  dpi_run_options run = deadline_in(60'000);
  run.cancel = &flag;
  std::thread setter([&flag] {
    sleep_ms(100);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
  });
  const Scored ended = lookup(m.get(), "items", {7, 8}, 16, &run);
  setter.join();
  CHECK_MESSAGE(ended.code == DPI_E_CANCELLED, ended.message);
  CHECK(ended.seconds < 1.1);
  CHECK(all_are(ended.out, -7.0f));
  const dpi_run_options here = deadline_in(1000);  // what is in the tier needs no store
  CHECK(lookup(m.get(), "users", known, 8, &here).out == lookup(rows.get(), "users", known, 8).out);
  store.redis.resume();
  run = deadline_in(60'000);
  run.version = &version;
  const std::vector<int64_t> all = {1, 100, 103, kRows - 1};
  const Scored got = lookup(m.get(), "users", all, 8, &run);
  REQUIRE_MESSAGE(got.code == DPI_OK, got.message);
  CHECK(got.out == lookup(rows.get(), "users", all, 8).out);
  CHECK(version == 1);
}

TEST_CASE("a lookup's run options are looked at before any row, wherever the table is") {
  if (!have_models()) return;
  const ModelPtr resident = load_model(whole(), {}), in_tier = load_model(whole(), tiered("4000000"));
  for (dpi_model* m : {resident.get(), in_tier.get()}) {
    dpi_run_options run = DPI_RUN_OPTIONS_INIT;
    run.deadline_ns = now_ns() - 1;
    const Scored late = lookup(m, "pages", {3}, 8, &run);
    CHECK_MESSAGE(late.code == DPI_E_TIMEOUT, late.message);
    CHECK(all_are(late.out, -7.0f));
    const int32_t flag = 1;
    run = deadline_in(60'000);
    run.cancel = &flag;
    CHECK(lookup(m, "pages", {3}, 8, &run).code == DPI_E_CANCELLED);
    float logit = 0;
    run = deadline_in(60'000);
    run.logits = &logit;
    CHECK(lookup(m, "pages", {3}, 8, &run).code == DPI_E_INVALID_ARGUMENT);
    run = deadline_in(60'000);
    run.flags = 2;
    CHECK(lookup(m, "pages", {3}, 8, &run).code == DPI_E_VERSION);
    run = deadline_in(60'000);
    CHECK(lookup(m, "pages", {3}, 8, &run).out == lookup(m, "pages", {3}, 8).out);
  }
}

}  // namespace dpi::test::keys_test
