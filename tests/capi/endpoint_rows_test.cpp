// Rows that carry their key and their version, read while versions are swapped, made by deltas, folded and
// rolled back, from memory and through a tier that is too small for them: every element of every row, and
// every score, is that of the version that says it answered. What a load has returned for is seen by each
// call that begins then. Keys go and come back.
//
// Planted, seen: runtime/endpoint_rows_of_base (tests/mutants). Meant for ThreadSanitizer too.
#include "capi/rows_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::endpoint_rows_test {
namespace {

constexpr int kCallers = 8;

struct Mode {
  const char* name;
  bool shows_rows;  // dpi_table_lookup has them: not where folds left scalars, nor in a device's own memory
  Pairs options;
};

/// wide and keyed have 100 KB of rows: the tier evicts all the time.
std::vector<Mode> modes() {
  const Pairs tier = {
      {"store.host_bytes", "60000"}, {"store.resident_bytes", "0"}, {"debug.fold", "off"}, {"max_rows", "8"}};
  Pairs alone = tier;
  alone.emplace_back("store.share", "off");
  return {{"resident, rows", device() != "cuda_emu", {{"debug.fold", "off"}}},
          {"resident, folded", false, {{"debug.fold", "on"}}},
          {"host tier", true, tier},
          {"host tier, not shared", true, alone}};
}

int updates() { return device() == "cuda_emu" ? 24 : DPI_UNDER_TSAN || DPI_UNDER_ASAN ? 48 : 200; }

EndpointPtr endpoint_of(const Mode& mode) {
  Pairs options = mode.options;
  options.emplace_back("max_contexts", "4");
  EndpointPtr e = make_endpoint("rows", options);
  set(e.get(), "warm_up_rows", "2");
  load(e.get(), row_bundle(0), kVersions);
  return e;
}

/// Rows of `wide` that the model's tier has fetched so far.
int64_t fetched(const dpi_model* m) {
  const std::string counters = json_text(dpi_model_counters_json, m);
  const size_t table = counters.find("\"name\":\"wide\""), at = counters.find("\"fetched\":", table);
  REQUIRE(table != std::string::npos);
  REQUIRE(at != std::string::npos);
  return std::atoll(counters.c_str() + at + 10);
}

struct Callers {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> there{0};  // a version whose load has returned
  std::atomic<int64_t> failed{0}, wrong{0}, late{0}, torn{0}, asked{0};
  std::vector<std::string> told{kCallers};
  std::vector<std::thread> threads;

  Callers(dpi_endpoint* e, bool shows_rows) {
    for (size_t i = 0; i < kCallers; ++i) {
      threads.emplace_back([this, e, shows_rows, i] {
        std::mt19937_64 rng(i);
        while (!stop.load()) {
          shows_rows&& i % 4 == 3 ? read_rows(e, rng, i) : score(e, rng, i);
          ++asked;
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
      });
    }
  }
  void score(dpi_endpoint* e, std::mt19937_64& rng, size_t i) {
    const KnownRows rows(1 + static_cast<int64_t>(rng() % 8), rng);
    const uint64_t least = there.load();
    const RowsAnswer a = ask(e, rows);
    if (a.code != DPI_OK) {
      ++failed;
      told[i] = a.text;
    } else if (!a.right) {
      ++wrong;
    }
    if (a.version < least) ++late;
  }
  void read_rows(dpi_endpoint* e, std::mt19937_64& rng, size_t i) {
    dpi_model* m = nullptr;
    if (dpi_endpoint_acquire(e, &m, nullptr) != DPI_OK) {
      ++failed;
      return;
    }
    const uint64_t n = info_of(m).version;
    for (const auto& [table, rows] : {std::pair("wide", kWideRows), {"half", kHalfRows}, {"keyed", kKeys}}) {
      std::vector<int64_t> numbers(5);
      for (int64_t& r : numbers) r = static_cast<int64_t>(rng() % static_cast<uint64_t>(rows));
      std::string why;
      if (!right_rows(m, table, n, numbers, &why)) ++torn;
      if (!why.empty()) told[i] = why;
    }
    dpi_model_free(m);
  }
  void join() {
    stop.store(true);
    for (std::thread& t : threads) t.join();
    for (const std::string& text : told) CHECK(text == "");
    CHECK(failed.load() == 0);
    CHECK(wrong.load() == 0);
    CHECK(late.load() == 0);
    CHECK(torn.load() == 0);
    CHECK(asked.load() > kCallers);
  }
};

}  // namespace

TEST_CASE("deltas and swaps: each row and score is its version's, and a load that returned is seen by all") {
  if (row_versions() == nullptr) return;
  for (const Mode& mode : modes()) {
    CAPTURE(mode.name);
    const EndpointPtr e = endpoint_of(mode);
    set(e.get(), "keep_seconds", "0");
    Callers callers(e.get(), mode.shows_rows);
    for (uint64_t n = kVersions; n < kVersions + static_cast<uint64_t>(updates()); ++n) {
      load(e.get(), n % 7 == 6 ? row_bundle(n + 1) : row_delta(n), n + 1);
      callers.there.store(n + 1);
    }
    callers.join();
  }
}

TEST_CASE("rollbacks between deltas: each row and score is its version's") {
  if (row_versions() == nullptr) return;
  for (const Mode& mode : modes()) {
    CAPTURE(mode.name);
    const EndpointPtr e = endpoint_of(mode);
    Callers callers(e.get(), mode.shows_rows);
    uint64_t n = kVersions;
    for (int i = 0; i < updates(); ++i) {
      load(e.get(), row_delta(n), n + 1);
      if (i % 3 != 2)
        ++n;
      else
        CHECK(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
    }
    CHECK(dpi_endpoint_version(e.get()) == n);
    callers.join();
  }
}

TEST_CASE("keys go and come back: absent ones have the default row, in every version and tier") {
  if (row_versions() == nullptr) return;
  std::vector<int64_t> keys(kKeys), wide(kWideRows);
  for (size_t j = 0; j < keys.size(); ++j) keys[j] = static_cast<int64_t>(j);
  for (size_t r = 0; r < wide.size(); ++r) wide[r] = static_cast<int64_t>(r);
  for (const Mode& mode : modes()) {
    CAPTURE(mode.name);
    const EndpointPtr e = endpoint_of(mode);
    for (uint64_t n = kVersions; n < 2 * kVersions + 2; ++n) {
      CAPTURE(n);
      dpi_model* m = nullptr;
      REQUIRE(dpi_endpoint_acquire(e.get(), &m, nullptr) == DPI_OK);
      const ModelPtr held(m);
      if (mode.shows_rows) CHECK(right_rows(m, "keyed", n, keys));
      for (size_t r = 0; mode.shows_rows && r < wide.size(); r += 64)
        CHECK(right_rows(
            m, "wide", n,
            {wide.begin() + static_cast<ptrdiff_t>(r), wide.begin() + static_cast<ptrdiff_t>(r) + 64}));
      if (std::string(mode.name).starts_with("host")) CHECK(fetched(m) > kWideRows / 4);  // it holds a part
      KnownRows all;
      for (int64_t j = 0; j < kKeys; ++j) all.add(j * 16 + j % 16, j % kHalfRows, j);
      const RowsAnswer a = ask(e.get(), all);
      CHECK(a.version == n);
      CHECK(a.right);
      load(e.get(), row_delta(n), n + 1);
    }
  }
}

}  // namespace dpi::test::endpoint_rows_test
