// Whole bundles through the C API on the device's one kernel for small batches, against `ref`: every golden
// and demo bundle, every precision, batches around the tile of 16 rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "capi/capi_support.hpp"

namespace dpi::test {
namespace {

constexpr const char* kPrecisions[] = {"fp32", "tf32", "fp16", "bf16"};
/// Largest error of a logit, relative to 1 + |logit|.
constexpr double kTolerances[] = {1e-5, 2e-3, 5e-3, 2e-2};
constexpr int kRanks[] = {1, 2, 4, 8};
constexpr int64_t kBatches[] = {1, 2, 3, 15, 16, 17, 31, 33, 64};

std::vector<std::filesystem::path> bundles() {
  std::vector<std::filesystem::path> found;
  for (const char* folder : {"/tests/e2e/golden", "/weights/demo"}) {
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + folder)) {
      if (entry.path().extension() == ".h5") found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

ModelPtr load_bundle(const std::filesystem::path& path, const Pairs& pairs) {
  Error e;
  dpi_model* m = nullptr;
  const dpi_status s = dpi_model_load(path.c_str(), options(pairs).get(), &m, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  return ModelPtr(m);
}

std::string info_json(const dpi_model* m) {
  std::string text(dpi_model_info_json(m, nullptr, 0), '\0');
  dpi_model_info_json(m, text.data(), text.size());
  return text;
}

/// Logits, and scores for heads without one.
std::vector<float> logits(dpi_model* m, const OneHotRows& rows) {
  const size_t n = static_cast<size_t>(rows.batch.rows) * rows.heads;
  std::vector<float> out(n, -1.0f), logit(n, -1.0f);
  dpi_run_options run{};
  run.struct_size = sizeof(run);
  run.logits = logit.data();
  run.logits_len = n;
  Error e;
  const dpi_status s = dpi_predict(m, &rows.batch, out.data(), n, &run, &e);
  INFO(e.text());
  REQUIRE(s == DPI_OK);
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(logit[i])) logit[i] = out[i];
  }
  return logit;
}

double worst_error(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::fabs(double{got[i]} - want[i]) / (1 + std::fabs(double{want[i]}));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

/// Bundles with an op that the small-batch kernel does not do.
bool is_refused(const std::string& name) {
  static const std::set<std::string> kRefused = {"dt_dcnmix", "fx_dcnv2_sp_mix", "fx_dcnv2_stacked_mix",
                                                 "fx_deepfm_pad_row"};
  return kRefused.count(name) != 0;
}

/// An empty bag of this model is -1e9 in each column, which float16 does not hold.
bool fits(const std::string& name, const char* precision) {
  return name != "dt_wdl_max" || std::string(precision) != "fp16";
}

TEST_CASE("small batch: bundles score as ref scores them") {
  int taken = 0;
  for (const auto& path : bundles()) {
    const std::string name = path.stem().string();
    CAPTURE(name);
    const ModelPtr ref = load_bundle(path, {{"device", "ref"}});
    std::vector<OneHotRows> rows;
    std::vector<std::vector<float>> want;
    for (const int64_t n : kBatches) {
      rows.emplace_back(ref.get(), n, static_cast<uint64_t>(n));
      want.push_back(logits(ref.get(), rows.back()));
    }
    for (size_t p = 0; p < 4; ++p) {
      setenv("DPI_EMU_RANKS", std::to_string(kRanks[static_cast<size_t>(taken) % 4]).c_str(), 1);
      const ModelPtr m =
          load_bundle(path, {{"device", device()}, {"precision", kPrecisions[p]}, {"small_batch", "on"}});
      const bool chosen = info_json(m.get()).find("chosen: small_batch") != std::string::npos;
      CAPTURE(kPrecisions[p]);
      CHECK_MESSAGE(chosen != is_refused(name), info_json(m.get()));
      if (!chosen) break;
      ++taken;
      for (size_t i = 0; fits(name, kPrecisions[p]) && i < rows.size(); ++i) {
        CAPTURE(rows[i].batch.rows);
        CHECK(worst_error(logits(m.get(), rows[i]), want[i]) <= kTolerances[p]);
      }
    }
  }
  CHECK(taken >= 80);
}

}  // namespace
}  // namespace dpi::test
