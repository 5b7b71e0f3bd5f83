// Budgets too small, at load and in a call: refused with numbers, and nothing is left behind by what was.
// Planted, each seen: a memory limit that does not count the tier; keys that a shard cannot hold waited for.
#include <atomic>
#include <fstream>
#include <thread>

#include "store/engine/fixture.hpp"

namespace dpi::test::limits_test {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Rows whose ids differ in every large table.
std::vector<Row> distinct_rows(int64_t n, int64_t first = 0) {
  std::vector<Row> rows;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id = (first + i) % kRows;
    rows.push_back({id, id, id, id, id, i % 50, known_keys()[static_cast<size_t>(i % 300)], {}});
  }
  return rows;
}

/// The least budget that the model loads with, to a 16th.
int64_t least_budget() {
  for (int64_t bytes = 64;; bytes += bytes / 16 + 1) {
    const Loaded l = try_load(whole(), tiered(std::to_string(bytes)));
    if (l.code == DPI_OK) return bytes;
    REQUIRE_MESSAGE(l.code == DPI_E_OUT_OF_MEMORY, l.message);
    REQUIRE_MESSAGE(has(l.message, std::to_string(bytes)), l.message);
    REQUIRE_MESSAGE(has(l.message, "leaves no room for a row of table"), l.message);
  }
}

}  // namespace

TEST_CASE("no tier, none that holds a row, and the least one that does: one row at a time, and right") {
  if (!have_models()) return;
  const Loaded none = try_load(external(), {{"store.redis_address", "127.0.0.1:1"}});
  CHECK_MESSAGE(none.code == DPI_E_UNSUPPORTED, none.message);
  CHECK_MESSAGE(has(none.message, "set 'store.host_bytes'"), none.message);
  const int64_t least = least_budget();
  MESSAGE("least budget ", least);
  CHECK(least < 10'000);
  const ModelPtr m = load_model(whole(), tiered(std::to_string(least), {{"max_rows", "1"}}));
  int right = 0, refused = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const Request request(distinct_rows(1, 37 * i));
    const Scored got = score(m.get(), request);
    if (got.code == DPI_OK) CHECK(identical(got.out, right_scores(request)));
    if (got.code != DPI_OK) CHECK_MESSAGE(got.code == DPI_E_OUT_OF_MEMORY, got.message);
    ++(got.code == DPI_OK ? right : refused);
  }
  MESSAGE(right, " right, ", refused, " refused");
  CHECK(right + refused == 50);
  const ModelPtr more = load_model(whole(), tiered(std::to_string(2 * least), {{"max_rows", "1"}}));
  const Request many(distinct_rows(50));
  CHECK(identical(score(more.get(), many).out, right_scores(many)));
}

TEST_CASE(
    "a call of more rows than fit is told in numbers; calls that fit are right before, after and beside") {
  if (!have_models()) return;
  const ModelPtr m =
      load_model(whole(), tiered("60000", {{"max_contexts", "8"}, {"table.ads.tier", "resident"}}));
  const Request large(distinct_rows(256));
  std::atomic<int> wrong{0}, refused{0}, right{0}, other{0};
  std::vector<std::thread> callers;
  for (int64_t c = 0; c < 6; ++c) {
    callers.emplace_back([&, c] {
      for (int64_t i = 0; i < 60; ++i) {
        if (c == 0) {
          const Scored got = score(m.get(), large);
          ++(got.code == DPI_E_OUT_OF_MEMORY && has(got.message, "60000 bytes") ? refused : wrong);
          continue;
        }
        const Request request(distinct_rows(6, 331 * i + 17 * c));
        const std::vector<float> want = right_scores(request);
        const Scored got = score(m.get(), request);
        if (got.code == DPI_OK) ++(identical(got.out, want) ? right : wrong);
        if (got.code != DPI_OK)
          ++(got.code == DPI_E_QUEUE_FULL || got.code == DPI_E_OUT_OF_MEMORY ? other : wrong);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
  CHECK(refused == 60);
  CHECK_MESSAGE(other == 0, other.load());
  CHECK(right == 300);
}

uint64_t most_bytes(const Pairs& options) {
  const ModelPtr m = load_model(whole(), options);
  std::string text(dpi_model_info_json(m.get(), nullptr, 0), '\0');
  dpi_model_info_json(m.get(), text.data(), text.size());
  const size_t at = text.find("\"most_bytes\":");
  REQUIRE(at != std::string::npos);
  return std::stoull(text.substr(at + 13));
}

TEST_CASE("memory_limit counts the tier") {
  if (!have_models()) return;
  const uint64_t small = most_bytes(tiered("60000")), large = most_bytes(tiered("300000"));
  CHECK(large > small + 200'000);
  const std::string limit = std::to_string(large - 1);
  CHECK(try_load(whole(), tiered("60000", {{"memory_limit", limit}})).code == DPI_OK);
  const Loaded l = try_load(whole(), tiered("300000", {{"memory_limit", limit}}));
  CHECK_MESSAGE(l.code == DPI_E_OUT_OF_MEMORY, l.message);
  CHECK(try_load(whole(), tiered("300000", {{"memory_limit", std::to_string(large)}})).code == DPI_OK);
}

}  // namespace dpi::test::limits_test
