// The table of raw values (make_cases.py) through the C API: each case scores or is refused as Python says,
// and is counted by its cause.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "support/capi_support.hpp"

namespace dpi::test::raw_values_test {

using Json = nlohmann::json;

namespace {

const char* const kData = "/tests/e2e/raw_values/data/";

ModelPtr load_table_model() {
  Error e;
  dpi_model* m = nullptr;
  const std::string path = source_dir() + kData + "raw_values.h5";
  const dpi_status s = dpi_model_load(path.c_str(), options({{"device", device()}}).get(), &m, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  return ModelPtr(m);
}

RowsPtr rows_of(dpi_model* m) {
  dpi_rows* raw = nullptr;
  Error e;
  REQUIRE(dpi_rows_create(m, &raw, &e) == DPI_OK);
  return RowsPtr(raw);
}

using Counts = std::map<std::string, int64_t>;

Counts counts_of(const dpi_model* m, int32_t feature) {
  std::string text(dpi_model_counters_json(m, nullptr, 0) + 64, '\0');
  text.resize(dpi_model_counters_json(m, text.data(), text.size()) - 1);
  const Json f = Json::parse(text)["features"][static_cast<size_t>(feature)];
  REQUIRE(f["name"] == dpi_model_feature_name(m, feature));
  Counts counts;
  for (const auto& [key, value] : f.items()) {
    if (key != "name") counts[key] = value.get<int64_t>();
  }
  REQUIRE(counts.size() == 6);
  return counts;
}

dpi_status set_text(dpi_rows* rows, int32_t f, const std::string& text, dpi_error* e) {
  return dpi_rows_set_text(rows, f, text.data(), static_cast<int64_t>(text.size()), e);
}

/// One value as a C program gives it: a JSON number's text as it is, the integers of the language, doubles.
dpi_status set_one(dpi_rows* rows, int32_t f, const Json& value, dpi_error* e) {
  const std::string kind = value.begin().key();
  if (kind == "bool") return set_text(rows, f, value["bool"].get<bool>() ? "true" : "false", e);
  if (kind == "null") return dpi_rows_set_text(rows, f, nullptr, 0, e);
  const std::string text = value.begin().value().get<std::string>();
  if (kind == "int") return dpi_rows_set_integer(rows, f, std::strtoll(text.c_str(), nullptr, 10), e);
  if (kind == "uint") return dpi_rows_set_unsigned(rows, f, std::strtoull(text.c_str(), nullptr, 10), e);
  if (kind == "double") return dpi_rows_set_number(rows, f, std::strtod(text.c_str(), nullptr), e);
  return set_text(rows, f, text, e);
}

dpi_status set_vector(dpi_rows* rows, int32_t f, const Json& list, dpi_error* e) {
  std::vector<float> floats;
  for (const Json& value : list) {
    floats.push_back(value.contains("null")
                         ? std::numeric_limits<float>::quiet_NaN()
                         : std::strtof(value.begin().value().get<std::string>().c_str(), nullptr));
  }
  return dpi_rows_set_floats(rows, f, floats.data(), static_cast<int64_t>(floats.size()), e);
}

/// A list as a binding gives it: the library says whether the feature takes one.
dpi_status set_list(dpi_rows* rows, int32_t f, const Json& list, dpi_error* e) {
  dpi_status s = dpi_rows_add_integers(rows, f, nullptr, nullptr, 0, e);
  for (size_t i = 0; i < list.size() && s == DPI_OK; ++i) s = set_one(rows, f, list[i], e);
  return s;
}

/// Lists in lists, and anything but numbers in a vector, have no form in C.
bool has_form(const Json& c) {
  const bool vector = c["feature"] == "vector";
  if (!c["value"].contains("list")) return !vector || !c["value"].contains("null");
  for (const Json& v : c["value"]["list"]) {
    if (v.contains("list") || (vector && (v.contains("text") || v.contains("bool")))) return false;
  }
  return true;
}

dpi_status set_case(dpi_rows* rows, int32_t f, const Json& c, dpi_error* e) {
  if (!c["value"].contains("list")) return set_one(rows, f, c["value"], e);
  return c["feature"] == "vector" ? set_vector(rows, f, c["value"]["list"], e)
                                  : set_list(rows, f, c["value"]["list"], e);
}

Json load_cases() {
  std::ifstream in(source_dir() + kData + "cases.json");
  Json cases = Json::parse(in, nullptr, false);
  REQUIRE(cases.is_array());
  REQUIRE(cases.size() > 500);
  return cases;
}

}  // namespace

TEST_CASE("the table of raw values") {
  const ModelPtr m = load_table_model();
  const RowsPtr rows = rows_of(m.get());
  const auto heads = static_cast<size_t>(info_of(m.get()).num_heads);
  int scored = 0, refused = 0, without_form = 0;
  for (const Json& c : load_cases()) {
    CAPTURE(c.dump());
    if (!has_form(c)) {
      ++without_form;
      continue;
    }
    const std::string name = c["feature"].get<std::string>();
    const int32_t f = dpi_model_feature_index(m.get(), name.c_str());
    Counts want = counts_of(m.get(), f);
    for (const auto& [cause, n] : c["counts"].items()) want.at(cause) += n.get<int64_t>();
    Error e;
    dpi_rows_clear(rows.get());
    REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
    std::vector<float> out(heads, -1.0f);
    dpi_status s = set_case(rows.get(), f, c, &e);
    if (s == DPI_OK) s = dpi_rows_predict(rows.get(), out.data(), out.size(), nullptr, &e);
    if (c.contains("score")) {
      INFO(e.text());
      REQUIRE(s == DPI_OK);
      size_t head = 0;
      while (dpi_model_head_name(m.get(), static_cast<int32_t>(head)) != name) ++head;
      const double score = c["score"].get<double>();
      CHECK(std::fabs(out[head] - score) <= 1.2e-7 * std::fabs(score));
      ++scored;
    } else {
      CHECK(s == DPI_E_INVALID_ARGUMENT);
      CHECK(e.row == 0);
      CHECK(e.feature == f);
      for (const Json& text : c["error"])
        CHECK_MESSAGE(e.text().find(text.get<std::string>()) != std::string::npos, e.text());
      ++refused;
    }
    CHECK(counts_of(m.get(), f) == want);
  }
  CHECK(scored > 300);
  CHECK(refused > 100);
  CHECK(without_form < 20);
}

}  // namespace dpi::test::raw_values_test
