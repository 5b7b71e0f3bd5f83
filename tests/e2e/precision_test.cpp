// Every golden bundle in every precision of the CUDA and the CPU backend, with and without the GPU's library
// for products, against the reference backend's logits, and in which batches and threads a row's bits are the
// same.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "support/bundle_runs.hpp"
#include "support/env_support.hpp"

namespace dpi::test::precision_test {
namespace {

struct Mode {
  const char* precision;
  float tolerance;  // of a logit, relative to max(1, |logit|)
  bool saturates = false;
};

constexpr Mode kModes[] = {{"fp32", 1e-5f}, {"tf32", 2e-3f}, {"fp16", 5e-3f, true}, {"bf16", 3e-2f}};

std::vector<Mode> modes() {
  if (device() == "cpu") return {kModes[0], kModes[3]};  // the others are refused: tests/e2e/cli
  return {std::begin(kModes), std::end(kModes)};
}

constexpr int64_t kRows = 67;  // more than one tile, no multiple of any

void check_all(const char* small_batch) {
  for (const auto& path : bundles_in({"tests/e2e/golden"})) {
    CAPTURE(path.stem().string());
    const ModelPtr ref = load_bundle(path, {{"device", "ref"}});
    const OneHotRows rows(ref.get(), kRows);
    const BagRows bags(ref.get(), kRows);
    for (const Mode& mode : modes()) {
      CAPTURE(mode.precision);
      const ModelPtr model = load_bundle(
          path, {{"device", device()}, {"precision", mode.precision}, {"small_batch", small_batch}});
      for (const OneHotRows* r : {&rows, static_cast<const OneHotRows*>(&bags)}) {
        CAPTURE(r->batch.nnz);
        std::vector<float> want = logits_of(ref.get(), *r), got = logits_of(model.get(), *r);
        if (mode.saturates) {
          want = as_scored(want);
          got = as_scored(got);
        }
        CHECK(worst_error(got, want) <= mode.tolerance);
      }
    }
  }
}

TEST_CASE("precision: logits are as near as each mode promises") { check_all("off"); }

TEST_CASE("precision: the same through the library's products") {
  if (device() != "cuda_emu") return;  // a GPU has the library or not
  setenv("DPI_EMU_CUBLASLT", "1", 1);
  check_all("off");
  unsetenv("DPI_EMU_CUBLASLT");
}

int64_t saturated(const dpi_model* m) {
  const std::string text = json_text(dpi_model_counters_json, m);
  const size_t at = text.find("\"saturated\":");
  REQUIRE(at != std::string::npos);
  return std::strtoll(text.c_str() + at + 12, nullptr, 10);
}

TEST_CASE("precision: values that fp16 cannot hold are counted where calls are watched, and only there") {
  if (device() == "cpu") return;  // no value is narrowed between layers
  const auto counted = [&](const char* name, const char* precision, const char* watched) {
    CAPTURE(name);
    const auto path = std::filesystem::path(source_dir()) / "tests/e2e/golden" / name;
    const ModelPtr model =
        load_bundle(path, {{"device", device()}, {"precision", precision}, {"debug.timestamps", watched}});
    const BagRows rows(model.get(), kRows);
    for (const float v : logits_of(model.get(), rows)) CHECK(std::isfinite(v));
    const int64_t once = saturated(model.get());
    logits_of(model.get(), rows);
    CHECK(saturated(model.get()) == 2 * once);
    return once;
  };
  CHECK(counted("dt_wdl_max.h5", "fp16", "on") > 0);
  CHECK(counted("dt_wdl_max.h5", "fp16", "off") == 0);
  CHECK(counted("dt_wdl_max.h5", "bf16", "on") == 0);
  CHECK(counted("fx_dcn.h5", "fp16", "on") == 0);
}

TEST_CASE("precision: strict gives a row the same bits in every batch") {
  for (const char* name : {"fx_dcnv2_parallel", "fx_deepfm_gelu", "dt_dcn_matrix"}) {
    const std::filesystem::path path =
        std::filesystem::path(source_dir()) / "tests/e2e/golden" / (std::string(name) + ".h5");
    for (const Mode& mode : modes()) {
      CAPTURE(name);
      CAPTURE(mode.precision);
      const ModelPtr model =
          load_bundle(path, {{"device", device()}, {"precision", mode.precision}, {"determinism", "strict"}});
      OneHotRows rows(model.get(), kRows);
      const std::vector<float> all = rows.scores(model.get());
      for (const int64_t n : {int64_t{1}, int64_t{33}}) {
        rows.batch.rows = n;
        rows.batch.nnz = n * info_of(model.get()).num_slots;
        const std::vector<float> some = rows.scores(model.get());
        const std::vector<float> first(all.begin(), all.begin() + static_cast<int64_t>(some.size()));
        CHECK(identical(some, first));
      }
    }
  }
}

TEST_CASE(
    "precision: narrow layers on cpu give a row the same bits in every batch and by every number of "
    "threads") {
  if (device() != "cpu") return;
  constexpr int64_t kMany = 1500;
  const std::pair<const char*, const char*> settings[] = {
      {"auto", "bf16"},  {"amx", "bf16"},         {"avx512_bf16", "bf16"}, {"avx512", "bf16"},
      {"avx2", "bf16"},  {"scalar", "bf16"},      {"neon", "bf16"},        {"auto", "int8"},
      {"amx", "int8"},   {"avx512_vnni", "int8"}, {"avx512", "int8"},      {"avx2", "int8"},
      {"neon", "int8"},  {"neon_dot", "int8"},    {"neon_mmla", "bf16"},   {"neon_mmla", "int8"},
      {"scalar", "int8"}};
  for (const auto& [isa, precision] : settings) {
    const std::filesystem::path path = std::filesystem::path(source_dir()) / "weights/demo/bank_dcnv2.h5";
    CAPTURE(isa);
    CAPTURE(precision);
    const Pairs one = {{"device", "cpu"}, {"precision", precision}, {"isa", isa}};
    Pairs two = one;
    two.emplace_back("threads", "2");
    dpi_model* raw = nullptr;
    if (dpi_model_load(path.c_str(), options(one).get(), &raw, nullptr) == DPI_E_UNSUPPORTED) continue;
    const ModelPtr model(raw), threads = load_bundle(path, two);
    REQUIRE(model != nullptr);
    OneHotRows rows(model.get(), kMany);
    const std::vector<float> all = rows.scores(model.get());
    CHECK(identical(rows.scores(threads.get()), all));
    for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{64}, int64_t{513}}) {
      rows.batch.rows = n;
      rows.batch.nnz = n * info_of(model.get()).num_slots;
      const std::vector<float> some = rows.scores(model.get());
      CHECK(identical(some, {all.begin(), all.begin() + static_cast<int64_t>(some.size())}));
    }
  }
}

}  // namespace
}  // namespace dpi::test::precision_test
