#include "sdk/tools/dpi/csv/value_counts.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 4> kCauses = {"unknown", "out_of_range", "unparsable", "missing"};

int64_t sum_of(const Json& feature) {
  int64_t sum = 0;
  for (const char* cause : kCauses) sum += feature[cause].get<int64_t>();
  return sum;
}

/// Is `part` half of `whole` or more?
bool is_half(int64_t part, int64_t whole) { return part > 0 && part >= whole - part; }

std::string line_of(const Json& f) {
  std::string text = "feature " + in_quotes(f["name"].get<std::string>()) + ":";
  const char* before = " ";
  for (const char* cause : kCauses) {
    if (f[cause] == 0) continue;
    const bool first = *before == ' ';
    text += before + f[cause].dump() + (first ? " of " + f["values"].dump() + " values " : " ") +
            (cause == kCauses[1] ? "out of range" : cause);
    before = ", ";
  }
  return text;
}

/// Values of a feature in a batch as dpi_rows gives it.
int64_t values_in(const dpi_batch& batch, const dpi_feature_info& f, const dpi_model_info& info,
                  int32_t slots) {
  const bool split = batch.shared_offsets != nullptr, own = split && f.shared != 0;
  const int64_t rows = own ? batch.shared_rows : batch.rows;
  if (f.slot < 0) return rows * f.dim;
  if (f.kind == DPI_FEATURE_CATEGORICAL) return rows;
  const int64_t* const offsets = own ? batch.shared_bag_offsets : batch.offsets;
  const int64_t width = !split ? slots : own ? info.num_shared_slots : info.num_item_slots;
  int64_t values = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t* bag = offsets + r * width + (split ? f.part_slot : f.slot);
    values += bag[1] - bag[0];
  }
  return values;
}

}  // namespace

ValueCounts::ValueCounts(const LoadedModel& model) : model_(model) {
  const auto& schema = model.schema()["features"];
  const nlohmann::json counters = model.counters();
  for (size_t i = 0; i < model.features().size(); ++i) {
    if (model.features()[i].slot >= 0) ++slots_;
    const std::string rule = schema[i].value("out_of_range", "error");
    const std::string id =
        rule == "error"
            ? ""
            : std::to_string(schema[i].value(rule == "oov" ? "oov_id" : "default_id", int64_t{0}));
    features_.push_back({model.feature_name(static_cast<int32_t>(i)), id, counters["features"][i], 0});
  }
}

void ValueCounts::count(const dpi_batch& batch) {
  for (size_t i = 0; i < features_.size(); ++i)
    features_[i].values += values_in(batch, model_.features()[i], model_.info(), slots_);
}

Json ValueCounts::json() const {
  Json out = Json::array();
  const nlohmann::json counters = model_.counters();
  for (size_t i = 0; i < features_.size(); ++i) {
    const Feature& f = features_[i];
    Json one;
    one["name"] = f.name;
    one["values"] = f.values;
    for (const char* cause : kCauses) {
      const auto n = counters["features"][i][cause].get<int64_t>() - f.before[cause].get<int64_t>();
      one[cause] = n;
    }
    // A bag comes without its missing elements.
    if (model_.features()[i].kind == DPI_FEATURE_SEQUENCE)
      one["values"] = f.values + one["missing"].get<int64_t>();
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<std::string> ValueCounts::warnings() const {
  std::vector<std::string> out;
  const Json counts = json();
  for (size_t i = 0; i < features_.size(); ++i) {
    const std::string start = "feature '" + features_[i].name + "': ",
                      of = " of " + counts[i]["values"].dump();
    for (const char* cause : kCauses) {
      if (!is_half(counts[i][cause], counts[i]["values"])) continue;
      std::string text = start + counts[i][cause].dump() + of;
      if (cause == kCauses[0] && !features_[i].unknown_id.empty()) {
        text += " raw values got the id of unknown values, " + features_[i].unknown_id +
                "; are spelling and separators those of training?";
      } else if (cause == kCauses[3]) {
        text += " values are missing; is the column filled as in training?";
      } else {
        text += std::string(" values are ") + (cause == kCauses[1] ? "out of range" : cause) +
                "; are they those of training?";
      }
      out.push_back(std::move(text));
    }
  }
  return out;
}

std::vector<std::string> count_lines(const Json& counts, size_t most) {
  std::vector<Json> any;
  for (const Json& f : counts) {
    if (sum_of(f) > 0) any.push_back(f);
  }
  const auto share = [](const Json& f) {
    return static_cast<double>(sum_of(f)) /
           static_cast<double>(std::max<int64_t>(f["values"].get<int64_t>(), 1));
  };
  std::stable_sort(any.begin(), any.end(), [&](const Json& a, const Json& b) { return share(a) > share(b); });
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(any.size(), most); ++i) out.push_back(line_of(any[i]));
  if (any.size() > most)
    out.push_back("and " + std::to_string(any.size() - most) + " more features; --summary --json lists all");
  return out;
}

}  // namespace dpi::tool
