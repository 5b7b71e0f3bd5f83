// What a caller can get wrong, and what each gives: a status, a text that names the place, and outputs left
// alone.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>

#include "support/capi_support.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::errors_test {
namespace {

/// Predicts with one thing changed in an otherwise valid batch of 4 rows.
struct Attempt {
  ModelPtr model;
  OneHotRows rows;
  std::vector<float> out = std::vector<float>(4, -7.0f);
  Error error;

  explicit Attempt(const char* bundle = "adult_widedeep.h5") : model(load(bundle)), rows(model.get(), 4) {}

  dpi_status run(const dpi_batch& b) {
    return dpi_predict(model.get(), &b, out.data(), out.size(), nullptr, &error);
  }
  bool untouched() const { return out == std::vector<float>(4, -7.0f); }
  bool says(const std::string& text) const { return error.text().find(text) != std::string::npos; }
};

}  // namespace

TEST_CASE("a batch that lies about itself") {
  Attempt a;
  dpi_batch b = a.rows.batch;
  std::string expected;
  SUBCASE("null ids") {
    b.ids = nullptr;
    expected = "ids is null";
  }
  SUBCASE("null dense") {
    b.dense = nullptr;
    expected = "dense is null";
  }
  SUBCASE("negative rows") {
    b.rows = -1;
    expected = "rows is -1";
  }
  SUBCASE("wrong nnz") {
    b.nnz -= 1;
    expected = "nnz is 31, expected rows x slots = 4 x 8";
  }
  SUBCASE("stride below the columns") {
    b.dense_stride = 2;
    expected = "dense_stride is 2";
  }
  SUBCASE("unknown layout") {
    b.layout = 9;
    expected = "layout is 9";
  }
  SUBCASE("unknown memory") {
    b.memory = 2;
    expected = "memory is 2";
  }
  SUBCASE("shared rows without offsets") {
    b.shared_rows = 2;
    expected = "shared_offsets is null";
  }
  CAPTURE(a.error.text());
  CHECK(a.run(b) == DPI_E_INVALID_ARGUMENT);
  CHECK(a.says(expected));
  CHECK(a.untouched());
}

TEST_CASE("struct sizes") {
  Attempt a;
  dpi_batch b = a.rows.batch;
  b.struct_size = 40;
  CHECK(a.run(b) == DPI_E_INVALID_ARGUMENT);
  CHECK(a.says("struct_size is 40"));
  struct Newer {
    dpi_batch batch;
    uint64_t added;
  } newer{a.rows.batch, 0};
  newer.batch.struct_size = sizeof newer;
  CHECK(a.run(newer.batch) == DPI_OK);  // unknown trailing bytes are zero
  newer.added = 1;
  CHECK(a.run(newer.batch) == DPI_E_VERSION);
  b = a.rows.batch;
  b.struct_size = 0xFFFFFFFFu;  // never set: must not be read that far
  CHECK(a.run(b) == DPI_E_INVALID_ARGUMENT);
  dpi_model_info info{};
  info.struct_size = 0xFFFFFFFFu;
  CHECK(dpi_model_get_info(a.model.get(), &info, &a.error) == DPI_E_INVALID_ARGUMENT);
  b = a.rows.batch;
  b.flags = 1;
  CHECK(a.run(b) == DPI_E_VERSION);
}

TEST_CASE("offsets") {
  Attempt a;
  dpi_batch b = a.rows.batch;
  std::vector<int64_t> offsets(33);
  for (size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<int64_t>(i);
  b.offsets = offsets.data();
  SUBCASE("start") { offsets[0] = 1; }
  SUBCASE("decreasing") { offsets[5] = 3; }
  SUBCASE("negative") { offsets[1] = -1; }
  SUBCASE("past the end") { offsets[32] = 33; }
  SUBCASE("two ids of a categorical feature") {
    offsets[1] = 2;
    offsets[2] = 2;
  }
  CHECK(a.run(b) == DPI_E_INVALID_ARGUMENT);
  CAPTURE(a.error.text());
  CHECK((a.says("offsets") || a.says("ids where a categorical feature has one")));
  CHECK(a.untouched());
}

TEST_CASE("the flat call counts the stride against the floats that it is given") {
  Attempt a;
  const int64_t width = info_of(a.model.get()).dense_dim, stride = width + 3;
  std::vector<float> dense(static_cast<size_t>(3 * stride + width));
  const auto run = [&](size_t len) {
    return dpi_predict_flat(a.model.get(), 4, dense.data(), len, stride, a.rows.ids.data(), a.rows.ids.size(),
                            nullptr, 0, nullptr, 0, DPI_LAYOUT_ROW_MAJOR, a.out.data(), a.out.size(), 0,
                            nullptr, &a.error);
  };
  CHECK(run(dense.size() - 1) == DPI_E_INVALID_ARGUMENT);
  CHECK(a.says("dense_len"));
  CHECK(a.untouched());
  CHECK(run(dense.size()) == DPI_OK);
}

TEST_CASE("null handles and outputs") {
  Attempt a;
  CHECK(dpi_predict(nullptr, &a.rows.batch, a.out.data(), 4, nullptr, &a.error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_predict(a.model.get(), nullptr, a.out.data(), 4, nullptr, &a.error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_predict(a.model.get(), &a.rows.batch, nullptr, 4, nullptr, &a.error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_predict(a.model.get(), &a.rows.batch, a.out.data(), 3, nullptr, &a.error) ==
        DPI_E_INVALID_ARGUMENT);
  CHECK(a.says("out_len is 3"));
  CHECK(dpi_predict(nullptr, nullptr, nullptr, 0, nullptr, nullptr) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_model_load(nullptr, nullptr, nullptr, &a.error) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_model_feature_index(nullptr, "x") == -1);
  CHECK(dpi_model_head_name(a.model.get(), 1) == nullptr);
  CHECK(std::string(dpi_model_head_name(a.model.get(), 0)) == "income_over_50k");
  dpi_model_free(nullptr);
  dpi_context_free(nullptr);
  dpi_rows_free(nullptr);
  dpi_options_free(nullptr);
}

TEST_CASE("rows of a table: nulls, lengths that lie, rows and tables that are not there") {
  Attempt a;
  const bool host = device() != "cuda_emu";
  const int64_t keys[] = {3, 10};
  const auto lookup = [&](const char* table, size_t n, size_t out_len) {
    return dpi_table_lookup(a.model.get(), table, keys, n, a.out.data(), out_len, &a.error);
  };
  CHECK(dpi_table_lookup(nullptr, "sex", keys, 1, a.out.data(), 4, &a.error) == DPI_E_INVALID_ARGUMENT);
  CHECK(lookup(nullptr, 1, 4) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_table_lookup(a.model.get(), "sex", nullptr, 1, a.out.data(), 4, &a.error) ==
        DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_table_lookup(a.model.get(), "sex", keys, 1, nullptr, 4, &a.error) == DPI_E_INVALID_ARGUMENT);
  CHECK(a.says("keys or out is null, n is 1"));
  CHECK(dpi_table_lookup(a.model.get(), "sex", nullptr, 0, nullptr, 4, &a.error) ==
        (host ? DPI_OK : DPI_E_UNSUPPORTED));
  CHECK(lookup("nowhere", 0, 0) == DPI_E_NOT_FOUND);
  CHECK(lookup("sex.scalars", 1, 4) == DPI_E_NOT_FOUND);  // the plan's, not the bundle's
  CHECK(lookup("sex", 1, 7) == (host ? DPI_E_INVALID_ARGUMENT : DPI_E_UNSUPPORTED));
  CHECK(a.says(host ? "out has 7 floats, expected 1 x 8" : "not in host memory"));
  for (const size_t n : {SIZE_MAX, SIZE_MAX / 8 + 1, SIZE_MAX / 32 + 1})  // n x dim x 4 is small again
    CHECK(lookup("sex", n, 4) == (host ? DPI_E_INVALID_ARGUMENT : DPI_E_UNSUPPORTED));
  CHECK(lookup("workclass", 2, 16) == (host ? DPI_E_INVALID_ARGUMENT : DPI_E_UNSUPPORTED));
  if (host) CHECK(a.says("key 1 is 10, table 'workclass' has rows 0 to 9"));
  CHECK(a.untouched());
}

TEST_CASE("an id outside the vocabulary under rule error names row and feature") {
  Attempt a("bank_dcnv2.h5");  // `day` is bucketed: its ids have no out-of-vocabulary row
  const int32_t day = dpi_model_feature_index(a.model.get(), "day");
  REQUIRE(day >= 0);
  const dpi_feature_info f = feature_of(a.model.get(), day);
  const dpi_model_info info = info_of(a.model.get());
  for (const int64_t bad : {f.vocab_size, int64_t{-1}, std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()}) {
    std::vector<int64_t> ids = a.rows.ids;
    ids[static_cast<size_t>(2 * info.num_slots + f.slot)] = bad;
    dpi_batch b = a.rows.batch;
    b.ids = ids.data();
    CHECK(a.run(b) == DPI_E_INVALID_ARGUMENT);
    CHECK(a.error.row == 2);
    CHECK(a.error.feature == day);
    CHECK(a.says("row 2, feature 'day': id " + std::to_string(bad)));
  }
}

TEST_CASE("an id outside the vocabulary under rule oov scores as the oov row and is counted") {
  Attempt a;
  const int32_t education = dpi_model_feature_index(a.model.get(), "education");
  const dpi_feature_info f = feature_of(a.model.get(), education);
  const dpi_model_info info = info_of(a.model.get());
  const auto with_id = [&](int64_t id) {
    std::vector<int64_t> ids = a.rows.ids;
    for (int64_t r = 0; r < 4; ++r) ids[static_cast<size_t>(r * info.num_slots + f.slot)] = id;
    dpi_batch b = a.rows.batch;
    b.ids = ids.data();
    return a.rows.scores_of(a.model.get(), b);
  };
  const std::vector<float> oov = with_id(f.vocab_size - 1);
  CHECK(identical(with_id(f.vocab_size), oov));
  CHECK(identical(with_id(-5), oov));
  CHECK(identical(with_id(std::numeric_limits<int64_t>::max()), oov));
  std::string json(dpi_model_counters_json(a.model.get(), nullptr, 0), '\0');
  dpi_model_counters_json(a.model.get(), json.data(), json.size());
  CHECK(json.find("{\"name\":\"education\",\"missing\":0,\"out_of_range\":12,\"unknown\":0,\"unparsable\":0,"
                  "\"cut\":0,\"absent\":0}") != std::string::npos);
}

TEST_CASE("floats: NaN is missing, infinity is an error") {
  Attempt a("bank_dcnv2.h5");  // numerics there: missing = error
  std::vector<float> dense = a.rows.dense;
  dpi_batch b = a.rows.batch;
  b.dense = dense.data();
  const int32_t balance = dpi_model_feature_index(a.model.get(), "balance");
  const dpi_feature_info f = feature_of(a.model.get(), balance);
  const dpi_model_info info = info_of(a.model.get());
  float& cell = dense[static_cast<size_t>(info.dense_dim + f.dense_column)];
  cell = std::nanf("");
  CHECK(a.run(b) == DPI_E_INVALID_ARGUMENT);
  CHECK(a.error.row == 1);
  CHECK(a.error.feature == balance);
  cell = std::numeric_limits<float>::infinity();
  CHECK(a.run(b) == DPI_E_INVALID_ARGUMENT);
  CHECK(a.says("infinite"));

  Attempt d;  // numerics there: missing = default 0
  std::vector<float> zero = d.rows.dense, nan = d.rows.dense;
  zero[0] = 0.0f;
  nan[0] = std::nanf("");
  dpi_batch with_zero = d.rows.batch, with_nan = d.rows.batch;
  with_zero.dense = zero.data();
  with_nan.dense = nan.data();
  CHECK(identical(d.rows.scores_of(d.model.get(), with_nan), d.rows.scores_of(d.model.get(), with_zero)));
}

TEST_CASE("options") {
  const OptionsPtr o(dpi_options_create());
  Error e;
  CHECK(dpi_options_set(o.get(), "no_such_key", "1", &e) == DPI_E_NOT_FOUND);
  CHECK(e.text().find("known: device") != std::string::npos);
  CHECK(dpi_options_set(o.get(), "max_rows", "0", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_options_set(o.get(), "max_rows", "12x", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_options_set(o.get(), "device", "TPU", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_options_set(o.get(), "device", "../x", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_options_set(o.get(), "device", "a_plugin", &e) == DPI_OK);  // looked for while loading
  CHECK(dpi_options_set(o.get(), "backend_dir", "relative/dir", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(dpi_options_set(nullptr, "device", "cpu", &e) == DPI_E_INVALID_ARGUMENT);
}

TEST_CASE("files that are no bundle") {
  Error e;
  dpi_model* m = nullptr;
  CHECK(dpi_model_load("/nowhere/model.h5", nullptr, &m, &e) == DPI_E_NOT_FOUND);
  CHECK(e.text().find("/nowhere/model.h5") != std::string::npos);
  CHECK(dpi_model_load((dpi::test::source_dir() + "/LICENSE").c_str(), nullptr, &m, &e) == DPI_E_BAD_MODEL);
  CHECK(dpi_model_load_memory("HDF", 3, nullptr, &m, &e) == DPI_E_BAD_MODEL);
  CHECK(m == nullptr);
}

TEST_CASE("device=cuda without one says why; auto falls back and reports it") {
  Error e;
  dpi_model* raw = nullptr;
  const dpi_status s =
      dpi_model_load(demo("adult_widedeep.h5").c_str(), options({{"device", "cuda"}}).get(), &raw, &e);
  if (s == DPI_OK) {
    dpi_model_free(raw);  // this machine has one
  } else {
    CHECK(s == DPI_E_NO_DEVICE);
    CHECK(e.text().size() > 20);
  }
  REQUIRE(dpi_model_load(demo("adult_widedeep.h5").c_str(), nullptr, &raw, &e) == DPI_OK);
  const ModelPtr m(raw);
  const int32_t kind = info_of(m.get()).device_kind;
  CHECK((kind == DPI_DEVICE_CPU || kind == DPI_DEVICE_CUDA));
  std::string json(dpi_model_info_json(m.get(), nullptr, 0), '\0');
  CHECK(dpi_model_info_json(m.get(), json.data(), json.size()) == json.size());
  CHECK(json.find("\"note\":\"\"") ==
        (kind == DPI_DEVICE_CPU ? std::string::npos : json.find("\"note\":\"\"")));
  char small[8];
  CHECK(dpi_model_info_json(m.get(), small, sizeof small) == json.size());
  CHECK(small[7] == '\0');
}

TEST_CASE("a child process is told that the model is its parent's") {
  const ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows rows(m.get(), 1);
  float out = 0;
  const pid_t child = fork();
  if (child == 0) {
    const dpi_status told = dpi_predict(m.get(), &rows.batch, &out, 1, nullptr, nullptr);
    dpi_model_free(m.get());  // must not touch what the parent's device holds
    _exit(told);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == DPI_E_FORKED);
  CHECK(dpi_predict(m.get(), &rows.batch, &out, 1, nullptr, nullptr) == DPI_OK);
}

TEST_CASE("status names") {
  CHECK(std::string(dpi_status_name(DPI_OK)) == "DPI_OK");
  CHECK(std::string(dpi_status_name(DPI_E_INTERNAL)) == "DPI_E_INTERNAL");
  CHECK(std::string(dpi_status_name(99)) == "DPI_E_UNKNOWN");
  CHECK(std::string(dpi_status_name(-1)) == "DPI_E_UNKNOWN");
}

TEST_CASE("text from outside is spelled out, so that a terminal or a log shows it") {
  Error e;
  dpi_model* m = nullptr;
  CHECK(dpi_model_load("/no/such\x1b]0;x\x07\n\xFF.h5", nullptr, &m, &e) == DPI_E_NOT_FOUND);
  CAPTURE(e.text());
  CHECK(e.text().starts_with("/no/such\\x1b]0;x\\x07\\n\\xff.h5: "));

  const OptionsPtr o(dpi_options_create());
  CHECK(dpi_options_set(o.get(), "device_index", "1\x1b[2J", &e) == DPI_E_INVALID_ARGUMENT);
  CHECK(e.text().find("'1\\x1b[2J'") != std::string::npos);
  CHECK(dpi_options_set(o.get(), "colour\xC2\x9B", "1", &e) == DPI_E_NOT_FOUND);
  CHECK(e.text().find("'colour\\u009b'") != std::string::npos);

  const ModelPtr model = load("msweb_deepfm.h5");
  dpi_rows* raw = nullptr;
  REQUIRE(dpi_rows_create(model.get(), &raw, &e) == DPI_OK);
  const RowsPtr rows(raw);
  REQUIRE(dpi_rows_begin(rows.get(), &e) == DPI_OK);
  const int32_t visits = dpi_model_feature_index(model.get(), "visits");
  CHECK(dpi_rows_set_text(rows.get(), visits, "zwölf\x1b[31m\x80", -1, &e) == DPI_E_INVALID_ARGUMENT);
  CAPTURE(e.text());
  CHECK(e.text().find("'zwölf\\x1b[31m\\x80'") != std::string::npos);
}

TEST_CASE("a long text ends with a whole character") {
  Error e;
  dpi_model* m = nullptr;
  std::string path = "/";
  for (int i = 0; i < 300; ++i) path += "\u00e4";
  for (const char* first : {"", "x"}) {
    CHECK(dpi_model_load((first + path).c_str(), nullptr, &m, &e) != DPI_OK);
    const std::string text = e.text();
    CHECK(text.size() >= sizeof e.message - 2);
    CHECK(text.ends_with("\u00e4"));
  }
}

}  // namespace dpi::test::errors_test
