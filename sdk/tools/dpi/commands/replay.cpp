// `dpi replay`: recorded requests (weights/RECORD.md) scored again, against the scores that were given then.
#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "runtime/record/record_reader.hpp"
#include "runtime/record/record_schema.hpp"
#include "sdk/tools/dpi/commands/command.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/metrics.hpp"
#include "sdk/tools/dpi/shared/planned.hpp"
#include "sdk/tools/dpi/shared/score_shift.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kWarmUpRows = 64;

/// The request as the C API takes it, over the same arrays.
dpi_batch batch_of(const Batch& b) {
  dpi_batch to{};
  to.struct_size = sizeof to;
  to.rows = b.item.rows;
  to.dense = b.item.dense;
  to.ids = b.item.ids;
  to.offsets = b.item.offsets;
  to.weights = b.item.weights;
  to.nnz = b.item.nnz;
  to.layout = b.slot_major ? DPI_LAYOUT_SLOT_MAJOR : DPI_LAYOUT_ROW_MAJOR;
  if (!b.has_shared()) return to;
  to.shared_rows = b.shared.rows;
  to.shared_dense = b.shared.dense;
  to.shared_ids = b.shared.ids;
  to.shared_bag_offsets = b.shared.offsets;
  to.shared_weights = b.shared.weights;
  to.shared_nnz = b.shared.nnz;
  to.shared_offsets = b.shared_offsets;
  return to;
}

/// Where a row is: the first rows of requests, in order.
struct Place {
  size_t row;
  int64_t request;
  uint64_t at;
};

class Replay {
 public:
  Replay(const ReplayArgs& args, RecordReader* reader)
      : args_(args), reader_(reader), schema_(schema_of(args)), model_(args.bundle, args.common) {
    model_.note_device();
    scores_.resize(static_cast<size_t>(model_.info().num_heads));
    error_.struct_size = sizeof error_;
    if (dpi_model_warm_up(model_.get(), kWarmUpRows, &error_) != DPI_OK)
      throw CommandError(kExitOther, error_.message);
  }

  void run() {
    Progress progress("replaying " + args_.file);
    while (next()) {
      score();
      progress.update(reader_->bytes_read(), reader_->bytes());
    }
    if (requests_ == 0) throw CommandError(kExitBadInput, args_.file + ": it holds no whole request");
  }

  Json json();
  std::string over_limit(const Json& heads) const;

 private:
  struct Scores {
    std::vector<float> recorded, replayed;
  };

  /// The schema's text; the bundle's content hash.
  static std::pair<std::string, ContentHash> schema_of(const ReplayArgs& args) {
    const auto bundle = open_bundle(args.bundle, parse_options(args.common));
    return {record_schema(*bundle), bundle->content_hash()};
  }

  bool next() {
    auto more = reader_->next();
    if (!more.ok()) throw CommandError(kExitBadInput, more.status().message());
    return *more;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw CommandError(kExitBadInput, reader_->place() + ": " + why);
  }
  void check_fits();
  void score();

  const ReplayArgs& args_;
  RecordReader* const reader_;
  const std::pair<std::string, ContentHash> schema_;
  const LoadedModel model_;
  dpi_error error_{};
  std::vector<float> out_;
  std::vector<Scores> scores_;  // of each head
  std::vector<Place> places_;
  std::vector<int64_t> of_bundle_, rows_of_bundle_;  // requests and rows
  std::vector<double> recorded_us_, replayed_us_;
  int64_t requests_ = 0;
  int64_t same_rows_ = 0;  // all heads have the same bits
};

/// A schema's digest says what values mean; counts must fit too, for nobody vouches for the file.
void Replay::check_fits() {
  const auto& h = reader_->request().head;
  const RecordedBundle& b = reader_->bundles()[h.bundle];
  if (b.schema_digest != record_schema_digest(schema_.first))
    refuse("it is of a bundle with another schema (version " + std::to_string(b.number) + ", bundle " +
           hex_bytes(b.bundle).substr(0, 16) + ", schema " + hex_text(b.schema_digest).substr(2) + "); " +
           args_.bundle + " has schema " + hex_text(record_schema_digest(schema_.first)).substr(2));
  const dpi_model_info& m = model_.info();
  const bool shared = (h.flags & record_layout::kShared) != 0;
  const auto is = [](uint32_t a, int32_t b) { return int64_t{a} == int64_t{b}; };
  const bool fits =
      is(h.heads, m.num_heads) && is(h.slots, shared ? m.num_item_slots : m.num_slots) &&
      is(h.columns, shared ? m.item_dense_dim : m.dense_dim) &&
      (!shared || (is(h.shared_slots, m.num_shared_slots) && is(h.shared_columns, m.shared_dense_dim)));
  if (!fits) refuse("its columns are not those of its schema");
}

void Replay::score() {
  check_fits();
  const RecordedRequest& r = reader_->request();
  const auto heads = static_cast<size_t>(model_.info().num_heads);
  const auto rows = static_cast<size_t>(r.head.rows);
  out_.resize(rows * heads);
  const dpi_batch batch = batch_of(r.batch);
  const uint64_t began = monotonic_ns();
  if (dpi_predict(model_.get(), &batch, out_.data(), out_.size(), nullptr, &error_) != DPI_OK)
    throw CommandError(exit_of(error_.code, false), reader_->place() + ": " + error_.message);
  replayed_us_.push_back(static_cast<double>(monotonic_ns() - began) * 1e-3);
  recorded_us_.push_back(static_cast<double>(r.head.took_ns) * 1e-3);
  places_.push_back({scores_[0].recorded.size(), r.number, r.at});
  for (size_t row = 0; row < rows; ++row) {
    bool same = true;
    for (size_t h = 0; h < heads; ++h) {
      const float before = r.scores[row * heads + h], after = out_[row * heads + h];
      if (!std::isfinite(before) || !std::isfinite(after))
        refuse("the score of head '" + model_.head_name(static_cast<int32_t>(h)) + "' in row " +
               std::to_string(row) + " is not finite");
      same = same && std::bit_cast<uint32_t>(before) == std::bit_cast<uint32_t>(after);
      scores_[h].recorded.push_back(before);
      scores_[h].replayed.push_back(after);
    }
    same_rows_ += same ? 1 : 0;
  }
  of_bundle_.resize(reader_->bundles().size());
  rows_of_bundle_.resize(reader_->bundles().size());
  ++of_bundle_[r.head.bundle];
  rows_of_bundle_[r.head.bundle] += r.head.rows;
  ++requests_;
}

Json times_json(std::vector<double> us) {
  return {{"p50", percentile(&us, 0.50)}, {"p99", percentile(&us, 0.99)}};
}

Json Replay::json() {
  Json j = {{"file", args_.file},
            {"bundle", args_.bundle},
            {"model", model_.schema().value("name", "")},
            {"device", model_.device_text()},
            {"requests", requests_},
            {"rows", scores_[0].recorded.size()},
            {"same_rows", same_rows_},
            {"ended", reader_->is_ended()}};
  if (!reader_->is_ended()) {
    j["whole_bytes"] = reader_->bytes_read();
    j["left_over_bytes"] = reader_->left_over();
  }
  j["recorded"] = Json::array();
  for (size_t b = 0; b < of_bundle_.size(); ++b) {
    const RecordedBundle& from = reader_->bundles()[b];
    const auto not_deep = [](int depth, Json::parse_event_t, const Json&) { return depth < 8; };
    const Json info = Json::parse(from.info, not_deep, false);
    j["recorded"].push_back({{"version", from.number},
                             {"bundle", hex_bytes(from.bundle)},
                             {"same_bundle", from.bundle == schema_.second},
                             {"requests", of_bundle_[b]},
                             {"rows", rows_of_bundle_[b]},
                             {"scored", info.is_discarded() ? Json(from.info) : info}});
  }
  j["heads"] = Json::array();
  for (size_t h = 0; h < scores_.size(); ++h) {
    const ScoreShift s = score_shift(scores_[h].recorded, scores_[h].replayed);
    const auto behind = std::upper_bound(places_.begin(), places_.end(), s.largest_row,
                                         [](size_t row, const Place& p) { return row < p.row; });
    const Place& where = *(behind - 1);
    j["heads"].push_back({{"name", model_.head_name(static_cast<int32_t>(h))},
                          {"mean_recorded", s.mean_before},
                          {"mean_replayed", s.mean_after},
                          {"shift",
                           {{"mean", s.mean},
                            {"median", s.median},
                            {"p99", s.p99},
                            {"largest", s.largest},
                            {"request", where.request},
                            {"byte", where.at},
                            {"row", s.largest_row - where.row}}}});
  }
  j["latency_us"] = {{"recorded", times_json(recorded_us_)}, {"replayed", times_json(replayed_us_)}};
  return j;
}

/// Nothing: no score moved by more than allowed.
std::string Replay::over_limit(const Json& heads) const {
  for (const Json& head : heads) {
    const Json& s = head["shift"];
    if (!args_.limited() || s["largest"].get<double>() <= args_.limit) continue;
    return args_.file + ": request " + s["request"].dump() + " at byte " + s["byte"].dump() + ": head '" +
           head["name"].get<std::string>() + "' shifted by " + s["largest"].dump() + " in row " +
           s["row"].dump() + ", --limit is " + Json(args_.limit).dump();
  }
  return "";
}

std::string shown(const Json& number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", number.get<double>());
  return text;
}

void print(const Json& j) {
  print_line(stdout, "%s: %s requests, %s rows", j["file"].get<std::string>().c_str(),
             count_text(j["requests"]).c_str(), count_text(j["rows"]).c_str());
  if (!j["ended"].get<bool>())
    print_line(stdout, "  not ended: whole up to byte %s, %s bytes behind it",
               j["whole_bytes"].dump().c_str(), j["left_over_bytes"].dump().c_str());
  for (const Json& b : j["recorded"]) {
    const Json& scored = b["scored"];
    const std::string how = scored.is_object() && scored.contains("backend") && scored["backend"].is_string()
                                ? " on " + scored["backend"].get<std::string>()
                                : "";
    print_line(stdout, "  version %s (%s)%s: %s requests%s", b["version"].dump().c_str(),
               b["bundle"].get<std::string>().substr(0, 16).c_str(), how.c_str(),
               count_text(b["requests"]).c_str(), b["same_bundle"].get<bool>() ? ", of this bundle" : "");
  }
  print_line(stdout, "%s: %s on %s", j["bundle"].get<std::string>().c_str(),
             j["model"].get<std::string>().c_str(), j["device"].get<std::string>().c_str());
  print_line(stdout, "rows with the same bits: %s of %s", count_text(j["same_rows"]).c_str(),
             count_text(j["rows"]).c_str());
  for (const Json& head : j["heads"]) {
    const Json& s = head["shift"];
    print_line(stdout, "head %s", in_quotes(head["name"].get<std::string>()).c_str());
    print_line(stdout, "  mean   %s recorded, %s replayed", shown(head["mean_recorded"]).c_str(),
               shown(head["mean_replayed"]).c_str());
    print_line(stdout, "  shift  mean %s, median %s, p99 %s, largest %s (request %s at byte %s, row %s)",
               shown(s["mean"]).c_str(), shown(s["median"]).c_str(), shown(s["p99"]).c_str(),
               shown(s["largest"]).c_str(), s["request"].dump().c_str(), s["byte"].dump().c_str(),
               s["row"].dump().c_str());
  }
  for (const char* which : {"recorded", "replayed"}) {
    const Json& t = j["latency_us"][which];
    print_line(stdout, "latency %s  p50 %s us, p99 %s us", which, shown(t["p50"]).c_str(),
               shown(t["p99"]).c_str());
  }
}

}  // namespace

int replay(const ReplayArgs& args) {
  auto source = ByteSource::open_file(args.file);
  if (!source.ok()) throw CommandError(kExitBadInput, args.file + ": " + source.status().message());
  auto reader = RecordReader::open(std::move(source).value(), args.file);
  if (!reader.ok()) throw CommandError(kExitBadInput, reader.status().message());
  Replay replayed(args, reader->get());
  replayed.run();
  Json j = replayed.json();
  const std::string over = replayed.over_limit(j["heads"]);
  if (args.limited()) j["within_limit"] = over.empty();
  if (args.json) {
    print_json(stdout, j);
  } else {
    print(j);
  }
  if (!over.empty()) throw CommandError(kExitVerifyFailed, over);
  return kExitOk;
}

}  // namespace dpi::tool
