// Scores are those of resident tables, to the bit, at hit rates of 0 to 100 % and in every mix of tiers: rows
// resident, in the host tier from the bundle's file (f32, f16, i8, keyed), and from RocksDB or Redis. The hit
// rate is steered, and told by the counters: nothing is assumed about what the cache holds.
// Planted, each seen: late rows read as the table's default row; rows of another external table; rows that a
// call waited for counted as hits, in every call or in those that look again.
#include <algorithm>
#include <array>

#include "store/engine/fixture.hpp"

namespace dpi::test::mix_test {
namespace {

constexpr int64_t kCall = 100;  // distinct ids of each table, so that one id is one percent
constexpr int64_t kOld = 1400;  // from here on no row of a file table is in the tier after loading

/// Room for about half of the rows: file tables begin with their first rows, external ones with none.
const std::string kHalf = "320000";

/// A hundred rows, the first `hits` of them with ids that a call of 100 hits has, the others' new.
std::vector<Row> steered(int64_t hits) {
  std::vector<Row> rows;
  for (int64_t i = 0; i < kCall; ++i) {
    const int64_t id = i < hits ? 1 + i : kOld + i;
    rows.push_back({id, id, id, id, id, i % 50, known_keys()[static_cast<size_t>(i)], {}});
  }
  return rows;
}

Pairs joined(Pairs a, const Pairs& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Where each of pages, words, ads and keys is: bit set = resident.
Pairs mix_of(unsigned mix) {
  const std::array<const char*, 4> keys = {"table.pages.tier", "table.words.tier", "table.ads.tier",
                                           "table.keys.tier"};
  Pairs p;
  for (size_t i = 0; i < keys.size(); ++i) {
    if ((mix >> i & 1) != 0) p.emplace_back(keys[i], "resident");
  }
  return p;
}

/// The tables of one id per row that are in the host tier.
std::vector<std::string> tables_of(unsigned mix) {
  std::vector<std::string> tables = kElsewhere;
  for (size_t i = 0; i < 3; ++i) {
    if ((mix >> i & 1) == 0) tables.push_back(kInFile[i]);
  }
  return tables;
}

/// Asks for the rows of `request` until all of them are in the tier at once, and looks at no other.
void bring(dpi_model* m, const Request& request, const std::vector<std::string>& tables) {
  const auto late = [&] {
    uint64_t n = 0;
    for (const std::string& t : tables) n += static_cast<uint64_t>(tier(m, t).late);
    return n;
  };
  bool all_there = false;
  for (int pass = 0; pass < 200 && !all_there; ++pass) {
    const uint64_t before = late();
    CHECK(identical(score(m, request).out, right_scores(request)));
    all_there = late() == before;
  }
  REQUIRE(all_there);
}

void check_rate(const Pairs& where, unsigned mix, int64_t percent) {
  CAPTURE(mix);
  CAPTURE(percent);
  const ModelPtr m = load_model(external(), tiered(kHalf, joined(where, mix_of(mix))));
  const Request before(steered(kCall)), request(steered(percent));
  std::vector<std::string> all = tables_of(mix);
  if ((mix >> 3 & 1) == 0) all.push_back(kInFile[3]);
  bring(m.get(), before, all);
  std::vector<TierCounts> had;
  for (const std::string& t : tables_of(mix)) had.push_back(tier(m.get(), t));
  const Scored got = score(m.get(), request);
  REQUIRE_MESSAGE(got.code == DPI_OK, got.message);
  CHECK(identical(got.out, right_scores(request)));
  for (size_t i = 0; i < had.size(); ++i) {
    CAPTURE(tables_of(mix)[i]);
    const TierCounts now = tier(m.get(), tables_of(mix)[i]);
    const int64_t hits = now.hits - had[i].hits;
    // Which other rows of the file came while loading is nobody's promise; external ones came with no call.
    const bool exact = i < kElsewhere.size();
    CHECK((exact ? hits == percent : hits >= percent));
    CHECK(now.late - had[i].late == kCall - hits);
    CHECK(now.failed == 0);
  }
}

void check_random(const Pairs& where, unsigned mix, const std::string& budget) {
  CAPTURE(mix);
  CAPTURE(budget);
  const ModelPtr m = load_model(external(), tiered(budget, joined(where, mix_of(mix))));
  std::mt19937_64 rng(mix);
  for (const size_t n : {1, 3, 40, 17, 0, 40}) {
    const Request request(random_rows(n, rng));
    for (int pass = 0; pass < 3; ++pass) {  // op by op, captured, replayed
      const Scored got = score(m.get(), request);
      REQUIRE_MESSAGE(got.code == DPI_OK, got.message);
      CHECK(identical(got.out, right_scores(request)));
    }
  }
  for (const std::string& t : kElsewhere) CHECK(tier(m.get(), t).missing == 0);
}

void check(const Pairs& where) {
  const bool emulated = device() == "cuda_emu";
  for (const int64_t percent : {0, 50, 90, 99, 100}) check_rate(where, 0, percent);
  for (unsigned mix = 1; mix < 16; mix += emulated ? 5 : 1) check_rate(where, mix, 50);
  for (unsigned mix = 0; mix < 16; mix += emulated ? 5 : 1) {
    for (const char* budget : {"60000", "4000000"}) check_random(where, mix, budget);
  }
}

}  // namespace

TEST_CASE("external rows from Redis, in every mix with rows of the file") {
  if (!have_models() || !redis_installed()) return;
  RedisServer redis;
  fill_store("redis", {{"address", redis.address()}});
  check({{"store.redis_address", redis.address()}});
}

TEST_CASE("external rows from RocksDB, in every mix with rows of the file") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder rows;
  fill_store("rocksdb", {{"path", rows.path()}});
  check({{"store.rocksdb_path", rows.path()}});
}

TEST_CASE("all rows in the file, at every rate") {
  if (!have_models()) return;
  const Request before(steered(kCall));
  for (const int64_t percent : {0, 50, 90, 99, 100}) {
    CAPTURE(percent);
    const ModelPtr m = load_model(whole(), tiered(kHalf));
    const Request request(steered(percent));
    bring(m.get(), before, {"users", "items", "pages", "words", "ads", "keys"});
    const TierCounts had = tier(m.get(), "users");
    CHECK(identical(score(m.get(), request).out, right_scores(request)));
    CHECK(tier(m.get(), "users").hits - had.hits == percent);
  }
}

}  // namespace dpi::test::mix_test
