// Raw rows through the bundle's encoders give what already encoded rows give; errors name row and feature.
#include "capi/capi_support.hpp"
#include "support/source_dir.hpp"

using namespace dpi::test;

namespace {

RowsPtr rows_of(dpi_model* m) {
  dpi_rows* raw = nullptr;
  Error e;
  REQUIRE(dpi_rows_create(m, &raw, &e) == DPI_OK);
  return RowsPtr(raw);
}

void set(dpi_rows* rows, const dpi_model* m, const char* feature, const char* text) {
  Error e;
  const dpi_status s = dpi_rows_set_text(rows, dpi_model_feature_index(m, feature), text, -1, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
}

/// One row of the msweb model.
void add_visit(dpi_rows* rows, const dpi_model* m, const std::vector<const char*>& history, const char* area,
               double visits) {
  REQUIRE(dpi_rows_begin(rows, nullptr) == DPI_OK);
  for (const char* h : history) set(rows, m, "history", h);
  set(rows, m, "area", area);
  REQUIRE(dpi_rows_set_number(rows, dpi_model_feature_index(m, "visits"), visits, nullptr) == DPI_OK);
}

}  // namespace

TEST_CASE("text, numbers and ids agree") {
  const ModelPtr m = load("msweb_deepfm.h5");
  const RowsPtr rows = rows_of(m.get());
  add_visit(rows.get(), m.get(), {"1008", "1034", "1004"}, "1017", 3);
  add_visit(rows.get(), m.get(), {}, "999999", 0);  // empty bag, unknown area
  std::vector<float> raw(2);
  Error e;
  REQUIRE(dpi_rows_predict(rows.get(), raw.data(), raw.size(), nullptr, &e) == DPI_OK);

  dpi_batch b{};
  b.struct_size = sizeof b;
  REQUIRE(dpi_rows_get_batch(rows.get(), &b, &e) == DPI_OK);
  CHECK(b.rows == 2);
  CHECK(b.nnz == 3 + 2 + 2);
  std::vector<float> again(2);
  REQUIRE(dpi_predict(m.get(), &b, again.data(), again.size(), nullptr, &e) == DPI_OK);
  CHECK(identical(again, raw));

  const std::vector<int64_t> ids(b.ids, b.ids + 3);
  dpi_rows_clear(rows.get());
  CHECK(dpi_rows_count(rows.get()) == 0);
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  const int32_t history = dpi_model_feature_index(m.get(), "history");
  REQUIRE(dpi_rows_set_ids(rows.get(), history, ids.data(), nullptr, 3, &e) == DPI_OK);
  set(rows.get(), m.get(), "area", "1017");
  set(rows.get(), m.get(), "visits", "3");
  REQUIRE(dpi_rows_predict(rows.get(), again.data(), 1, nullptr, &e) == DPI_OK);
  CHECK(again[0] == raw[0]);
}

TEST_CASE("a bag longer than max_len keeps its last elements and is counted") {
  const ModelPtr m = load("msweb_deepfm.h5");
  const auto score = [&](int n, int skip) {
    const RowsPtr rows = rows_of(m.get());
    std::vector<const char*> bag;
    for (int i = skip; i < n; ++i) bag.push_back(i % 2 == 0 ? "1008" : i % 3 == 0 ? "1034" : "1004");
    add_visit(rows.get(), m.get(), bag, "1017", 5);
    std::vector<float> out(1);
    REQUIRE(dpi_rows_predict(rows.get(), out.data(), 1, nullptr, nullptr) == DPI_OK);
    return out;
  };
  CHECK(identical(score(45, 0), score(45, 13)));  // max_len is 32
  CHECK_FALSE(identical(score(45, 0), score(45, 20)));
  std::string json(dpi_model_counters_json(m.get(), nullptr, 0), '\0');
  dpi_model_counters_json(m.get(), json.data(), json.size());
  CHECK(json.find("\"cut\":2") != std::string::npos);
}

TEST_CASE("errors of raw rows") {
  const ModelPtr m = load("bank_dcnv2.h5");
  const RowsPtr rows = rows_of(m.get());
  const int32_t balance = dpi_model_feature_index(m.get(), "balance");
  const int32_t job = dpi_model_feature_index(m.get(), "job");
  Error e;
  CHECK(dpi_rows_set_text(rows.get(), balance, "1", -1, &e) == DPI_E_INVALID_ARGUMENT);  // no row begun
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  CHECK(dpi_rows_set_text(rows.get(), balance, "12,5", -1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.row == 1);
  CHECK(e.feature == balance);
  CHECK(e.text().find("row 1, feature 'balance': '12,5'") != std::string::npos);
  CHECK(dpi_rows_set_text(rows.get(), 99, "1", -1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_set_text(rows.get(), job, nullptr, 3, &e) == DPI_E_INVALID_ARGUMENT);
  const float f[2] = {0, 0};
  CHECK(dpi_rows_set_floats(rows.get(), balance, f, 2, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_set_floats(rows.get(), job, f, 1, &e) == DPI_E_INVALID_ARGUMENT);
  // a numeric feature that was never set is missing, and this bundle says that is an error
  std::vector<float> out(2);
  CHECK(dpi_rows_predict(rows.get(), out.data(), 2, nullptr, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.text().find("missing") != std::string::npos);
}

TEST_CASE("rows outlive the caller's reference to the model") {
  RowsPtr rows;
  {
    const ModelPtr m = load("adult_widedeep.h5");
    rows = rows_of(m.get());
  }
  CHECK(dpi_rows_begin(rows.get(), nullptr) == DPI_OK);
  std::vector<float> out(1);
  CHECK(dpi_rows_predict(rows.get(), out.data(), 1, nullptr, nullptr) ==
        DPI_OK);  // everything missing: defaults
}

TEST_CASE("setting a categorical twice keeps weights beside their ids") {
  Error e;
  dpi_model* raw = nullptr;
  const std::string path =
      dpi::test::source_dir() + "/tests/e2e/op_bundles/embed.h5";  // `one` categorical, `heavy` weighted
  REQUIRE(dpi_model_load(path.c_str(), options({{"device", device()}}).get(), &raw, &e) == DPI_OK);
  const ModelPtr m(raw);
  const int32_t one = dpi_model_feature_index(m.get(), "one"),
                heavy = dpi_model_feature_index(m.get(), "heavy");
  REQUIRE((one >= 0 && heavy >= 0));
  const auto weights_of = [&](bool twice) {
    const RowsPtr rows = rows_of(m.get());
    for (int r = 0; r < 3; ++r) {
      REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
      if (twice) {
        REQUIRE(dpi_rows_set_text(rows.get(), one, "1", -1, &e) == DPI_OK);
        REQUIRE(dpi_rows_set_text(rows.get(), one, "", -1, &e) == DPI_OK);  // missing takes it back
      }
      REQUIRE(dpi_rows_add_text(rows.get(), heavy, "2", -1, 0.5f + static_cast<float>(r), &e) == DPI_OK);
    }
    dpi_batch b{};
    b.struct_size = sizeof b;
    REQUIRE(dpi_rows_get_batch(rows.get(), &b, &e) == DPI_OK);
    REQUIRE(b.weights != nullptr);
    return std::vector<float>(b.weights, b.weights + b.nnz);
  };
  CHECK(identical(weights_of(true), weights_of(false)));
  CHECK(weights_of(true) == std::vector<float>{0.5f, 1.5f, 2.5f});
}
