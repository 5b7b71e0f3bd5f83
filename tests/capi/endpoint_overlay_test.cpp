// Deltas of a few rows of large tables: scores are those of the whole new bundle, to the bit, whatever lies
// in spare rows and whatever was merged; tables are neither read nor held twice; 16 callers never see a mixed
// version. The mutants tests/mutants/runtime/overlay_*.patch are found here or in store/spare_rows_test.cpp.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>

#include "support/endpoint_support.hpp"
#include "support/full.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::endpoint_overlay_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

/// The bundles of make_deep.py, made once for a test program; null where they cannot be made.
const Folder* deep() {
  static const Folder* const kMade = [] {
    static Folder folder;
    return made_by(source_dir() + "/tests/capi/make_deep.py", folder.path) ? &folder : nullptr;
  }();
  return kMade;
}
std::string file(const std::string& name) { return deep()->path + "/" + name; }

uint64_t resident_bytes() {
  uint64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * 4096;
}

/// Rows that look up every id that some version changes, and others.
struct Rows {
  std::vector<int64_t> ids, offsets{0};
  dpi_batch batch{};

  explicit Rows(const std::string& form) {
    std::ifstream in(file(form + ".ids"), std::ios::binary);
    std::vector<int64_t> keys(1 << 16);
    in.read(reinterpret_cast<char*>(keys.data()), static_cast<std::streamsize>(keys.size() * 8));
    const auto n = static_cast<size_t>(in.gcount()) / 8;
    REQUIRE(n > 100);
    for (size_t i = 0; i < n; ++i) {
      add(&keys[i], 1);
      const auto small = static_cast<int64_t>(i % 16);
      add(&small, 1);
      const int64_t bag[] = {keys[(i * 7) % n], 0, keys[(i + 1) % n]};
      if (form == "bags") add(bag, i % 4);
    }
    batch.struct_size = sizeof batch;
    batch.rows = static_cast<int64_t>(n);
    batch.ids = ids.data();
    batch.offsets = offsets.data();
    batch.nnz = static_cast<int64_t>(ids.size());
  }
  void add(const int64_t* from, size_t n) {
    ids.insert(ids.end(), from, from + n);
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
};

std::vector<float> score(dpi_endpoint* e, const Rows& rows) {
  std::vector<float> out(static_cast<size_t>(rows.batch.rows), -1.0f);
  Error error;
  const dpi_status s = dpi_endpoint_predict(e, &rows.batch, out.data(), out.size(), nullptr, &error);
  INFO(error.text());
  REQUIRE(s == DPI_OK);
  return out;
}

/// What a fresh load of the whole bundle scores, in an environment of its own. Always for the bundle's own
/// rows, so that once for each bundle and options is enough.
const std::vector<float>& want(const std::string& bundle, const Rows& rows, const Pairs& pairs) {
  static std::map<std::pair<std::string, Pairs>, std::vector<float>> known;
  std::vector<float>& scores = known[{bundle, pairs}];
  if (!scores.empty()) return scores;
  const EnvPtr env = make_env();
  const EndpointPtr e = make_endpoint("whole", pairs, env.get());
  set(e.get(), "update.spare_rows", "0");
  load(e.get(), bundle);
  return scores = score(e.get(), rows);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Ids whose rows the current version had to fetch.
int64_t late_rows(dpi_endpoint* e) {
  dpi_model* m = nullptr;
  REQUIRE(dpi_endpoint_acquire(e, &m, nullptr) == DPI_OK);
  std::string told(4096, '\0');
  REQUIRE(dpi_model_counters_json(m, told.data(), told.size()) <= told.size());
  dpi_model_free(m);
  const size_t at = told.find("\"late\":");
  REQUIRE(at != std::string::npos);
  return std::strtoll(told.c_str() + at + 7, nullptr, 10);
}

size_t count_others(const std::vector<float>& a, const std::vector<float>& b) {
  size_t n = 0;
  for (size_t i = 0; i < a.size(); ++i) n += std::memcmp(&a[i], &b[i], sizeof(float)) != 0;
  return n;
}

}  // namespace

TEST_CASE("rows of every type, keyed, pooled and derived from: a delta gives the bits of the whole bundle") {
  if (deep() == nullptr) return;
  for (const std::string& form :
       std::vector<std::string>{"f32", "f16", "bf16", "i8", "i4", "bags", "linear", "keyed"}) {
    for (const std::string fold : {"on", "off"}) {
      for (const std::string keep : {"0", "300"}) {
        CAPTURE(form);
        CAPTURE(fold);
        CAPTURE(keep);
        if (!full_run() && device() != "cpu" && (fold == "on") != (keep == "300")) continue;
        const Pairs pairs{{"max_contexts", "1"}, {"debug.fold", fold}};
        const Rows rows(form);
        const EnvPtr env = make_env();
        const EndpointPtr e = make_endpoint("rows", pairs, env.get());
        set(e.get(), "keep_seconds", keep);
        load(e.get(), file(form + "0.h5"), 1);
        std::vector<float> before = score(e.get(), rows);
        for (int v = 1; v < 5; ++v) {
          CAPTURE(v);
          wait_for_hashes(e.get());
          const uint64_t read = bytes_read();
          load(e.get(), file(form + std::to_string(v - 1) + ".delta"));
          // each leaf in which a row changed, once, to hash it: the tables that change have less than 6 MiB
          CHECK(bytes_read() - read < 8 * kMiB);
          const std::vector<float> now = score(e.get(), rows);
          CHECK(same_bits(now, want(file(form + std::to_string(v) + ".h5"), rows, pairs)));
          CHECK(count_others(now, before) >= 30);
          before = now;
        }
        if (keep == "0") continue;
        REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
        CHECK(same_bits(score(e.get(), rows), want(file(form + "3.h5"), rows, pairs)));
        load(e.get(), file(form + "3.delta"));
        CHECK(same_bits(score(e.get(), rows), before));
      }
    }
  }
}

TEST_CASE("the same where 16 bits hold the rows") {
  if (deep() == nullptr || device() != "cuda_emu") return;
  for (const std::string precision : {"fp16", "bf16"}) {
    CAPTURE(precision);
    const Pairs pairs{{"max_contexts", "1"}, {"precision", precision}};
    const Rows rows("linear");
    const EndpointPtr e = make_endpoint("rows", pairs);
    load(e.get(), file("linear0.h5"), 1);
    for (int v = 1; v < 5; ++v) {
      load(e.get(), file("linear" + std::to_string(v - 1) + ".delta"));
      CHECK(same_bits(score(e.get(), rows), want(file("linear" + std::to_string(v) + ".h5"), rows, pairs)));
    }
  }
}

TEST_CASE("rows that move, and more rows than are spare, are a new table in memory") {
  if (deep() == nullptr) return;
  for (const auto& [form, from, to] : {std::tuple("keyed", "keyed0", "moved"), {"f32", "f320", "all"}}) {
    CAPTURE(form);
    const Pairs pairs{{"max_contexts", "1"}};
    const Rows rows(form);
    const EndpointPtr e = make_endpoint("rows", pairs);
    load(e.get(), file(std::string(from) + ".h5"), 1);
    load(e.get(), file(std::string(to) + ".delta"), 2);
    CHECK(same_bits(score(e.get(), rows), want(file(std::string(to) + ".h5"), rows, pairs)));
  }
}

TEST_CASE("after a delta of a table in the host tier a request gets the rows of the new version") {
  if (deep() == nullptr) return;
  const bool few = device() == "cuda_emu" && !full_run();
  for (const std::string& form : few ? std::vector<std::string>{"i8", "linear", "keyed"}
                                     : std::vector<std::string>{"f32", "i8", "bags", "linear", "keyed"}) {
    CAPTURE(form);
    const Pairs plain{{"max_contexts", "1"}, {"debug.fold", "tiered"}};
    Pairs tiered = plain;
    tiered.emplace_back("store.host_bytes", "3000000");  // of 4.5 MB and more: rows come and go
    if (device() == "cuda_emu") tiered.emplace_back("store.gpu_bytes", "500000");
    const Rows rows(form);
    const EndpointPtr e = make_endpoint("tiered", tiered);
    load(e.get(), file(form + "0.h5"), 1);
    std::vector<float> before = score(e.get(), rows);
    for (int v = 1; v < 5; ++v) {
      CAPTURE(v);
      load(e.get(), file(form + std::to_string(v - 1) + ".delta"));
      const std::vector<float> now = score(e.get(), rows);
      CHECK(same_bits(now, want(file(form + std::to_string(v) + ".h5"), rows, plain)));
      CHECK(count_others(now, before) >= 30);
      before = now;
    }
    REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
    CHECK(same_bits(score(e.get(), rows), want(file(form + "3.h5"), rows, plain)));
  }
}

TEST_CASE("the tier of the next version begins with the rows that callers ask for") {
  if (deep() == nullptr || device() == "ref") return;
  const Rows rows("f32");
  const EndpointPtr e = make_endpoint("warm", {{"max_contexts", "1"}, {"store.host_bytes", "3000000"}});
  set(e.get(), "warm_up_rows", "0");
  load(e.get(), file("f320.h5"), 1);
  score(e.get(), rows);
  CHECK(late_rows(e.get()) > 50);  // a tier begins with the first rows of its table
  for (int v = 1; v < 4; ++v) {
    load(e.get(), file("f32" + std::to_string(v - 1) + ".delta"));
    score(e.get(), rows);
    CHECK(late_rows(e.get()) == 0);
  }
}

TEST_CASE("a delta that fits neither spare rows nor memory is refused with numbers") {
  if (deep() == nullptr) return;
  const Rows rows("f32");
  std::string limit;
  EndpointPtr e;
  // the least that takes the version, and then a few rows of it
  for (uint64_t bytes = 4 * kMiB; bytes < 64 * kMiB; bytes += kMiB / 2) {
    limit = std::to_string(bytes);
    e.reset();
    e = make_endpoint("rows", {{"max_contexts", "1"}, {"memory_limit", limit}});
    if (dpi_endpoint_load(e.get(), file("f320.h5").c_str(), 1, nullptr) != DPI_OK) continue;
    if (dpi_endpoint_load(e.get(), file("f320.delta").c_str(), 2, nullptr) == DPI_OK) break;
  }
  CHECK(same_bits(score(e.get(), rows), want(file("f321.h5"), rows, {{"max_contexts", "1"}})));
  REQUIRE(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
  Error error;
  CHECK(dpi_endpoint_load(e.get(), file("all.delta").c_str(), 3, &error) == DPI_E_OUT_OF_MEMORY);
  INFO(error.text());
  CHECK(error.text().find("(memory_limit " + limit + " for both)") != std::string::npos);
}

TEST_CASE("rows of a table are read as lookups read them") {
  if (deep() == nullptr || device() == "cuda_emu") return;
  const EndpointPtr e = make_endpoint("rows", {{"max_contexts", "1"}, {"debug.fold", "off"}});
  load(e.get(), file("f320.h5"), 1);
  load(e.get(), file("f320.delta"), 2);
  const EnvPtr env = make_env();
  const EndpointPtr whole = make_endpoint("whole", {{"max_contexts", "1"}, {"debug.fold", "off"}}, env.get());
  load(whole.get(), file("f321.h5"), 1);
  std::vector<int64_t> keys;
  const Rows rows("f32");
  for (size_t i = 0; i < rows.ids.size(); i += 2) keys.push_back(rows.ids[i]);
  std::vector<float> found[2];
  for (int i = 0; i < 2; ++i) {
    dpi_model* m = nullptr;
    REQUIRE(dpi_endpoint_acquire(i == 0 ? e.get() : whole.get(), &m, nullptr) == DPI_OK);
    found[i].resize(keys.size() * 16);
    CHECK(dpi_table_lookup(m, "rows", keys.data(), keys.size(), found[i].data(), found[i].size(), nullptr) ==
          DPI_OK);
    dpi_model_free(m);
  }
  CHECK(same_bits(found[0], found[1]));
}

TEST_CASE(
    "16 callers and many deltas of rows: no failed request, no mixed version, memory back at its level") {
  if (deep() == nullptr) return;
  const bool slow = DPI_UNDER_TSAN || DPI_UNDER_ASAN || device() != "cpu";
  const char* asked = std::getenv("DPI_TEST_DELTAS");
  const int n = !full_run()        ? (slow ? 20 : 60)
                : slow             ? 40
                : asked != nullptr ? std::max(40, std::atoi(asked) / 10)
                                   : 200;
  for (const auto& [keep, fold] : {std::pair("0", "off"), {"300", "off"}, {"0", "on"}}) {
    CAPTURE(keep);
    CAPTURE(fold);  // on: of the rows only scalars are held, which are small
    const EndpointPtr e = make_endpoint("callers", {{"max_contexts", "4"}, {"debug.fold", fold}});
    set(e.get(), "keep_seconds", keep);
    set(e.get(), "warm_up_rows", "4");
    load(e.get(), file("tag0.h5"), kTags);
    std::atomic<bool> stop{false};
    std::atomic<int> failed{0}, mixed{0}, lied{0}, called{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 16; ++i) {
      threads.emplace_back([&, i] {
        const TagRows rows(1 + i % 7);
        while (!stop.load(std::memory_order_relaxed)) {
          const Answer a = ask(e.get(), rows);
          if (a.code != DPI_OK) ++failed;
          if (a.code == DPI_OK && a.tag < 0) ++mixed;
          if (a.tag >= 0 && a.tag != static_cast<int>(a.version % kTags)) ++lied;
          ++called;
          std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
      });
    }
    uint64_t before = 0;
    for (int i = 0; i < n; ++i) {
      const uint64_t number = kTags + static_cast<uint64_t>(i);
      load(e.get(), file("tag" + std::to_string(number % kTags) + ".delta"), number + 1);
      if (i != n / 5) continue;
      malloc_trim(0);
      before = resident_bytes();
    }
    stop.store(true);
    for (std::thread& t : threads) t.join();
    CHECK(failed.load() == 0);
    CHECK(mixed.load() == 0);
    CHECK(lied.load() == 0);
    CHECK(called.load() > 16);
    malloc_trim(0);
    const uint64_t after = resident_bytes();
    MESSAGE("resident ", before >> 10, " KiB, then ", after >> 10, " KiB; ", called.load(), " requests");
    if (!DPI_UNDER_ASAN && !DPI_UNDER_TSAN) CHECK(after < before + 4 * kMiB);
  }
}

}  // namespace dpi::test::endpoint_overlay_test
