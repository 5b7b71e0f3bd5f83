// Scalars that folds derive from the rows of tiered tables: the bits that resident tables' have, wherever the
// row comes from (the file as f32, f16, i8 and keyed, RocksDB, Redis), whatever stands for it (padding,
// absent keys, default rows that are late), after evictions, and in 16 bits where the precision narrows rows.
// Planted, each seen: default rows, pinned rows or rows that come while loading without scalars; scalars of
// another table; a stride that does not count them; rows narrowed after their scalars.
#include <algorithm>

#include "store/engine/fixture.hpp"

namespace dpi::test::folds_test {
namespace {

constexpr size_t kHeads = 19;  // of sums.h5
constexpr size_t kExact = 18;  // those without dense weights
constexpr size_t kSumUsers = 0, kMeanUsers = 1, kSumKeys = 12;

Pairs joined(Pairs a, const Pairs& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<float> scores(dpi_model* m, const Request& request) {
  std::vector<float> out(static_cast<size_t>(request.batch.rows) * kHeads, -1.0f);
  Error e;
  const dpi_status s = dpi_predict(m, &request.batch, out.data(), out.size(), nullptr, &e);
  REQUIRE_MESSAGE(s == DPI_OK, e.text());
  return out;
}

/// All heads but the last.
std::vector<float> exact(const std::vector<float>& out) {
  std::vector<float> some;
  for (size_t i = 0; i < out.size(); ++i) {
    if (i % kHeads < kExact) some.push_back(out[i]);
  }
  return some;
}

std::string info(const dpi_model* m) {
  std::string text(dpi_model_info_json(m, nullptr, 0), '\0');
  dpi_model_info_json(m, text.data(), text.size());
  return text;
}

/// Against resident tables: all heads with the folds of tiered ones, the exact heads with every fold. In 16
/// bits the kernel that a device chooses for those is another one.
void check(const std::string& path, const Pairs& where, const Pairs& more = {}) {
  const ModelPtr same = load_model(sums(), joined(more, {{"debug.fold", "tiered"}}));
  const ModelPtr all = load_model(sums(), joined(more, {{"debug.fold", "on"}}));
  for (const char* budget : {"60000", "4000000"}) {
    CAPTURE(std::string(budget));
    const Pairs how = joined(joined(more, where), {{"debug.fold", "tiered"}});  // `cities` is resident
    const ModelPtr m = load_model(path, tiered(budget, how));
    CHECK(info(m.get()).find("stay explicit: dense weights are in them") != std::string::npos);
    std::mt19937_64 rng(5);
    for (const size_t n : {1, 40, 17, 40}) {
      const Request request(random_rows(n, rng));
      const std::vector<float> want = scores(same.get(), request), most = scores(all.get(), request);
      for (int pass = 0; pass < 3; ++pass) {  // op by op, captured, replayed
        const std::vector<float> got = scores(m.get(), request);
        CHECK(identical(got, want));
        if (more.empty()) CHECK(identical(exact(got), exact(most)));
      }
    }
  }
}

/// On devices that narrow rows.
void check_narrow(const std::string& path, const Pairs& where) {
  if (device() != "cuda_emu") return;
  for (const char* precision : {"fp16", "bf16"}) {
    CAPTURE(precision);
    check(path, where, {{"precision", precision}});
  }
}

}  // namespace

TEST_CASE("rows of the file") {
  if (!have_models()) return;
  check(sums(), {});
  check_narrow(sums(), {});
}

TEST_CASE("rows from Redis") {
  if (!have_models() || !redis_installed()) return;
  RedisServer redis;
  fill_store("redis", {{"address", redis.address()}});
  check(sums_external(), {{"store.redis_address", redis.address()}});
  check_narrow(sums_external(), {{"store.redis_address", redis.address()}});
}

TEST_CASE("rows from RocksDB") {
  if (!have_models() || !have_rocksdb()) return;
  const Folder rows;
  fill_store("rocksdb", {{"path", rows.path()}});
  check(sums_external(), {{"store.rocksdb_path", rows.path()}});
  check_narrow(sums_external(), {{"store.rocksdb_path", rows.path()}});
}

TEST_CASE("late rows by policy default have the scalars of the default row") {
  if (!have_models() || !redis_installed()) return;
  RedisServer redis;
  fill_store("redis", {{"address", redis.address()}});
  const ModelPtr m = load_model(sums_external(), tiered("4000000", {{"store.redis_address", redis.address()},
                                                                    {"debug.fold", "on"},
                                                                    {"table.users.miss", "default"},
                                                                    {"table.users.default", "0.25"}}));
  const Request request({{5, 5, 5, 5, 5, 5, 0, {}}});
  const std::vector<float> got = scores(m.get(), request);  // no external row came while loading
  CHECK(got[kSumUsers] == 2.0f);                            // of 8 columns
  CHECK(got[kMeanUsers] == 0.25f);
  CHECK(tier(m.get(), "users").defaulted == 1);
}

TEST_CASE("absent keys have the scalars of their table's default row") {
  if (!have_models()) return;
  const ModelPtr plain = load_model(sums(), {{"debug.fold", "on"}});
  const ModelPtr m = load_model(sums(), tiered("60000", {{"debug.fold", "on"}}));
  const Request absent({{0, 0, 0, 0, 0, 0, kNoKey, {}}}), known({{0, 0, 0, 0, 0, 0, 0, {}}});
  const std::vector<float> want = scores(plain.get(), absent), other = scores(plain.get(), known);
  CHECK(want[kSumKeys] != other[kSumKeys]);
  CHECK(identical(exact(scores(m.get(), absent)), exact(want)));
  CHECK(identical(exact(scores(m.get(), known)), exact(other)));
}

}  // namespace dpi::test::folds_test
