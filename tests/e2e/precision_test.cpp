// Every golden bundle in every precision on the CUDA backend, with and without its library for products,
// against the reference backend's logits, and what determinism=strict promises.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "capi/capi_support.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {
namespace {

struct Mode {
  const char* precision;
  float tolerance;  // of a logit, relative to max(1, |logit|)
};

constexpr Mode kModes[] = {{"fp32", 1e-5f}, {"tf32", 2e-3f}, {"fp16", 5e-3f}, {"bf16", 3e-2f}};
constexpr int64_t kRows = 67;  // more than one tile, no multiple of any

std::vector<std::filesystem::path> bundles() {
  std::vector<std::filesystem::path> found;
  const std::filesystem::path folder = std::filesystem::path(source_dir()) / "tests/e2e/golden";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".h5") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

ModelPtr load_as(const std::filesystem::path& path, const char* on, Pairs pairs) {
  pairs.emplace_back("device", on);
  Error error;
  dpi_model* model = nullptr;
  const dpi_status status = dpi_model_load(path.c_str(), options(pairs).get(), &model, &error);
  INFO(error.text());
  REQUIRE(status == DPI_OK);
  return ModelPtr(model);
}

std::vector<float> logits_of(dpi_model* m, const OneHotRows& rows) {
  const size_t n = static_cast<size_t>(rows.batch.rows) * rows.heads;
  std::vector<float> scores(n, NAN);
  std::vector<float> logits(n, NAN);
  dpi_run_options args{};
  args.struct_size = sizeof args;
  args.logits = logits.data();
  args.logits_len = n;
  Error error;
  const dpi_status s = dpi_predict(m, &rows.batch, scores.data(), n, &args, &error);
  INFO(error.text());
  REQUIRE(s == DPI_OK);
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(logits[i])) logits[i] = scores[i];  // a head without logit; a NaN score stays one
  }
  return logits;
}

/// The largest error, relative to max(1, |want|); NaN when anything is.
float error_of(const std::vector<float>& got, const std::vector<float>& want) {
  float most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const float e = std::fabs(got[i] - want[i]) / std::max(1.0f, std::fabs(want[i]));
    if (!(e <= most)) most = e;
  }
  return most;
}

void check_all(const char* small_batch) {
  for (const auto& path : bundles()) {
    CAPTURE(path.stem().string());
    const ModelPtr ref = load_as(path, "ref", {});
    const OneHotRows rows(ref.get(), kRows);
    const std::vector<float> want = logits_of(ref.get(), rows);
    for (const Mode& mode : kModes) {
      CAPTURE(mode.precision);
      const ModelPtr model =
          load_as(path, device().c_str(), {{"precision", mode.precision}, {"small_batch", small_batch}});
      CHECK(error_of(logits_of(model.get(), rows), want) <= mode.tolerance);
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
          load_as(path, device().c_str(), {{"precision", mode.precision}, {"determinism", "strict"}});
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
