// dpi_predict and its twins on the demo bundles: the same rows give the same bits whichever way they come in.
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "support/capi_support.hpp"

namespace dpi::test::predict_test {
namespace {

constexpr std::array kBundles = {"adult_widedeep.h5", "bank_dcnv2.h5", "msweb_deepfm.h5", "msweb_can.h5"};

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// One id per bag, said with offsets.
std::vector<int64_t> unit_offsets(int64_t bags) {
  std::vector<int64_t> o(static_cast<size_t>(bags) + 1);
  std::iota(o.begin(), o.end(), 0);
  return o;
}

}  // namespace

TEST_CASE("golden rows pass on load") {
  for (const char* bundle : kBundles) {
    CAPTURE(bundle);
    CHECK(load(bundle, {{"verify", "golden"}}) != nullptr);
  }
}

TEST_CASE("every way to say the same batch gives the same bits") {
  for (const char* bundle : kBundles) {
    CAPTURE(bundle);
    const ModelPtr m = load(bundle);
    const dpi_model_info info = info_of(m.get());
    const OneHotRows rows(m.get(), 37);
    const std::vector<float> want = rows.scores(m.get());
    for (const float p : want) CHECK((p >= 0.0f && p <= 1.0f));

    {  // with offsets
      const auto offsets = unit_offsets(37 * info.num_slots);
      dpi_batch b = rows.batch;
      b.offsets = offsets.data();
      CHECK(identical(rows.scores_of(m.get(), b), want));
    }
    {  // slot-major
      std::vector<int64_t> ids(rows.ids.size());
      for (int64_t r = 0; r < 37; ++r) {
        for (int32_t s = 0; s < info.num_slots; ++s) {
          ids[static_cast<size_t>(s * 37 + r)] = rows.ids[static_cast<size_t>(r * info.num_slots + s)];
        }
      }
      dpi_batch b = rows.batch;
      b.ids = ids.data();
      b.layout = DPI_LAYOUT_SLOT_MAJOR;
      CHECK(identical(rows.scores_of(m.get(), b), want));
    }
    {  // flat
      std::vector<float> out(want.size());
      Error e;
      const dpi_status s = dpi_predict_flat(m.get(), 37, rows.batch.dense, rows.dense.size(), 0,
                                            rows.batch.ids, rows.ids.size(), nullptr, 0, nullptr, 0,
                                            DPI_LAYOUT_ROW_MAJOR, out.data(), out.size(), 0, nullptr, &e);
      INFO(e.text());
      CHECK(s == DPI_OK);
      CHECK(identical(out, want));
    }
    {  // a context's own memory
      dpi_context* raw = nullptr;
      Error e;
      REQUIRE(dpi_context_create(m.get(), 40, 0, &raw, &e) == DPI_OK);
      const ContextPtr c(raw);
      dpi_context_view v{};
      v.struct_size = sizeof v;
      REQUIRE(dpi_context_get_view(c.get(), &v, &e) == DPI_OK);
      std::copy(rows.ids.begin(), rows.ids.end(), v.ids);
      std::copy(rows.dense.begin(), rows.dense.end(), v.dense);
      REQUIRE(dpi_context_predict(c.get(), 37, -1, 0, nullptr, &e) == DPI_OK);
      CHECK(identical(std::vector<float>(v.out, v.out + want.size()), want));
      std::vector<float> out(want.size());
      REQUIRE(dpi_context_predict_batch(c.get(), &rows.batch, out.data(), out.size(), nullptr, &e) == DPI_OK);
      CHECK(identical(out, want));
    }
    if (info.dense_dim > 0) {  // a wider dense stride
      std::vector<float> wide(static_cast<size_t>(37 * (info.dense_dim + 3)), std::nanf(""));
      for (int64_t r = 0; r < 37; ++r) {
        std::copy_n(rows.dense.begin() + r * info.dense_dim, info.dense_dim,
                    wide.begin() + r * (info.dense_dim + 3));
      }
      dpi_batch b = rows.batch;
      b.dense = wide.data();
      b.dense_stride = info.dense_dim + 3;
      CHECK(identical(rows.scores_of(m.get(), b), want));
    }
  }
}

TEST_CASE("strict: a row's bits do not depend on its batch or its chunk") {
  for (const char* bundle : kBundles) {
    CAPTURE(bundle);
    const ModelPtr m = load(bundle, {{"determinism", "strict"}});
    const ModelPtr small = load(bundle, {{"determinism", "strict"}, {"max_rows", "7"}});
    const OneHotRows rows(m.get(), 65);
    const std::vector<float> want = rows.scores(m.get());
    CHECK(identical(rows.scores(small.get()), want));
    const dpi_model_info info = info_of(m.get());
    for (const int64_t r : {0, 1, 31, 64}) {
      dpi_batch b = rows.batch;
      b.rows = 1;
      b.ids = rows.ids.data() + r * info.num_slots;
      b.nnz = info.num_slots;
      b.dense = rows.dense.empty() ? nullptr : rows.dense.data() + r * info.dense_dim;
      CHECK(identical(rows.scores_of(m.get(), b), {want[static_cast<size_t>(r)]}));
    }
  }
}

TEST_CASE("sizes around vector widths and chunks agree with one row at a time") {
  const ModelPtr m = load("adult_widedeep.h5", {{"max_rows", "64"}});
  const dpi_model_info info = info_of(m.get());
  const OneHotRows rows(m.get(), 257);
  const std::vector<float> all = rows.scores(m.get());
  for (const int64_t n : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 257}) {
    CAPTURE(n);
    dpi_batch b = rows.batch;
    b.rows = n;
    b.nnz = n * info.num_slots;
    const std::vector<float> got = rows.scores_of(m.get(), b);
    CHECK(close(got, std::vector<float>(all.begin(), all.begin() + n), 1e-6f));
  }
}

TEST_CASE("zero rows are a valid batch") {
  const ModelPtr m = load("adult_widedeep.h5");
  dpi_batch b{};
  b.struct_size = sizeof b;
  Error e;
  CHECK(dpi_predict(m.get(), &b, nullptr, 0, nullptr, &e) == DPI_OK);
}

TEST_CASE("logits are given when asked for") {
  const ModelPtr m = load("bank_dcnv2.h5");
  const OneHotRows rows(m.get(), 20);
  std::vector<float> out(20), logit(20, -99.0f);
  dpi_run_options run{};
  run.struct_size = sizeof run;
  run.logits = logit.data();
  run.logits_len = logit.size();
  Error e;
  REQUIRE(dpi_predict(m.get(), &rows.batch, out.data(), out.size(), &run, &e) == DPI_OK);
  for (size_t i = 0; i < out.size(); ++i) {
    const double p = 1.0 / (1.0 + std::exp(-static_cast<double>(logit[i])));
    CHECK(std::fabs(p - static_cast<double>(out[i])) <= 1e-6);
  }
  run.logits_len = 19;
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), out.size(), &run, &e) == DPI_E_INVALID_ARGUMENT);
}

TEST_CASE("a call that fails leaves the logits alone") {
  const ModelPtr m = load("bank_dcnv2.h5");
  OneHotRows rows(m.get(), 20);
  std::vector<float> out(20, -7.0f), logit(20, -99.0f);
  dpi_run_options run = DPI_RUN_OPTIONS_INIT;
  run.logits = logit.data();
  run.logits_len = logit.size();
  int32_t stop = 0;
  run.cancel = &stop;
  SUBCASE("cancelled") { stop = 1; }
  SUBCASE("too late") { run.deadline_ns = 1; }
  SUBCASE("a bad value") { rows.dense.back() = std::numeric_limits<float>::infinity(); }
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), out.size(), &run, nullptr) != DPI_OK);
  CHECK(out == std::vector<float>(20, -7.0f));
  CHECK(logit == std::vector<float>(20, -99.0f));
}

TEST_CASE("deadline and cancel flag") {
  const ModelPtr m = load("adult_widedeep.h5");
  const OneHotRows rows(m.get(), 3);
  std::vector<float> out(3);
  dpi_run_options run{};
  run.struct_size = sizeof run;
  Error e;
  run.deadline_ns = now_ns() - 1;
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), out.size(), &run, &e) == DPI_E_TIMEOUT);
  run.deadline_ns = now_ns() + 60'000'000'000u;
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), out.size(), &run, &e) == DPI_OK);
  const volatile int32_t cancel = 1;
  run.cancel = &cancel;
  CHECK(dpi_predict(m.get(), &rows.batch, out.data(), out.size(), &run, &e) == DPI_E_CANCELLED);
}

TEST_CASE("sixteen threads on one model with fewer contexts, while another loads and frees it") {
  const bool slow = device() == "cuda_emu";
  const int64_t n = slow ? 20 : 50;  // more than a context holds
  const int calls = slow ? 8 : 40;
  const ModelPtr m = load("adult_widedeep.h5", {{"max_contexts", "3"}, {"max_rows", slow ? "16" : "32"}});
  const OneHotRows rows(m.get(), n);
  const std::vector<float> want = rows.scores(m.get());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      dpi_model_retain(m.get());
      std::vector<float> out(want.size());
      for (int i = 0; i < calls; ++i) {
        const dpi_status s = dpi_predict(m.get(), &rows.batch, out.data(), out.size(), nullptr, nullptr);
        if (s != DPI_OK || !identical(out, want)) wrong.fetch_add(1);
      }
      dpi_model_free(m.get());
    });
  }
  for (int i = 0; i < 5; ++i) CHECK(load("adult_widedeep.h5") != nullptr);
  for (auto& t : threads) t.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("loading from memory is loading the file") {
  const std::string path = demo("msweb_deepfm.h5");
  std::vector<char> bytes;
  FILE* f = fopen(path.c_str(), "rb");
  REQUIRE(f != nullptr);
  std::array<char, 4096> block{};
  for (size_t n = 0; (n = fread(block.data(), 1, block.size(), f)) > 0;)
    bytes.insert(bytes.end(), block.begin(), block.begin() + static_cast<long>(n));
  fclose(f);
  dpi_model* raw = nullptr;
  Error e;
  REQUIRE(dpi_model_load_memory(bytes.data(), bytes.size(), options({{"device", device()}}).get(), &raw,
                                &e) == DPI_OK);
  const ModelPtr from_memory(raw);
  std::fill(bytes.begin(), bytes.end(), '\0');  // the caller may free or reuse it
  const ModelPtr from_file = load("msweb_deepfm.h5");
  const OneHotRows rows(from_file.get(), 9);
  CHECK(identical(rows.scores(from_memory.get()), rows.scores(from_file.get())));
  CHECK(info_of(from_memory.get()).content_digest == info_of(from_file.get()).content_digest);
}

TEST_CASE("warm-up creates every context and changes no score") {
  const bool slow = device() == "cuda_emu";
  const ModelPtr m = load("bank_dcnv2.h5", {{"max_contexts", slow ? "2" : "4"}});
  const OneHotRows rows(m.get(), 5);
  const std::vector<float> want = rows.scores(m.get());
  Error e;
  CHECK(dpi_model_warm_up(m.get(), slow ? 8 : 128, &e) == DPI_OK);
  CHECK(identical(rows.scores(m.get()), want));
  CHECK(dpi_model_warm_up(m.get(), 0, &e) == DPI_E_INVALID_ARGUMENT);
}

}  // namespace dpi::test::predict_test
