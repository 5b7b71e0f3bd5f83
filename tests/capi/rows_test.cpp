// Raw rows through the bundle's encoders give what already encoded rows give; errors name row and feature.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "support/capi_support.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::rows_test {
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
  const auto weights_of = [&](const std::vector<const char*>& texts) {
    const RowsPtr rows = rows_of(m.get());
    for (int r = 0; r < 3; ++r) {
      REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
      for (const char* text : texts) REQUIRE(dpi_rows_set_text(rows.get(), one, text, -1, &e) == DPI_OK);
      REQUIRE(dpi_rows_add_text(rows.get(), heavy, "2", -1, 0.5f + static_cast<float>(r), &e) == DPI_OK);
    }
    dpi_batch b{};
    b.struct_size = sizeof b;
    REQUIRE(dpi_rows_get_batch(rows.get(), &b, &e) == DPI_OK);
    REQUIRE(b.weights != nullptr);
    return std::vector<float>(b.weights, b.weights + b.nnz);
  };
  CHECK(weights_of({"1", ""}) == std::vector<float>{0.5f, 1.5f, 2.5f});  // missing takes it back
  CHECK(identical(weights_of({"1", ""}), weights_of({})));
  CHECK(weights_of({"1", "2"}).size() == 6);
  CHECK(identical(weights_of({"1", "2"}), weights_of({"2"})));
}

namespace {

const char* const kRawValues = "/tests/e2e/raw_values/data/raw_values.h5";
const char* const kMoreKinds = "/tests/e2e/raw_values/data/more_kinds.h5";

ModelPtr load_path(const std::string& path) {
  Error e;
  dpi_model* m = nullptr;
  const dpi_status s =
      dpi_model_load((source_dir() + path).c_str(), options({{"device", device()}}).get(), &m, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  return ModelPtr(m);
}

/// The number behind `key` of a feature in the counters.
int64_t counted(const dpi_model* m, const std::string& feature, const std::string& key) {
  std::string json(dpi_model_counters_json(m, nullptr, 0) + 64, '\0');
  dpi_model_counters_json(m, json.data(), json.size());
  const size_t at = json.find("\"name\":\"" + feature + "\"");
  const size_t value = json.find("\"" + key + "\":", at);
  REQUIRE((at != std::string::npos && value != std::string::npos));
  return std::atoll(json.c_str() + value + key.size() + 3);
}

}  // namespace

TEST_CASE("a list of integers appends with its weights, all or none") {
  const ModelPtr m = load_path(kMoreKinds);
  const int32_t tags = dpi_model_feature_index(m.get(), "tags"),
                user = dpi_model_feature_index(m.get(), "user");
  const RowsPtr rows = rows_of(m.get());
  const int64_t values[3] = {9007199254740993, 26, 7}, unknown[2] = {26, 9007199254740992};
  const float weights[3] = {0.5f, 2.0f, 1.5f};
  Error e;
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  REQUIRE(dpi_rows_add_text(rows.get(), tags, "7", -1, 0.25f, &e) == DPI_OK);
  REQUIRE(dpi_rows_add_integers(rows.get(), tags, values, weights, 3, &e) == DPI_OK);
  CHECK(dpi_rows_add_integers(rows.get(), tags, unknown, nullptr, 2, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(
      e.text() ==
      "row 0, feature 'tags': '9007199254740992' is not in the vocabulary (feature rule out_of_range=error)");
  REQUIRE(dpi_rows_add_integers(rows.get(), tags, values, nullptr, 1, &e) == DPI_OK);
  REQUIRE(dpi_rows_add_integers(rows.get(), tags, nullptr, nullptr, 0, &e) == DPI_OK);
  CHECK(dpi_rows_add_integers(rows.get(), tags, nullptr, nullptr, 1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_add_integers(rows.get(), tags, values, nullptr, -1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_add_integers(nullptr, tags, values, nullptr, 3, &e) == DPI_E_INVALID_ARGUMENT);
  // a feature of one value takes no list, not even an empty one, and no element
  CHECK(dpi_rows_add_integers(rows.get(), user, nullptr, nullptr, 0, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.feature == user);
  CHECK(dpi_rows_add_text(rows.get(), user, "1", -1, 1.0f, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.text() == "row 0, feature 'user': a list for a numeric feature, which takes one value");
  dpi_batch b = DPI_BATCH_INIT;
  REQUIRE(dpi_rows_get_batch(rows.get(), &b, &e) == DPI_OK);
  CHECK(std::vector<int64_t>(b.ids, b.ids + b.nnz) == std::vector<int64_t>{2, 3, 1, 2, 3});
  CHECK(std::vector<float>(b.weights, b.weights + b.nnz) ==
        std::vector<float>{0.25f, 0.5f, 2.0f, 1.5f, 1.0f});
}

TEST_CASE("a refused value changes nothing") {
  const ModelPtr m = load_path(kRawValues);
  const auto f = [&](const char* name) { return dpi_model_feature_index(m.get(), name); };
  const RowsPtr rows = rows_of(m.get());
  Error e;
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  for (const char* name : {"word", "plain", "history"})
    REQUIRE(dpi_rows_set_integer(rows.get(), f(name), 26, &e) == DPI_OK);
  CHECK(dpi_rows_set_text(rows.get(), f("word"), "no word", -1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_set_unsigned(rows.get(), f("plain"), UINT64_MAX, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_set_number(rows.get(), f("plain"), 0x1p53, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_set_number(rows.get(), f("history"), -0x1p53, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.text().find("-9007199254740992") != std::string::npos);
  CHECK(dpi_rows_set_number(rows.get(), f("vector"), 1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_rows_set_integer(rows.get(), f("vector"), 1, &e) == DPI_E_INVALID_ARGUMENT);
  dpi_batch b = DPI_BATCH_INIT;
  REQUIRE(dpi_rows_get_batch(rows.get(), &b, &e) == DPI_OK);
  CHECK(std::vector<int64_t>(b.ids, b.ids + b.nnz) == std::vector<int64_t>{1, 26, 1});
  for (int64_t k = 0; k < 4; ++k) CHECK(std::isnan(b.dense[k]));
}

TEST_CASE("an error of the shared part says so") {
  const ModelPtr m = load_path(kMoreKinds);
  const int32_t user = dpi_model_feature_index(m.get(), "user"),
                tags = dpi_model_feature_index(m.get(), "tags");
  const RowsPtr rows = rows_of(m.get());
  Error e;
  REQUIRE(dpi_rows_begin_shared(rows.get(), &e) == DPI_OK);
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  CHECK(dpi_rows_set_text(rows.get(), user, "x", -1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.text().find("shared row 0, feature 'user'") == 0);
  CHECK((e.in_shared == 1 && e.row == 0 && e.feature == user));
  CHECK(dpi_rows_set_text(rows.get(), tags, "x", -1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK((e.in_shared == 0 && e.row == 1 && e.feature == tags));
}

TEST_CASE("raw values count by cause, per rows object, while they are read") {
  const ModelPtr m = load_path(kRawValues);
  const int32_t word = dpi_model_feature_index(m.get(), "word"),
                age = dpi_model_feature_index(m.get(), "age"),
                history = dpi_model_feature_index(m.get(), "history");
  constexpr int kThreads = 3, kRounds = 2000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      dpi_rows* raw = nullptr;
      int bad = dpi_rows_create(m.get(), &raw, nullptr) != DPI_OK ? 1 : 0;
      for (int i = 0; i < kRounds && bad == 0; ++i) {
        dpi_rows_clear(raw);
        bad += dpi_rows_begin(raw, nullptr) != DPI_OK;
        bad += dpi_rows_set_text(raw, word, "no word", -1, nullptr) != DPI_E_INVALID_ARGUMENT;
        bad += dpi_rows_set_text(raw, age, "old", -1, nullptr) != DPI_E_INVALID_ARGUMENT;
        bad += dpi_rows_set_integer(raw, history, 27, nullptr) != DPI_OK;
      }
      dpi_rows_free(raw);  // what it counted stays
      if (bad == 0) --running;
    });
  }
  int64_t last = 0;
  while (last < kThreads * kRounds && running > 0) {
    const int64_t now = counted(m.get(), "word", "unknown");
    CHECK(now >= last);
    last = now;
  }
  for (std::thread& t : threads) t.join();
  REQUIRE(running == 0);
  CHECK(counted(m.get(), "word", "unknown") == kThreads * kRounds);
  CHECK(counted(m.get(), "word", "unparsable") == 0);
  CHECK(counted(m.get(), "age", "unparsable") == kThreads * kRounds);
  CHECK(counted(m.get(), "history", "unknown") == kThreads * kRounds);
  CHECK(counted(m.get(), "history", "missing") == 0);
}

TEST_CASE("a child after fork makes no rows of its parent's model, and lets go of those it has") {
  const ModelPtr m = load_path(kRawValues);
  RowsPtr rows = rows_of(m.get());
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dpi_rows* raw = nullptr;
    const dpi_status s = dpi_rows_create(m.get(), &raw, nullptr);
    dpi_rows_free(rows.release());
    _exit(s == DPI_E_FORKED ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a text with a splitter gives all of its elements or none") {
  const ModelPtr m = load_path("/tests/encode/data/encoders.h5");
  Error e;
  const RowsPtr rows = rows_of(m.get());
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  const int32_t bag = dpi_model_feature_index(m.get(), "id bag");
  dpi_feature_info info{};
  info.struct_size = sizeof info;
  REQUIRE(dpi_model_get_feature(m.get(), bag, &info, &e) == DPI_OK);
  const auto ids = [&] {
    dpi_batch b{};
    b.struct_size = sizeof b;
    REQUIRE(dpi_rows_get_batch(rows.get(), &b, &e) == DPI_OK);
    return std::vector<int64_t>(b.ids + b.offsets[info.slot], b.ids + b.offsets[info.slot + 1]);
  };
  set(rows.get(), m.get(), "id bag", "3,1,7");
  set(rows.get(), m.get(), "id bag", "");
  CHECK(dpi_rows_set_text(rows.get(), bag, "5,2,x,4", -1, &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.text().find("row 0, feature 'id bag': 'x' is not an integer") != std::string::npos);
  CHECK(dpi_rows_add_text(rows.get(), bag, "5,2", -1, 1.0f, &e) == DPI_E_INVALID_ARGUMENT);  // one element
  CHECK(e.text().find("'5,2' is not an integer") != std::string::npos);
  set(rows.get(), m.get(), "id bag", "8");
  set(rows.get(), m.get(), "id bag", "2,2");
  CHECK(ids() == std::vector<int64_t>{3, 1, 7, 8, 2, 2});
}

}  // namespace dpi::test::rows_test
