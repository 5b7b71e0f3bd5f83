// Rows go into a store at a rate, by a clock that moves only when somebody sleeps or the store works. The
// store here keeps what it was told, and when.
#include "store/external/paced_update.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace dpi::test::paced_update_test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr size_t kRow = 24;  // bytes; with its key a change has 32

struct Told {
  std::vector<int64_t> keys;
  std::vector<unsigned char> rows;
  int64_t done = 0;
  uint64_t at = 0;
};

/// The clock, and all that the store heard.
struct World {
  uint64_t now = 5 * kSecond, slept = 0, works = 0;  // works: what each update takes
  int sleeps = 0;
  std::vector<Told> told;

  Rate rate(uint64_t bytes_per_second) {
    return Rate(bytes_per_second, {[this] { return now; },
                                   [this](uint64_t ns) {
                                     now += ns;
                                     slept += ns;
                                     ++sleeps;
                                   }});
  }
  size_t bytes(size_t from = 0) const {
    size_t sum = 0;
    for (size_t i = from; i < told.size(); ++i) sum += told[i].keys.size() * 8 + told[i].rows.size();
    return sum;
  }
};

World* world = nullptr;

int32_t hear(dpi_store_handle*, int32_t, const int64_t* keys, const unsigned char* rows, int64_t n,
             int64_t done, dpi_store_error*) {
  Told t;
  t.keys.assign(keys, keys + n);
  if (rows != nullptr) t.rows.assign(rows, rows + static_cast<size_t>(n) * kRow);
  t.done = done;
  t.at = world->now;
  world->told.push_back(std::move(t));
  world->now += world->works;
  return 0;
}

std::unique_ptr<tiered::PluginSource> store_of(World* w) {
  world = w;
  static store::StorePlugin plugin;
  plugin.api.name = "heard";
  plugin.api.open = [](const dpi_store_options*, const dpi_store_table*, int32_t, dpi_store_handle** out,
                       dpi_store_error*) -> int32_t {
    *out = reinterpret_cast<dpi_store_handle*>(&plugin);
    return 0;
  };
  plugin.api.close = [](dpi_store_handle*) {};
  plugin.api.update = hear;
  auto opened = tiered::PluginSource::open(plugin, {});
  REQUIRE(opened.ok());
  return std::move(opened).value();
}

/// Keys 100, 101, ...; of each row every byte is the key's number.
struct Block {
  explicit Block(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      keys.push_back(100 + i);
      rows.insert(rows.end(), kRow, static_cast<std::byte>(i));
    }
  }
  std::vector<int64_t> keys;
  std::vector<std::byte> rows;
};

Status write(
    World* w, uint64_t bytes_per_second, const Block& b, bool gone = false,
    const RowProgress& progress = [](int64_t) { return Status(); }) {
  const auto store = store_of(w);
  Rate rate = w->rate(bytes_per_second);
  PacedUpdate to(*store, 0, rate, progress);
  return to.write(b.keys, gone ? std::span<const std::byte>() : std::span<const std::byte>(b.rows),
                  1000 + static_cast<int64_t>(b.keys.size()));
}

/// What arrived is the block, each change once and in its order, and `done` counts it.
void check_all_there(const World& w, const Block& b, bool gone) {
  size_t at = 0;
  for (const Told& t : w.told) {
    REQUIRE(at + t.keys.size() <= b.keys.size());
    CHECK(t.rows.size() == (gone ? 0 : t.keys.size() * kRow));
    for (size_t i = 0; i < t.keys.size(); ++i) CHECK(t.keys[i] == b.keys[at + i]);
    if (!t.rows.empty()) CHECK(std::memcmp(t.rows.data(), b.rows.data() + at * kRow, t.rows.size()) == 0);
    at += t.keys.size();
    CHECK(t.done == 1000 + static_cast<int64_t>(at));
  }
  CHECK(at == b.keys.size());
}

}  // namespace

TEST_CASE("without a rate a block is one call, and nobody sleeps") {
  World w;
  const Block b(1000);
  REQUIRE(write(&w, 0, b).ok());
  check_all_there(w, b, false);
  CHECK(w.told.size() == 1);
  CHECK(w.sleeps == 0);
}

TEST_CASE("a block takes as long as the rate says, in pieces of a tenth of a second") {
  for (const bool gone : {false, true}) {
    World w;
    const Block b(1000);
    const uint64_t rate = gone ? 800 : 3200;  // ten pieces a second, each of ten changes
    REQUIRE(write(&w, rate, b, gone).ok());
    check_all_there(w, b, gone);
    CHECK(w.told.size() == 100);
    CHECK(w.slept == 99 * kSecond / 10);  // the first piece may have taken its time before
    // Never more than the rate allows and two pieces.
    size_t sum = 0;
    for (const Told& t : w.told) {
      sum += t.keys.size() * 8 + t.rows.size();
      CHECK(static_cast<double>(sum) <=
            static_cast<double>(rate) * (static_cast<double>(t.at - w.told[0].at) * 1e-9 + 0.2) * (1 + 1e-9));
    }
  }
}

TEST_CASE("what a slow store took is no reason to hurry afterwards") {
  World w;
  const Block b(100);
  const auto store = store_of(&w);
  Rate rate = w.rate(3200);
  const RowProgress go_on = [](int64_t) { return Status(); };
  PacedUpdate to(*store, 0, rate, go_on);
  w.works = 3 * kSecond;  // a piece of 0.1 s takes the store three
  REQUIRE(to.write(b.keys, b.rows, 100).ok());
  CHECK(w.slept == 0);
  w.works = 0;
  const uint64_t before = w.now;
  REQUIRE(to.write(b.keys, b.rows, 200).ok());
  CHECK(w.now - before == kSecond);
}

TEST_CASE("a rate that one change exceeds: one at a time, and the store hears of a writer that sleeps") {
  World w;
  const Block b(3);
  REQUIRE(write(&w, 8, b).ok());  // a change takes four seconds
  check_all_there(w, b, false);
  CHECK(w.slept == 8 * kSecond);  // behind the second and the third
  int signs = 0;
  for (size_t i = 0; i < w.told.size(); ++i) {
    if (i > 0) CHECK(w.told[i].at - w.told[i - 1].at <= 520'000'000);
    signs += w.told[i].keys.empty() ? 1 : 0;
  }
  CHECK(signs >= 2 * 7);
}

TEST_CASE("a writer that is told to end does so within a slice of its sleep") {
  World w;
  const Block b(3);
  const uint64_t until = w.now + kSecond;
  const Status s = write(&w, 8, b, false, [&](int64_t done) {
    CHECK(done <= 1002);
    return w.now < until ? Status() : Status(Code::kCancelled, "enough");
  });
  CHECK(s.code() == Code::kCancelled);
  CHECK(w.now - until <= 20'000'000);
  CHECK(w.bytes() == 2 * 32);
}

}  // namespace dpi::test::paced_update_test
