// Rows of one table through the C API: their width, which key an error is about, and what each policy of a
// table in the host tier says of rows that are late.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/capi_support.hpp"

namespace dpi::test::tables_test {
namespace {

constexpr int64_t kRows = 286;
constexpr size_t kDim = 16;
constexpr float kFill = 0.25f;

/// All of `area` in a host tier that holds a part of it.
ModelPtr tiered(const std::string& miss) {
  return load("msweb_deepfm.h5", {{"store.host_bytes", "12000"},
                                  {"store.resident_bytes", "0"},
                                  {"table.area.miss", miss},
                                  {"table.area.default", "0.25"}});
}

/// A counter of `area` in "tiers".
int64_t counted(const dpi_model* m, const std::string& what) {
  std::string json(dpi_model_counters_json(m, nullptr, 0) + 256, '\0');
  REQUIRE(dpi_model_counters_json(m, json.data(), json.size()) <= json.size());
  const size_t table = json.find("\"name\":\"area\"", json.find("\"tiers\""));
  REQUIRE(table != std::string::npos);
  const size_t at = json.find("\"" + what + "\":", table);
  REQUIRE(at != std::string::npos);
  return std::stoll(json.substr(at + what.size() + 3));
}

std::vector<float> row_of(const dpi_model* m, int64_t key) {
  std::vector<float> out(kDim);
  Error e;
  const dpi_status s = dpi_table_lookup(m, "area", &key, 1, out.data(), out.size(), &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  return out;
}

TEST_CASE("the width of a table is told of those whose rows can be read") {
  const ModelPtr m = load("msweb_deepfm.h5");
  const bool host = device() != "cuda_emu";
  CHECK(dpi_table_dim(m.get(), "area") == (host ? 16 : -1));
  CHECK(dpi_table_dim(m.get(), "area.scalars") == -1);  // the plan's, not the bundle's
  CHECK(dpi_table_dim(m.get(), "nowhere") == -1);
  CHECK(dpi_table_dim(m.get(), nullptr) == -1);
  CHECK(dpi_table_dim(nullptr, "area") == -1);
  CHECK(dpi_table_dim(tiered("exact").get(), "area") == 16);
}

TEST_CASE("an error of one key has its number in the call, and no feature") {
  const ModelPtr m = tiered("exact");
  const int64_t keys[] = {0, 5, kRows, -1};
  std::vector<float> out(4 * kDim, 2.0f);
  Error e;
  CHECK(dpi_table_lookup(m.get(), "area", keys, 4, out.data(), out.size(), &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.row == 2);
  CHECK(e.feature == -1);
  CHECK(std::count(out.begin(), out.end(), 2.0f) == 4 * kDim);
  CHECK(dpi_table_lookup(m.get(), "area", keys, 1, out.data(), kDim - 1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.row == -1);
}

TEST_CASE("miss=exact waits for late rows, and hands out no default") {
  const ModelPtr m = tiered("exact"), plain = load("msweb_deepfm.h5");
  for (int64_t key = 0; key < kRows; ++key) {
    const std::vector<float> got = row_of(m.get(), key);
    if (device() != "cuda_emu") REQUIRE(got == row_of(plain.get(), key));
  }
  CHECK(counted(m.get(), "late") > 0);
  CHECK(counted(m.get(), "defaulted") == 0);
  CHECK(counted(m.get(), "hits") + counted(m.get(), "late") + 1 ==
        kRows);  // one row is padding, and has its own place
}

TEST_CASE("miss=default: the counter defaulted says how many rows were table.NAME.default") {
  const ModelPtr m = tiered("default");
  int64_t defaults = 0;
  for (int64_t key = 0; key < kRows; ++key) {
    const std::vector<float> got = row_of(m.get(), key);
    const auto filled = std::count(got.begin(), got.end(), kFill);
    REQUIRE((filled == 0 || filled == kDim));
    defaults += filled == kDim ? 1 : 0;
    REQUIRE(counted(m.get(), "defaulted") == defaults);
  }
  CHECK(defaults > 0);
  CHECK(counted(m.get(), "late") == 0);
}

TEST_CASE("miss=fail names the key that is late, by its number in the call too") {
  const ModelPtr m = tiered("fail");
  int64_t late = 0;
  for (int64_t first = 0; first + 4 <= kRows; first += 4) {
    const int64_t keys[] = {first, first + 1, first + 2, first + 3};
    std::vector<float> out(4 * kDim, 2.0f);
    Error e;
    const dpi_status s = dpi_table_lookup(m.get(), "area", keys, 4, out.data(), out.size(), &e);
    if (s == DPI_OK) continue;
    ++late;
    CAPTURE(e.text());
    REQUIRE(s == DPI_E_NOT_FOUND);
    REQUIRE((e.row >= 0 && e.row < 4));
    CHECK(e.feature == -1);
    CHECK(e.text().find("key " + std::to_string(keys[e.row]) + " is not in host memory") !=
          std::string::npos);
    CHECK(std::count(out.begin(), out.end(), 2.0f) == 4 * kDim);
  }
  CHECK(late > 0);
}

}  // namespace
}  // namespace dpi::test::tables_test
