// Sixteen callers of one model whose tier holds a fraction of what they ask for, so that rows are evicted all
// the time: every call succeeds, and every score is the resident model's to the bit, whatever tier its rows
// came from. dpi_table_lookup among them. Meant for ThreadSanitizer too.
// Planted, each seen: a lease that ends before the ops have read its rows (cuda_emu); places recycled without
// a look at the epochs of readers.
#include <atomic>
#include <memory>
#include <thread>

#include "store/engine/fixture.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::race_test {
namespace {

constexpr int kCallers = 16;
constexpr size_t kRequests = 200;  // of about a thousand rows
int calls() { return device() == "cuda_emu" ? 6 : DPI_UNDER_TSAN ? 120 : 250; }

struct Known {
  std::vector<std::unique_ptr<Request>> requests;
  std::vector<std::vector<float>> right;
  std::vector<int64_t> keys;  // of pages
  std::vector<float> page_rows;

  Known() {
    std::mt19937_64 rng(3);
    for (size_t i = 0; i < kRequests; ++i) {
      requests.push_back(std::make_unique<Request>(random_rows(1 + i % 9, rng)));
      right.push_back(right_scores(*requests.back()));
    }
    for (int i = 0; i < 5; ++i) keys.push_back(static_cast<int64_t>(rng() % kRows));
    page_rows = looked_up(load_model(whole(), tiered("4000000")).get());
  }
  std::vector<float> looked_up(dpi_model* m) const {
    std::vector<float> rows(keys.size() * 8);
    Error e;
    if (dpi_table_lookup(m, "pages", keys.data(), keys.size(), rows.data(), rows.size(), &e) != DPI_OK)
      rows.clear();
    return rows;
  }
};

/// Under a sanitizer, on two loaded processors, sixteen callers may well wait a second for places of the tier
/// (QUEUE_FULL, OUT_OF_MEMORY) or for rows (TIMEOUT): there the call is made again, as a service would.
Scored patiently(dpi_model* m, const Request& request) {
  Scored got = score(m, request);
  for (int again = 0; again < 30 && (DPI_UNDER_ASAN || DPI_UNDER_TSAN); ++again) {
    if (got.code != DPI_E_QUEUE_FULL && got.code != DPI_E_OUT_OF_MEMORY && got.code != DPI_E_TIMEOUT) break;
    got = score(m, request);
  }
  return got;
}

/// Wrong scores, and calls that failed, of all callers.
void run_callers(dpi_model* m, const Known& known) {
  std::atomic<int> wrong{0}, failed{0}, right{0};
  std::vector<std::string> told(kCallers);
  std::vector<std::thread> callers;
  for (size_t c = 0; c < kCallers; ++c) {
    callers.emplace_back([&, c] {
      for (int i = 0; i < calls(); ++i) {
        const size_t r = (static_cast<size_t>(i) * 5 + c * 7) % kRequests;
        const Scored got = patiently(m, *known.requests[r]);
        if (got.code != DPI_OK) told[c] = got.message;
        ++(got.code != DPI_OK ? failed : identical(got.out, known.right[r]) ? right : wrong);
        if (i % 8 == 0 && known.looked_up(m) != known.page_rows) ++wrong;
      }
    });
  }
  for (std::thread& t : callers) t.join();
  for (const std::string& text : told) CHECK(text == "");
  CHECK(wrong == 0);
  CHECK(failed == 0);
  CHECK(right == kCallers * calls());
}

void check(const std::string& path, const Pairs& where) {
  static const Known known;
  const ModelPtr m = load_model(path, tiered("60000", where));
  run_callers(m.get(), known);
  for (const std::string& t : kElsewhere) {
    const TierCounts n = tier(m.get(), t);
    CHECK(n.fetched > static_cast<int64_t>(device() == "cuda_emu" ? 100 : kRows));  // more than once each
    CHECK(n.hits > 0);
    CHECK(n.failed + n.missing == 0);
  }
}

const Pairs kSixteen = {
    {"max_contexts", "16"}, {"max_rows", "16"}, {"max_nnz", "128"}, {"store.fetch_queue", "512"}};

Pairs and_store(const char* key, const std::string& value) {
  Pairs p = kSixteen;
  p.emplace_back(key, value);
  return p;
}

}  // namespace

TEST_CASE("sixteen callers of rows of the file") {
  if (have_models()) check(whole(), kSixteen);
}

TEST_CASE("sixteen callers of rows of the file and of Redis") {
  if (!have_models() || !redis_installed()) return;
  RedisServer redis;
  fill_store("redis", {{"address", redis.address()}});
  check(external(), and_store("store.redis_address", redis.address()));
}

TEST_CASE("sixteen callers of rows of the file and of RocksDB") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder rows;
  fill_store("rocksdb", {{"path", rows.path()}});
  check(external(), and_store("store.rocksdb_path", rows.path()));
}

}  // namespace dpi::test::race_test
