// `dpi verify`: every digest of a bundle, then its golden rows on the chosen device.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "base/text.hpp"
#include "bundle/bundle.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/commands/verify_raw.hpp"
#include "sdk/tools/dpi/shared/hash_threads.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/provenance.hpp"
#include "sdk/tools/dpi/shared/sha256.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

struct Comparison {
  double worst = 0;  // |ours - golden| / max(1, |golden|) where it is most of its tolerance; NaN stays NaN
  double tolerance = 0;  // there
  int64_t row = -1;
  int64_t head = -1;
  int64_t compared = 0;
  int64_t failed = 0;
};

/// The tolerances for scores: one for all, or one for each element.
struct Tolerances {
  double general = 0;
  const std::vector<float>& own;
  double at(size_t i) const { return GoldenRows::tolerance_at(own, i, general); }
};

/// NaN on both sides is a head without that value (logits); on one side it fails.
Comparison compare(const std::vector<float>& golden, const std::vector<float>& ours, size_t heads,
                   const Tolerances& tolerances) {
  Comparison c;
  double most = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    if (std::isnan(golden[i]) && std::isnan(ours[i])) continue;
    ++c.compared;
    const double error = std::fabs(static_cast<double>(ours[i]) - golden[i]) /
                         std::max(1.0, std::fabs(static_cast<double>(golden[i])));
    const double tolerance = tolerances.at(i), share = error == 0 ? 0 : error / tolerance;
    if (!(error <= tolerance)) ++c.failed;
    if (c.row >= 0 && (share <= most || std::isnan(most))) continue;
    most = share;
    c.worst = error;
    c.tolerance = tolerance;
    c.row = static_cast<int64_t>(i / heads);
    c.head = static_cast<int64_t>(i % heads);
  }
  return c;
}

dpi_batch batch_of(const GoldenRows& g) {
  const auto data = [](const auto& v) { return v.empty() ? nullptr : v.data(); };
  dpi_batch b{};
  b.struct_size = sizeof b;
  b.rows = g.rows;
  b.dense = data(g.dense);
  b.ids = data(g.ids);
  b.offsets = g.has_offsets ? data(g.offsets) : nullptr;
  b.weights = data(g.weights);
  b.nnz = static_cast<int64_t>(g.ids.size());
  if (g.shared_rows == 0) return b;
  b.shared_rows = g.shared_rows;
  b.shared_offsets = data(g.shared_offsets);
  b.shared_dense = data(g.shared_dense);
  b.shared_ids = data(g.shared_ids);
  b.shared_bag_offsets = data(g.shared_bag_offsets);
  b.shared_weights = data(g.shared_weights);
  b.shared_nnz = static_cast<int64_t>(g.shared_ids.size());
  return b;
}

std::string sha256_of(const std::string& path) {
  std::FILE* f = std::fopen(path.c_str(), "rb");
  if (f == nullptr) throw CommandError(kExitBadBundle, path + ": cannot be read");
  Sha256 hash;
  std::vector<char> buffer(size_t{1} << 20);
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), f)) > 0;) hash.add(buffer.data(), n);
  const bool failed = std::ferror(f) != 0;
  std::fclose(f);
  if (failed) throw CommandError(kExitBadBundle, path + ": cannot be read to its end");
  return hash.finish();
}

Json comparison_json(const LoadedModel& model, const Comparison& c) {
  Json j;
  j["compared"] = c.compared;
  j["failed"] = c.failed;
  j["worst"] = std::isfinite(c.worst) ? Json(c.worst) : Json();
  if (c.row >= 0) {
    j["tolerance"] = c.tolerance;
    j["worst_row"] = c.row;
    j["worst_head"] = model.head_name(static_cast<int32_t>(c.head));
  }
  return j;
}

/// Rows of which float32 leaves little: as the exporter's golden.py names them.
Json loose_rows(const GoldenRows& golden, size_t heads, double general) {
  Json rows = Json::array();
  const double limit = std::max(1e-3, 10 * general);
  for (int64_t r = 0; r < golden.rows; ++r) {
    double most = 0;
    for (size_t h = 0; h < heads; ++h) {
      const size_t i = static_cast<size_t>(r) * heads + h;
      for (const auto* own : {&golden.value_tolerance, &golden.logit_tolerance}) {
        if (const double t = GoldenRows::tolerance_at(*own, i, 0); t > most) most = t;  // NaN: no logit
      }
    }
    if (most > limit) rows.push_back({{"row", r}, {"tolerance", most}});
  }
  return rows;
}

/// Adds "golden" to *j; true when every value agrees.
bool verify_golden(const VerifyArgs& args, const LoadedModel& model, const GoldenRows& golden, double general,
                   Json* j) {
  const size_t heads = static_cast<size_t>(model.info().num_heads);
  const size_t n = static_cast<size_t>(golden.rows) * heads;
  std::vector<float> value(n, NAN), logit(n, NAN);
  const dpi_batch batch = batch_of(golden);
  dpi_run_options options{};
  options.struct_size = sizeof options;
  options.logits = logit.data();
  options.logits_len = n;
  dpi_error e{};
  e.struct_size = sizeof e;
  const dpi_status status = dpi_predict(model.get(), &batch, value.data(), n, &options, &e);
  if (status == DPI_E_DEVICE) throw CommandError(kExitDevice, e.message);
  if (status != DPI_OK)
    throw CommandError(kExitVerifyFailed, args.bundle + ": golden rows are refused: " + e.message);
  const double tolerance = args.tolerance > 0 ? args.tolerance : general;
  const std::vector<float> none;
  const auto held_to = [&](const std::vector<float>& own) {
    return Tolerances{tolerance, args.tolerance > 0 ? none : own};
  };
  const Comparison values = compare(golden.value, value, heads, held_to(golden.value_tolerance));
  const Comparison logits = compare(golden.logit, logit, heads, held_to(golden.logit_tolerance));
  (*j)["golden"] = {{"rows", golden.rows}, {"tolerance", tolerance}, {"device", model.device_text()}};
  (*j)["golden"]["loose_rows"] = loose_rows(golden, heads, general);
  (*j)["golden"]["scores"] = comparison_json(model, values);
  (*j)["golden"]["logits"] = comparison_json(model, logits);
  return values.failed == 0 && logits.failed == 0;
}

/// Adds "golden.raw" to *j (null: the bundle has no raw cells); true when every cell agrees.
bool verify_raw(const LoadedModel& model, const Manifest& manifest, const GoldenRows& golden,
                const GoldenRaw& raw, Json* j) {
  Json& out = (*j)["golden"]["raw"];
  if (raw.rows == 0) return true;
  const RawComparison c = compare_raw(model, manifest, golden, raw);
  out = {{"rows", c.rows}, {"compared", c.cells}, {"failed", c.failed}};
  if (c.failed != 0) out["first"] = c.first;
  const auto own = held_to_themselves(manifest.provenance);
  Json names = Json::array();
  int64_t failed = 0;
  for (size_t i = 0; i < raw.features.size(); ++i) {
    if (own.count(raw.features[i]) == 0) continue;
    names.push_back(raw.features[i]);
    failed += c.failed_of[i];
  }
  const auto cells = static_cast<int64_t>(names.size()) * c.rows;
  if (cells != 0) out["made_by_exporter"] = {{"features", names}, {"compared", cells}, {"failed", failed}};
  return c.failed == 0;
}

/// "34 of 36 in 12 rows"
std::string agreed_text(int64_t compared, int64_t failed, const Json& rows) {
  return std::to_string(compared - failed) + " of " + std::to_string(compared) + " in " + rows.dump() +
         " rows";
}

/// Cells whose ids training made, apart from those whose ids the exporter made from the encoders.
void print_raw(const Json& raw) {
  int64_t compared = raw["compared"], failed = raw["failed"];
  const bool any = raw.contains("made_by_exporter");
  const Json own = any ? raw["made_by_exporter"] : Json();
  if (any) compared -= own["compared"].get<int64_t>(), failed -= own["failed"].get<int64_t>();
  if (compared != 0)
    print_line(stdout, "golden    raw cells: %s are encoded as in training",
               agreed_text(compared, failed, raw["rows"]).c_str());
  if (any) {
    std::string names;
    for (const Json& name : own["features"])
      names += (names.empty() ? "" : ", ") + in_quotes(name.get<std::string>());
    print_line(stdout, "golden    raw cells: %s repeat what the exporter's encoders gave, of %s",
               agreed_text(own["compared"], own["failed"], raw["rows"]).c_str(), names.c_str());
    print_line(stdout,
               "golden    whether training encoded these so is not checked: export with raw= and rows=");
  }
  if (raw.contains("first"))
    print_line(stdout, "golden    raw cells: %s", raw["first"].get<std::string>().c_str());
}

std::string number_text(const Json& number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", number.get<double>());
  return text;
}

void print_verdict(const Json& j) {
  print_line(stdout, "digests   ok, %s in %s data sets", bytes_text(j["bytes"]).c_str(),
             j["data_sets"].dump().c_str());
  print_line(stdout, "hashes    %s",
             j["hashes"] == true ? "ok (BLAKE2b-256)" : "not checked: this build has no libsodium");
  for (const Json& id : j["signed_by"]) print_line(stdout, "signed by %s", id.get<std::string>().c_str());
  if (j["signature_checked"] == true)
    print_line(stdout, "signature ok, by the required key");
  else if (!j["signed_by"].empty())
    print_line(stdout, "signature not checked: --option require_signature=FILE.pub does");
  if (j.contains("sha256")) print_line(stdout, "sha256    %s", j["sha256"].get<std::string>().c_str());
  if (j["golden"].is_null()) {
    print_line(stdout, "golden    the bundle has no golden rows");
    return;
  }
  for (const char* what : {"scores", "logits"}) {
    const Json& c = j["golden"][what];
    if (c["compared"] == 0) continue;
    char worst[32] = "NaN";
    if (!c["worst"].is_null()) std::snprintf(worst, sizeof worst, "%.1e", c["worst"].get<double>());
    print_line(stdout,
               "golden    %s: %s of %s agree, largest error %s (row %s, head '%s'), tolerance %s, on %s",
               what, std::to_string(c["compared"].get<int64_t>() - c["failed"].get<int64_t>()).c_str(),
               c["compared"].dump().c_str(), worst, c["worst_row"].dump().c_str(),
               c["worst_head"].get<std::string>().c_str(), number_text(c["tolerance"]).c_str(),
               j["golden"]["device"].get<std::string>().c_str());
  }
  for (const Json& row : j["golden"]["loose_rows"]) {
    print_line(stdout, "golden    row %s is ill-conditioned in float32: its tolerance is %s",
               row["row"].dump().c_str(), number_text(row["tolerance"]).c_str());
  }
  const Json& raw = j["golden"]["raw"];
  if (raw.is_null()) {
    print_line(stdout, "golden    no raw cells, so the encoders are not checked");
    return;
  }
  print_raw(raw);
}

}  // namespace

int verify(const VerifyArgs& args) {
  HashThreads threads;
  BundleOptions options = threads.checking();
  for (const auto& [key, value] : args.common.pairs()) {
    if (key == "require_signature") options.require_signature = value;
  }
  Json j;
  j["bundle"] = args.bundle;
  GoldenRows golden;
  GoldenRaw raw;
  Manifest manifest;
  double tolerance = 0;
  {
    auto bundle = take(Bundle::open(args.bundle, options));
    Progress progress("checking digests");
    check(bundle->verify_all([&](uint64_t done, uint64_t total) { progress.update(done, total); }), true);
    j["bytes"] = bundle->file_bytes();
    j["data_sets"] = bundle->data_sets().size();
    j["hashes"] = bundle->hashes_checked();
    j["signed_by"] = Json::array();
    for (const Signature& s : bundle->signatures()) j["signed_by"].push_back(hex_bytes(s.key));
    j["signature_checked"] = !options.require_signature.empty();
    manifest = bundle->manifest();
    if (manifest.golden.rows > 0) {
      golden = take(bundle->read_golden());
      raw = take(bundle->read_golden_raw());
    }
    tolerance = manifest.golden.tolerance;
  }
  if (args.sha256) j["sha256"] = sha256_of(args.bundle);
  const LoadedModel model(args.bundle, args.common);
  model.note_device();
  j["golden"] = Json();
  bool passed = true;
  if (golden.rows != 0) {
    passed = verify_golden(args, model, golden, tolerance, &j);
    passed = verify_raw(model, manifest, golden, raw, &j) && passed;
  }
  j["passed"] = passed;
  if (args.json) {
    print_json(stdout, j);
  } else {
    print_verdict(j);
    print_line(stdout, "%s", passed ? "verified" : "FAILED");
  }
  return passed ? kExitOk : kExitVerifyFailed;
}

}  // namespace dpi::tool
