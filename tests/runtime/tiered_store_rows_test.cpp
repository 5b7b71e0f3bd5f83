// What single rows of the host tier are: those of resident tables wherever rows can be looked at; the default
// row of their table where they are late by policy default; by policy fail an error that names the request's
// row and feature. Padding is none of that: its rows are always there. A deadline ends a call, and the next
// one finds everything in order.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/clock.hpp"
#include "runtime/tier_model.hpp"

namespace dpi::test::tiered_store_rows_test {
namespace {

/// `what` of every table that could be tiered.
Options of_tables(const std::string& path, const std::string& what, const std::string& value) {
  const auto plain = load(path, {});
  Options o;
  for (const TableSpec& t : plain->manifest().tables) o.emplace_back("table." + t.name + "." + what, value);
  return o;
}

const TableSpec& spec_of(const Model& m, const PlanTable& t) {
  return m.manifest().tables[static_cast<size_t>(t.source)];
}

bool has_pinned(const PlanTable& t, int64_t row) {
  return std::any_of(t.pinned.begin(), t.pinned.end(), [row](const PinnedRow& p) { return p.row == row; });
}

TEST_CASE("the bundles have tiered tables of every kind") {  // keyed ones: tests/e2e/keyed
  int f32 = 0, f16 = 0, i8 = 0, padded = 0;
  for (const std::string& path : bundles()) {
    const auto m = load(path, tier_of("67108864"));
    for (const PlanTable& t : m->engine().plan().tables) {
      if (!t.tiered) continue;
      const TableSpec& spec = spec_of(*m, t);
      (spec.dtype == kernels::DType::kI8 ? i8 : spec.dtype == kernels::DType::kF16 ? f16 : f32) += 1;
      padded += t.pinned.empty() ? 0 : 1;
    }
  }
  CHECK(f32 > 0);
  CHECK(f16 > 0);
  CHECK(i8 > 0);
  CHECK(padded > 0);
}

/// Row by row, so that the least tier will do.
void compare_rows(const Model& plain, const Model& tiered, const PlanTable& t) {
  const TableSpec& spec = spec_of(tiered, t);
  CAPTURE(spec.name);
  const auto dim = static_cast<size_t>(spec.dim);
  for (int64_t row = 0; row < spec.rows; ++row) {
    std::vector<float> want(dim, 1), got(dim, 2);
    const int64_t key[] = {row};
    REQUIRE(plain.read_rows(spec.name, key, want).ok());
    const Status s = tiered.read_rows(spec.name, key, got);
    REQUIRE_MESSAGE(s.ok(), s.message());
    REQUIRE(same_bits(got, want));
  }
}

TEST_CASE("every row of every table is the resident one, wherever it is read from") {
  if (device() == "cuda_emu") return;  // rows of resident tables are not in host memory
  for (const std::string& path : bundles()) {
    CAPTURE(path);
    const auto plain = load(path, {});
    if (plain->engine().plan().tables.empty()) continue;
    const auto tiered = load(path, tier_of(least_budget(path)));
    for (const PlanTable& t : tiered->engine().plan().tables) {
      if (t.tiered && spec_of(*tiered, t).keys.empty()) compare_rows(*plain, *tiered, t);
    }
  }
}

/// 0.1 as a table's elements have it: i8 have it as their scale.
float tenth(kernels::DType dtype) {
  return dtype == kernels::DType::kF16    ? 0.0999755859375f
         : dtype == kernels::DType::kBF16 ? 0.10009765625f
                                          : 0.1f;
}

/// Rows as a first look finds them: default rows but for those that came while loading. How many defaults.
int64_t count_defaults(const Model& tiered, const PlanTable& t) {
  const TableSpec& spec = spec_of(tiered, t);
  const auto dim = static_cast<size_t>(spec.dim);
  int64_t defaults = 0;
  for (int64_t row = 0; row < spec.rows; ++row) {
    std::vector<float> got(dim, std::nanf(""));
    const int64_t key[] = {row};
    REQUIRE(tiered.read_rows(spec.name, key, got).ok());
    const auto filled = std::count(got.begin(), got.end(), tenth(t.dtype));
    defaults += filled == spec.dim ? 1 : 0;
    CHECK((filled == spec.dim || filled == 0));
  }
  return defaults;
}

void look_for_defaults(const std::string& path, const std::string& precision) {
  CAPTURE(path);
  CAPTURE(precision);
  Options more = of_tables(path, "miss", "default");
  for (const auto& o : of_tables(path, "default", "0.1")) more.push_back(o);
  more.emplace_back("precision", precision);
  const auto tiered = load(path, tier_of(least_budget(path), more));
  for (const PlanTable& t : tiered->engine().plan().tables) {
    CAPTURE(t.name);
    if (t.tiered && spec_of(*tiered, t).rows > 8) CHECK(count_defaults(*tiered, t) > 0);
  }
}

TEST_CASE("a late row by policy default is the table's number in every column") {
  const std::string golden = source_dir() + "/tests/e2e/golden/";
  for (const char* name : {"fx_deepfm_i8.h5", "fx_deepfm_half.h5", "fx_deepfm_gelu.h5"}) {
    look_for_defaults(golden + name, "fp32");
    if (device() == "cuda_emu") look_for_defaults(golden + name, "fp16");
    if (device() == "cuda_emu") look_for_defaults(golden + name, "bf16");
  }
}

TEST_CASE("padding is there by policy fail, other rows that are late are not") {
  int pads = 0, late = 0;
  for (const std::string& path : bundles()) {
    CAPTURE(path);
    if (load(path, {})->engine().plan().tables.empty()) continue;
    const auto tiered = load(path, tier_of(least_budget(path), of_tables(path, "miss", "fail")));
    for (const PlanTable& t : tiered->engine().plan().tables) {
      if (!t.tiered || !spec_of(*tiered, t).keys.empty()) continue;
      const int64_t rows = spec_of(*tiered, t).rows;
      std::vector<float> out(static_cast<size_t>(t.dim));
      for (int64_t row = 0; row < rows; ++row) {
        const Status s = tiered->read_rows(t.name, std::span(&row, 1), out);
        if (has_pinned(t, row)) CHECK_MESSAGE(s.ok(), s.message());
        pads += has_pinned(t, row) ? 1 : 0;
        late += s.ok() ? 0 : 1;
        CHECK((s.ok() || s.code() == Code::kNotFound));
      }
    }
  }
  CHECK(pads > 0);
  CHECK(late > 0);
}

const std::string kDeepFm = "/weights/demo/msweb_deepfm.h5";

/// The ids of a feature in a row of its part of a request that RandomBatch made.
std::vector<int64_t> ids_at(const Model& m, const Batch& batch, int64_t row, int64_t feature) {
  const auto& features = m.engine().schema().features;
  const bool own = batch.has_shared() && features[static_cast<size_t>(feature)].shared;
  int64_t slots = 0, slot = 0;
  for (int64_t f = 0; f < static_cast<int64_t>(features.size()); ++f) {
    const auto& at = features[static_cast<size_t>(f)];
    if (!at.spec.is_slot() || (batch.has_shared() && at.shared != own)) continue;
    if (f == feature) slot = slots;
    ++slots;
  }
  const BatchPart& part = own ? batch.shared : batch.item;
  const int64_t bag = row * slots + slot;
  REQUIRE(row < part.rows);
  return {part.ids + part.offsets[bag], part.ids + part.offsets[bag + 1]};
}

/// The failure names a row and a feature of the request that have the key it names.
void check_place(const Model& m, const Batch& batch, const Status& s) {
  CAPTURE(s.message());
  REQUIRE(s.code() == Code::kNotFound);
  REQUIRE(s.row() >= 0);
  const auto& f = m.engine().schema().features[static_cast<size_t>(s.feature())];
  const std::string where = "row " + std::to_string(s.row()) + ", feature '" + f.spec.name + "': table '";
  const bool own = batch.has_shared() && f.shared;
  CHECK(s.message().starts_with(own ? "shared " + where : where));
  const std::vector<int64_t> ids = ids_at(m, batch, s.row(), s.feature());
  const size_t key = s.message().find(": key ");
  REQUIRE(key != std::string::npos);
  CHECK(std::count(ids.begin(), ids.end(), std::stoll(s.message().substr(key + 6))) > 0);
}

TEST_CASE("a late row by policy fail is named by the request's row and feature, in later chunks too") {
  const std::string path = source_dir() + kDeepFm;
  const auto tiered = load(path, tier_of("40000", of_tables(path, "miss", "fail")));
  const auto& schema = tiered->engine().schema();
  const bool shares =
      std::any_of(schema.features.begin(), schema.features.end(), [](const auto& f) { return f.shared; });
  int64_t furthest = -1;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const RandomBatch first(schema, 16, 0, seed), more(schema, 37, 0, seed);  // the same 16 rows, and others
    Status s = score(*tiered, first).status;
    for (int i = 0; i < 1000 && s.code() == Code::kNotFound; ++i) {
      check_place(*tiered, first.batch, s);
      s = score(*tiered, first).status;  // the failed call has asked for the rows
    }
    s = score(*tiered, more).status;
    if (s.code() == Code::kNotFound) check_place(*tiered, more.batch, s);
    furthest = std::max(furthest, s.row());
    if (!shares) continue;
    const RandomBatch split(schema, 21, 5, seed + 100);
    s = score(*tiered, split).status;
    if (s.code() == Code::kNotFound) check_place(*tiered, split.batch, s);
  }
  CHECK(furthest >= 16);
}

TEST_CASE("a deadline ends a call that has to fetch, and the next one scores as ever") {
  const std::string path = source_dir() + kDeepFm;
  const auto plain = load(path, {});
  const auto tiered = load(path, tier_of("40000"));
  const auto& schema = plain->engine().schema();
  int timeouts = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    const RandomBatch request(schema, 5, 0, seed);
    const Status late = score(*tiered, request, monotonic_ns() + 1000 * seed).status;
    timeouts += late.code() == Code::kTimeout ? 1 : 0;
    CHECK((late.ok() || late.code() == Code::kTimeout));
    const Scores got = score(*tiered, request), want = score(*plain, request);
    CHECK_MESSAGE(got.status.ok(), got.status.message());
    CHECK(same_bits(got.out, want.out));
  }
  CHECK(timeouts > 0);
}

TEST_CASE("one call on several threads shares a small tier") {
  const std::string path = source_dir() + kDeepFm;
  const auto plain = load(path, {});
  const auto tiered = load(path, tier_of("40000", {{"threads", "3"}}));
  int right = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const RandomBatch request(plain->engine().schema(), 97, 0, seed);
    const Scores want = score(*plain, request), got = score(*tiered, request);
    CHECK((got.status.ok() || got.status.code() == Code::kOutOfMemory));
    if (got.status.ok()) CHECK(same_bits(got.out, want.out));
    right += got.status.ok() ? 1 : 0;
  }
  CHECK(right > 10);
}

TEST_CASE("golden vectors pass from the host tier") {
  for (const std::string& path : bundles()) {
    CAPTURE(path);
    for (const char* budget : {"200000", "67108864"})
      CHECK(load(path, tier_of(budget, {{"verify", "golden"}})) != nullptr);
  }
}

}  // namespace
}  // namespace dpi::test::tiered_store_rows_test
