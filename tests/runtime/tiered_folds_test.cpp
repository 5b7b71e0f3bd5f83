// With option debug.fold=tiered a model gives the same scores, to the bit, with tables in the host tier and
// with resident ones, on every backend: all tables tiered or every second one, tiers that hold a part or
// everything. Where all are tiered debug.fold=on is that already; where a bundle has no other folds, also for
// resident ones.
// Planted, each seen: a row that comes while loading without its scalars; scalars one float further on.
#include <doctest/doctest.h>

#include "runtime/tier_model.hpp"

namespace dpi::test::tiered_folds_test {
namespace {

const std::string kWhole = "67108864";  // holds every table

bool looks_up(const Model& m) { return !m.engine().plan().tables.empty(); }

bool has_shared(const Model& m) {
  for (const auto& f : m.engine().schema().features) {
    if (f.shared) return true;
  }
  return false;
}

/// How many of the calls gave scores.
int compare(Model& plain, Model& tiered) {
  int scored = 0;
  std::vector<std::pair<int64_t, int64_t>> shapes = {{1, 0}, {37, 0}};
  if (has_shared(plain)) shapes.emplace_back(21, 5);
  for (const auto& [rows, groups] : shapes) {
    CAPTURE(rows);
    const RandomBatch request(plain.engine().schema(), rows, groups, 3);
    const Scores want = score(plain, request);
    REQUIRE_MESSAGE(want.status.ok(), want.status.message());
    for (int pass = 0; pass < 3; ++pass) {  // op by op, captured, replayed
      const Scores got = score(tiered, request);
      if (got.status.code() == Code::kOutOfMemory) continue;  // its own keys do not fit
      REQUIRE_MESSAGE(got.status.ok(), got.status.message());
      CHECK(same_bits(got.out, want.out));
      CHECK(same_bits(got.logits, want.logits));
      ++scored;
    }
  }
  return scored;
}

bool all_tiered(const Model& m) {
  for (const PlanTable& t : m.engine().plan().tables) {
    if (!t.tiered) return false;
  }
  return true;
}

/// Every second table in the tier, all others not.
Options some_tables(const Model& m) {
  Options o = {{"store.host_bytes", kWhole}};
  const std::vector<PlanTable>& tables = m.engine().plan().tables;
  for (size_t t = 0; t < tables.size(); ++t) {
    const bool host = t % 2 == 0 && !tables[t].needs_nonzero;
    if (tables[t].source >= 0)
      o.emplace_back("table." + tables[t].name + ".tier", host ? "host" : "resident");
  }
  return o;
}

void compare_bundle(const std::string& path, const Options& precision) {
  CAPTURE(path);
  const auto with = [&](Options o) {
    o.insert(o.end(), precision.begin(), precision.end());
    return o;
  };
  const Options folds = with({{"debug.fold", "tiered"}});
  const auto plain = load(path, folds);
  if (!looks_up(*plain)) return;
  for (const std::string& budget : {least_budget(path, folds), kWhole}) {
    CAPTURE(budget);
    CHECK((compare(*plain, *load(path, tier_of(budget, folds))) > 0 || budget != kWhole));
  }
  const auto on = load(path, tier_of(kWhole, with({{"debug.fold", "on"}})));
  if (all_tiered(*on)) CHECK(compare(*plain, *on) > 0);
  const auto unfolded = load(path, {});
  Options some = with(some_tables(*unfolded));
  some.emplace_back("debug.fold", "tiered");
  CHECK(compare(*plain, *load(path, some)) > 0);
}

TEST_CASE("scores of tiered tables are those of resident ones with the same folds") {
  for (const std::string& path : bundles()) compare_bundle(path, {});
}

TEST_CASE("with rows that the precision narrows") {
  if (device() != "cuda_emu") return;
  for (const char* precision : {"fp16", "bf16"}) {
    for (const char* name : {"/weights/demo/msweb_deepfm.h5", "/weights/demo/adult_widedeep.h5"})
      compare_bundle(source_dir() + name, {{"precision", precision}});
  }
}

TEST_CASE("linear weights per id are folded as those of resident tables are") {
  for (const char* name : {"/weights/demo/msweb_deepfm.h5", "/weights/demo/adult_widedeep.h5"}) {
    CAPTURE(name);
    const std::string path = source_dir() + name;
    const auto plain = load(path, {{"debug.fold", "on"}});
    const auto tiered = load(path, tier_of(kWhole, {{"debug.fold", "on"}}));
    CHECK(compare(*plain, *tiered) == 6);
    bool sums = false;
    for (const PlanOp& op : tiered->engine().plan().ops) sums = sums || !op.scalars.empty();
    CHECK(sums);
  }
}

}  // namespace
}  // namespace dpi::test::tiered_folds_test
