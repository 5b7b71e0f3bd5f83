#include "unknown_values.hpp"

namespace dpi::tool {

namespace {

constexpr int64_t kFewest = 10;  // values below which a share says nothing
constexpr double kShare = 0.95;

}  // namespace

UnknownValues::UnknownValues(const LoadedModel& model) : model_(model) {
  const auto& schema = model.schema()["features"];
  for (size_t i = 0; i < model.features().size(); ++i) {
    const dpi_feature_info& f = model.features()[i];
    if (f.slot < 0) continue;
    ++slots_;
    const std::string rule = schema[i].value("out_of_range", "error");
    if (f.has_encoder == 0 || rule == "error") continue;
    features_.push_back({model.feature_name(static_cast<int32_t>(i)), i, f.slot,
                         schema[i].value(rule == "oov" ? "oov_id" : "default_id", int64_t{0})});
  }
  const std::vector<int64_t> before = counted();
  for (size_t i = 0; i < features_.size(); ++i) features_[i].before = before[i];
}

std::vector<int64_t> UnknownValues::counted() const {
  if (features_.empty()) return {};
  const nlohmann::json counters = model_.counters();
  std::vector<int64_t> out;
  for (const Feature& f : features_) out.push_back(counters["features"][f.index]["unknown"].get<int64_t>());
  return out;
}

void UnknownValues::count(const dpi_batch& batch) {
  for (Feature& f : features_) {
    const dpi_feature_info& info = model_.features()[f.index];
    const bool split = batch.shared_offsets != nullptr, own = split && info.shared != 0;
    const int64_t* const offsets = own ? batch.shared_bag_offsets : batch.offsets;
    const int64_t rows = own ? batch.shared_rows : batch.rows;
    const int64_t slots = !split ? slots_
                          : own  ? model_.info().num_shared_slots
                                 : model_.info().num_item_slots;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t* bag = offsets + r * slots + (split ? info.part_slot : f.slot);
      f.values += bag[1] - bag[0];
    }
  }
}

std::vector<std::string> UnknownValues::notes() const {
  std::vector<std::string> out;
  const std::vector<int64_t> now = counted();
  for (size_t i = 0; i < features_.size(); ++i) {
    const Feature& f = features_[i];
    const int64_t unknown = now[i] - f.before;
    if (f.values < kFewest || static_cast<double>(unknown) < kShare * static_cast<double>(f.values)) continue;
    out.push_back("feature '" + f.name + "': " + std::to_string(unknown) + " of " + std::to_string(f.values) +
                  " raw values got the id of unknown values, " + std::to_string(f.id) +
                  "; are spelling and separators those of training?");
  }
  return out;
}

}  // namespace dpi::tool
