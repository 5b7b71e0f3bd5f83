#include "runtime/execute/slow_calls.hpp"

#include <algorithm>
#include <utility>

#include "base/json_text.hpp"

namespace dpi {

namespace {

/// Ids of one slot, over all rows of the part that has it.
int64_t ids_of_slot(const Batch& b, const BatchPart& p, int64_t slot, int64_t slots) {
  if (p.offsets == nullptr) return p.rows;
  int64_t n = 0;
  if (b.slot_major) return p.rows > 0 ? p.offsets[(slot + 1) * p.rows] - p.offsets[slot * p.rows] : 0;
  for (int64_t r = 0; r < p.rows; ++r) n += p.offsets[r * slots + slot + 1] - p.offsets[r * slots + slot];
  return n;
}

double microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000; }

}  // namespace

SlowCalls::SlowCalls(const ResolveSchema& schema, uint64_t version)
    : schema_(schema), version_(version), ids_(kKept * schema.features.size()) {}

int64_t* SlowCalls::next(const Call& call) {
  const size_t at = kept_++ % kKept;
  calls_[at] = call;
  return &ids_[at * features()];
}

void SlowCalls::keep(const Call& call, const Batch& batch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  count_ids(batch, next(call));
}

void SlowCalls::keep(const Call& call, const int64_t* ids) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::copy_n(ids, features(), next(call));
}

void SlowCalls::count_ids(const Batch& batch, int64_t* ids) const {
  const BatchColumns& columns = schema_.columns;
  for (size_t f = 0; f < features(); ++f) {
    const ResolveSchema::Feature& feature = schema_.features[f];
    ids[f] = -1;
    if (feature.slot < 0) continue;
    if (!batch.has_shared()) {
      ids[f] = ids_of_slot(batch, batch.item, feature.slot, columns.n_slots);
    } else if (feature.shared) {
      ids[f] = ids_of_slot(batch, batch.shared, feature.part_slot, columns.n_shared_slots);
    } else {
      ids[f] = ids_of_slot(batch, batch.item, feature.part_slot, columns.n_item_slots);
    }
  }
}

std::string SlowCalls::text(const Call& call, const int64_t* ids) const {
  JsonWriter w;
  w.begin_object();
  w.field("at_ms", call.at_ms);
  w.field("code", static_cast<int32_t>(call.code));
  w.field("version", version_);
  w.field("took_us", microseconds(call.took_ns));
  w.field("wait_us", microseconds(call.waited_ns));
  for (size_t s = 0; s < StageTimes::kStages; ++s)
    w.field(std::string(StageTimes::name(s)) + "_us", microseconds(call.stages.ns(s)));
  w.field("rows", call.rows);
  w.field("shared_rows", call.shared_rows);
  w.field("tier_misses", call.misses);
  w.begin_object("ids");
  for (size_t f = 0; f < schema_.features.size(); ++f)
    if (ids[f] >= 0) w.field(schema_.features[f].spec.name, ids[f]);
  w.end_object();
  w.end_object();
  return w.take();
}

std::vector<SlowCalls::Text> SlowCalls::texts() const {
  std::vector<Text> all;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (uint64_t n = kept_ - std::min<uint64_t>(kept_, kKept); n < kept_; ++n) {
    const size_t at = n % kKept;
    all.push_back({calls_[at].at_ms, text(calls_[at], &ids_[at * features()])});
  }
  return all;
}

std::string SlowCalls::list(std::vector<Text> all) {
  std::stable_sort(all.begin(), all.end(), [](const Text& a, const Text& b) { return a.at_ms < b.at_ms; });
  std::string out = "[";
  for (size_t i = all.size() - std::min(all.size(), kKept); i < all.size(); ++i) {
    if (out.size() > 1) out += ',';
    out += all[i].json;
  }
  return out + "]";
}

}  // namespace dpi
