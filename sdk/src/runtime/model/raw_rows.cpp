#include "runtime/model/raw_rows.hpp"

#include <charconv>
#include <cmath>
#include <limits>

namespace dpi {

namespace {

Status within_row(Status s, const std::string& feature, int64_t row, int32_t index) {
  return Status(s.code(), "row " + std::to_string(row) + ", feature '" + feature + "': " + s.message())
      .at(row, index);
}

/// Text of a feature without encoder: a number as it is.
Status parse_plain(std::string_view text, bool is_slot, EncodedValue* out) {
  if (text.empty()) {
    out->kind = EncodedValue::Kind::kMissing;
    return {};
  }
  const char* end = text.data() + text.size();
  if (is_slot) {
    const auto [at, ec] = std::from_chars(text.data(), end, out->id);
    if (ec != std::errc() || at != end)
      return invalid_argument("'" + std::string(text) + "' is no id (an integer)");
    out->kind = EncodedValue::Kind::kId;
    return {};
  }
  const auto [at, ec] = std::from_chars(text.data(), end, out->value);
  if (ec != std::errc() || at != end) return invalid_argument("'" + std::string(text) + "' is no number");
  out->kind = EncodedValue::Kind::kFloat;
  return {};
}

}  // namespace

RawRows::RawRows(const Model& model) : model_(model) {
  const BatchColumns& l = model.engine().schema().columns;
  // Sized for a batch without shared part; begin_shared narrows the item part before the first row.
  parts_.item.slots = l.n_slots;
  parts_.item.columns = l.n_columns;
  parts_.shared.slots = l.n_shared_slots;
  parts_.shared.columns = l.n_shared_columns;
  for (Part* part : {&parts_.item, &parts_.shared}) {
    Part& p = *part;
    p.open_ids.resize(static_cast<size_t>(l.n_slots));
    p.open_weights.resize(static_cast<size_t>(l.n_slots));
  }
}

void RawRows::clear() {
  for (Part* part : {&parts_.item, &parts_.shared}) {
    Part& p = *part;
    p.rows = 0;
    p.dense.clear();
    p.ids.clear();
    p.weights.clear();
    p.offsets.clear();
    p.open = false;
    p.any_weight = false;
    for (auto& v : p.open_ids) v.clear();
    for (auto& v : p.open_weights) v.clear();
  }
  const BatchColumns& l = model_.engine().schema().columns;
  parts_.item.slots = l.n_slots;
  parts_.item.columns = l.n_columns;
  shared_offsets_.clear();
  has_shared_ = false;
}

void RawRows::open(Part& p) {
  close(p);
  p.open = true;
  p.dense.resize(p.dense.size() + static_cast<size_t>(p.columns), std::numeric_limits<float>::quiet_NaN());
  ++p.rows;
}

void RawRows::close(Part& p) {
  if (!p.open) return;
  p.open = false;
  if (p.offsets.empty()) p.offsets.push_back(0);
  for (int32_t s = 0; s < p.slots; ++s) {
    auto& bag = p.open_ids[s];
    p.ids.insert(p.ids.end(), bag.begin(), bag.end());
    p.weights.insert(p.weights.end(), p.open_weights[s].begin(), p.open_weights[s].end());
    p.offsets.push_back(static_cast<int64_t>(p.ids.size()));
    bag.clear();
    p.open_weights[s].clear();
  }
}

Status RawRows::begin_row() {
  open(parts_.item);
  return {};
}

Status RawRows::begin_shared() {
  if (!has_shared_) {
    if (parts_.item.rows != 0) {
      return invalid_argument(
          "the first row was begun before the first shared row; begin the shared row first");
    }
    const BatchColumns& l = model_.engine().schema().columns;
    has_shared_ = true;
    parts_.item.slots = l.n_item_slots;
    parts_.item.columns = l.n_item_columns;
  }
  close(parts_.item);
  open(parts_.shared);
  shared_offsets_.resize(static_cast<size_t>(parts_.shared.rows - 1));  // batch() may have put an end there
  shared_offsets_.push_back(parts_.item.rows);
  return {};
}

Status RawRows::check_feature(int32_t feature, Part** part, int32_t* at) {
  const auto& features = model_.engine().schema().features;
  if (feature < 0 || static_cast<size_t>(feature) >= features.size()) {
    return invalid_argument("feature index " + std::to_string(feature) + " is not in [0, " +
                            std::to_string(features.size()) + ")");
  }
  const auto& f = features[feature];
  const bool own = has_shared_ && f.shared;
  *part = &parts_[own ? RowSpace::kShared : RowSpace::kItem];
  const bool split = has_shared_;
  *at = f.spec.is_slot() ? (split ? f.part_slot : f.slot) : (split ? f.part_column : f.column);
  if ((*part)->open) return {};
  return invalid_argument(own ? "begin a shared row before setting its features"
                              : "begin a row before setting its features");
}

Status RawRows::add_id(int32_t feature, Part& p, int32_t slot, int64_t id, float weight) {
  const FeatureSpec& f = model_.engine().schema().features[feature].spec;
  if (f.kind == FeatureKind::kCategorical) {
    p.open_ids[slot].clear();
    p.open_weights[slot].clear();
  }
  p.open_ids[slot].push_back(id);
  p.open_weights[slot].push_back(weight);
  p.any_weight = p.any_weight || weight != 1.0f;
  return {};
}

Status RawRows::store(int32_t feature, Part& p, int32_t at, const EncodedValue& value, float weight) {
  const FeatureSpec& f = model_.engine().schema().features[feature].spec;
  if (!f.is_slot()) {
    float* row = p.dense.data() + p.dense.size() - static_cast<size_t>(p.columns);
    row[at] =
        value.kind == EncodedValue::Kind::kMissing ? std::numeric_limits<float>::quiet_NaN() : value.value;
    return {};
  }
  if (value.kind != EncodedValue::Kind::kMissing) return add_id(feature, p, at, value.id, weight);
  if (f.kind == FeatureKind::kCategorical) {
    p.open_ids[at].clear();
    p.open_weights[at].clear();
  }
  return {};
}

Status RawRows::set_text(int32_t feature, std::string_view text, float weight) {
  Part* p = nullptr;
  int32_t at = 0;
  DPI_RETURN_IF_ERROR(check_feature(feature, &p, &at));
  const FeatureSpec& f = model_.engine().schema().features[feature].spec;
  if (f.kind == FeatureKind::kDense) {
    return within_row(invalid_argument("a dense vector has no text form; set its floats"), f.name,
                      p->rows - 1, feature);
  }
  EncodedValue value;
  const FeatureEncoder* encoder = model_.encoder(feature);
  Status s = encoder != nullptr ? encoder->encode_text(text, &value) : parse_plain(text, f.is_slot(), &value);
  if (!s.ok()) return within_row(std::move(s), f.name, p->rows - 1, feature);
  return store(feature, *p, at, value, weight);
}

Status RawRows::set_number(int32_t feature, double number) {
  Part* p = nullptr;
  int32_t at = 0;
  DPI_RETURN_IF_ERROR(check_feature(feature, &p, &at));
  const FeatureSpec& f = model_.engine().schema().features[feature].spec;
  EncodedValue value;
  if (const FeatureEncoder* encoder = model_.encoder(feature)) {
    Status s = encoder->encode_number(number, &value);
    if (!s.ok()) return within_row(std::move(s), f.name, p->rows - 1, feature);
    return store(feature, *p, at, value, 1.0f);
  }
  if (std::isnan(number)) return store(feature, *p, at, value, 1.0f);
  if (!f.is_slot()) {
    value.kind = EncodedValue::Kind::kFloat;
    value.value = static_cast<float>(number);
    return store(feature, *p, at, value, 1.0f);
  }
  if (number != std::floor(number) || std::fabs(number) > 9007199254740992.0) {
    return within_row(invalid_argument(std::to_string(number) + " is no id (an integer below 2^53)"), f.name,
                      p->rows - 1, feature);
  }
  value.kind = EncodedValue::Kind::kId;
  value.id = static_cast<int64_t>(number);
  return store(feature, *p, at, value, 1.0f);
}

Status RawRows::set_ids(int32_t feature, const int64_t* ids, const float* weights, int64_t n) {
  Part* p = nullptr;
  int32_t at = 0;
  DPI_RETURN_IF_ERROR(check_feature(feature, &p, &at));
  const FeatureSpec& f = model_.engine().schema().features[feature].spec;
  if (!f.is_slot()) {
    return within_row(invalid_argument("ids given for a numeric feature"), f.name, p->rows - 1, feature);
  }
  if (n < 0 || (n > 0 && ids == nullptr)) return invalid_argument("ids is null or n is negative");
  if (f.kind == FeatureKind::kCategorical && n > 1) {
    return within_row(invalid_argument(std::to_string(n) + " ids where a categorical feature has one"),
                      f.name, p->rows - 1, feature);
  }
  p->open_ids[at].clear();
  p->open_weights[at].clear();
  for (int64_t i = 0; i < n; ++i) {
    DPI_RETURN_IF_ERROR(add_id(feature, *p, at, ids[i], weights != nullptr ? weights[i] : 1.0f));
  }
  return {};
}

Status RawRows::set_floats(int32_t feature, const float* values, int64_t n) {
  Part* p = nullptr;
  int32_t at = 0;
  DPI_RETURN_IF_ERROR(check_feature(feature, &p, &at));
  const FeatureSpec& f = model_.engine().schema().features[feature].spec;
  if (f.is_slot()) {
    return within_row(invalid_argument("floats given for a feature of ids"), f.name, p->rows - 1, feature);
  }
  if (n != f.dim || values == nullptr) {
    return within_row(invalid_argument(std::to_string(n) + " floats, expected " + std::to_string(f.dim)),
                      f.name, p->rows - 1, feature);
  }
  float* row = p->dense.data() + p->dense.size() - static_cast<size_t>(p->columns);
  for (int64_t i = 0; i < n; ++i) row[at + i] = values[i];
  return {};
}

Batch RawRows::batch() {
  Batch b;
  for (const RowSpace space : kRequestSpaces) {
    Part& p = parts_[space];
    close(p);
    if (space == RowSpace::kShared && !has_shared_) continue;
    BatchPart& to = space == RowSpace::kShared ? b.shared : b.item;
    to.rows = p.rows;
    to.dense = p.dense.empty() ? nullptr : p.dense.data();
    to.ids = p.ids.empty() ? nullptr : p.ids.data();
    to.offsets = p.slots > 0 && p.rows > 0 ? p.offsets.data() : nullptr;
    to.weights = p.any_weight ? p.weights.data() : nullptr;
    to.nnz = static_cast<int64_t>(p.ids.size());
  }
  if (has_shared_) {
    if (shared_offsets_.size() == static_cast<size_t>(parts_.shared.rows))
      shared_offsets_.push_back(parts_.item.rows);
    shared_offsets_.back() = parts_.item.rows;
    b.shared_offsets = shared_offsets_.data();
  }
  return b;
}

}  // namespace dpi
