// Whole bundles through the C API on the device's one kernel for small batches, against `ref`: every golden
// and demo bundle, every precision, batches around the tile of 16 rows.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/bundle_runs.hpp"

namespace dpi::test::small_batch_bundles_test {
namespace {

constexpr const char* kPrecisions[] = {"fp32", "tf32", "fp16", "bf16"};
/// Largest error of a logit, relative to 1 + |logit|.
constexpr double kTolerances[] = {1e-5, 2e-3, 5e-3, 2e-2};
constexpr int kRanks[] = {1, 2, 4, 8};
constexpr int64_t kBatches[] = {1, 2, 3, 15, 16, 17, 31, 33, 64};

std::string info_json(const dpi_model* m) {
  std::string text(dpi_model_info_json(m, nullptr, 0), '\0');
  dpi_model_info_json(m, text.data(), text.size());
  return text;
}

/// Bundles with an op that the small-batch kernel does not do.
bool is_refused(const std::string& name) {
  // DCN-v1 over values that no lookup sums (a dense feature, an encoder's layer) stays an op of its own;
  // CAN has masks and products of two values of a row, which are ops of their own too.
  static const std::set<std::string> kRefused = {
      "dt_dcnmix",     "fx_dcnv2_sp_mix", "fx_dcnv2_stacked_mix", "fx_deepfm_pad_row",
      "dt_dcn_vector", "fx_dcn",          "fx_dcn_encoders",      "msweb_can"};
  return kRefused.count(name) != 0;
}

/// The largest error, relative to 1 + |want|; infinite where anything is NaN.
double relative_error(const std::vector<float>& got, const std::vector<float>& want) {
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::fabs(double{got[i]} - want[i]) / (1 + std::fabs(double{want[i]}));
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

TEST_CASE("small batch: bundles score as ref scores them") {
  int taken = 0;
  for (const auto& path : bundles_in({"tests/e2e/golden", "weights/demo"})) {
    const std::string name = path.stem().string();
    CAPTURE(name);
    const ModelPtr ref = load_bundle(path, {{"device", "ref"}});
    std::vector<OneHotRows> rows;
    std::vector<std::vector<float>> want;
    for (const int64_t n : kBatches) {
      rows.emplace_back(ref.get(), n, static_cast<uint64_t>(n));
      want.push_back(logits_of(ref.get(), rows.back()));
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
      for (size_t i = 0; i < rows.size(); ++i) {
        CAPTURE(rows[i].batch.rows);
        const std::vector<float> got = logits_of(m.get(), rows[i]);
        const double error =
            p == 2 ? relative_error(as_scored(got), as_scored(want[i])) : relative_error(got, want[i]);
        CHECK(error <= kTolerances[p]);
      }
    }
  }
  CHECK(taken >= 80);
}

}  // namespace
}  // namespace dpi::test::small_batch_bundles_test
