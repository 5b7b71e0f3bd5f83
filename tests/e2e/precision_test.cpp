// Every golden bundle in every precision on the CUDA backend, with and without its library for products,
// against the reference backend's logits, and what determinism=strict promises.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "e2e/bundle_runs.hpp"

namespace dpi::test {
namespace {

struct Mode {
  const char* precision;
  float tolerance;  // of a logit, relative to max(1, |logit|)
};

constexpr Mode kModes[] = {{"fp32", 1e-5f}, {"tf32", 2e-3f}, {"fp16", 5e-3f}, {"bf16", 3e-2f}};
constexpr int64_t kRows = 67;  // more than one tile, no multiple of any

void check_all(const char* small_batch) {
  for (const auto& path : bundles_in({"tests/e2e/golden"})) {
    CAPTURE(path.stem().string());
    const ModelPtr ref = load_bundle(path, {{"device", "ref"}});
    const OneHotRows rows(ref.get(), kRows);
    const std::vector<float> want = logits_of(ref.get(), rows);
    for (const Mode& mode : kModes) {
      if (!fits(path.stem().string(), mode.precision)) continue;
      CAPTURE(mode.precision);
      const ModelPtr model = load_bundle(
          path, {{"device", device()}, {"precision", mode.precision}, {"small_batch", small_batch}});
      CHECK(worst_error(logits_of(model.get(), rows), want) <= mode.tolerance);
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

TEST_CASE("precision: strict gives a row the same bits in every batch") {
  for (const char* name : {"fx_dcnv2_parallel", "fx_deepfm_gelu", "dt_dcn_matrix"}) {
    const std::filesystem::path path =
        std::filesystem::path(source_dir()) / "tests/e2e/golden" / (std::string(name) + ".h5");
    for (const Mode& mode : kModes) {
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

}  // namespace
}  // namespace dpi::test
