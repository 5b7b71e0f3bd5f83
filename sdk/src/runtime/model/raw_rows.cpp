#include "runtime/model/raw_rows.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "encode/plain.hpp"

namespace dpi {

namespace {

constexpr size_t kDigits = 24;  // of a 64-bit integer with its sign

template <class Integer>
std::string_view digits_of(Integer value, char* buffer) {
  return {buffer, static_cast<size_t>(std::to_chars(buffer, buffer + kDigits, value).ptr - buffer)};
}

/// `more` elements can be added to v without memory.
template <class T>
void make_room(std::vector<T>& v, size_t more) {
  if (v.capacity() - v.size() < more) v.reserve(std::max(v.size() + more, 2 * v.capacity()));
}

}  // namespace

struct RawRows::Undo {
  explicit Undo(const Target& p)
      : target(p),
        before(p.spec->kind == FeatureKind::kSequence ? p.part->open_ids[p.at].size() : kNothing) {}
  ~Undo() {
    if (before == kNothing) return;
    target.part->open_ids[target.at].resize(before);
    target.part->open_weights[target.at].resize(before);
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  void keep() { before = kNothing; }

  static constexpr size_t kNothing = SIZE_MAX;
  const Target& target;
  size_t before;
};

Result<std::unique_ptr<RawRows>> RawRows::create(Model& model) {
  std::unique_ptr<RawRows> rows(new RawRows(model));
  DPI_ASSIGN_OR_RETURN(rows->counters_, model.make_raw_counters());
  return rows;
}

RawRows::RawRows(Model& model) : model_(model) {
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

void RawRows::make_room_to_close(Part& p) {
  if (!p.open) return;
  size_t ids = 0;
  for (const auto& bag : p.open_ids) ids += bag.size();
  make_room(p.ids, ids);
  make_room(p.weights, ids);
  make_room(p.offsets, static_cast<size_t>(p.slots) + 1);
}

void RawRows::make_room_to_open(Part& p) {
  make_room_to_close(p);
  make_room(p.dense, static_cast<size_t>(p.columns));
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
  make_room_to_open(parts_.item);
  open(parts_.item);
  return {};
}

Status RawRows::begin_shared() {
  if (!has_shared_ && parts_.item.rows != 0) {
    return invalid_argument(
        "the first row was begun before the first shared row; begin the shared row first");
  }
  make_room_to_close(parts_.item);
  make_room_to_open(parts_.shared);
  make_room(shared_offsets_, 1);
  if (!has_shared_) {
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

Status RawRows::find(int32_t feature, Target* target) {
  const auto& features = model_.engine().schema().features;
  if (feature < 0 || static_cast<size_t>(feature) >= features.size()) {
    return invalid_argument("feature index " + std::to_string(feature) + " is not in [0, " +
                            std::to_string(features.size()) + ")");
  }
  const auto& f = features[feature];
  const bool split = has_shared_, own = split && f.shared;
  *target = {feature, &f.spec, &parts_[own ? RowSpace::kShared : RowSpace::kItem],
             f.spec.is_slot() ? (split ? f.part_slot : f.slot) : (split ? f.part_column : f.column)};
  if (target->part->open) return {};
  return invalid_argument(own ? "begin a shared row before setting its features"
                              : "begin a row before setting its features");
}

Status RawRows::refuse(const Target& target, const Status& why) const {
  const int64_t row = target.part->rows - 1;
  const char* what = target.part == &parts_[RowSpace::kShared] ? "shared row " : "row ";
  return Status(why.code(),
                what + std::to_string(row) + ", feature '" + target.spec->name + "': " + why.message())
      .at(row, target.feature);
}

Status RawRows::check_takes_one(const Target& target) const {
  if (target.spec->kind != FeatureKind::kDense) return {};
  return refuse(target, invalid_argument("a dense vector takes its floats, no single raw value"));
}

Status RawRows::check_takes_list(const Target& target) const {
  if (target.spec->kind == FeatureKind::kSequence) return {};
  return refuse(target,
                invalid_argument(std::string("a list for a ") + name_of(target.spec->kind) + " feature, " +
                                 (target.spec->kind == FeatureKind::kDense ? "which takes its floats"
                                                                           : "which takes one value")));
}

/// Missing values are counted when the row is scored, but for elements that leave their bag here.
void RawRows::count(const Target& target, const EncodedValue& value, const Status& status) {
  using Cause = RawCounters::Cause;
  if (value.unknown) {
    counters_->add(target.feature, Cause::kUnknown);
  } else if (status.code() == Code::kInvalidArgument) {
    counters_->add(target.feature, Cause::kUnparsable);
  } else if (status.ok() && value.kind == EncodedValue::Kind::kMissing &&
             target.spec->kind == FeatureKind::kSequence) {
    counters_->add(target.feature, Cause::kMissing);
  }
}

Status RawRows::encode_text(const Target& target, std::string_view text, EncodedValue* out) {
  const FeatureEncoder* encoder = model_.encoder(target.feature);
  const Status s =
      encoder != nullptr ? encoder->encode_text(text, out) : plain_text(text, target.spec->is_slot(), out);
  count(target, *out, s);
  return s.ok() ? Status() : refuse(target, s);
}

void RawRows::add_id(const Target& target, int64_t id, float weight) {
  Part& p = *target.part;
  make_room(p.open_ids[target.at], 1);
  make_room(p.open_weights[target.at], 1);
  if (target.spec->kind == FeatureKind::kCategorical) {
    p.open_ids[target.at].clear();
    p.open_weights[target.at].clear();
  }
  p.open_ids[target.at].push_back(id);
  p.open_weights[target.at].push_back(weight);
  p.any_weight = p.any_weight || weight != 1.0f;
}

void RawRows::store(const Target& target, const EncodedValue& value, float weight) {
  const bool missing = value.kind == EncodedValue::Kind::kMissing;
  Part& p = *target.part;
  if (!target.spec->is_slot()) {
    float* row = p.dense.data() + p.dense.size() - static_cast<size_t>(p.columns);
    row[target.at] = missing ? std::numeric_limits<float>::quiet_NaN() : value.value;
  } else if (!missing) {
    add_id(target, value.id, weight);
  } else if (target.spec->kind == FeatureKind::kCategorical) {
    p.open_ids[target.at].clear();
    p.open_weights[target.at].clear();
  }
}

Status RawRows::set_text(int32_t feature, std::string_view text) {
  Target target;
  DPI_RETURN_IF_ERROR(find(feature, &target));
  DPI_RETURN_IF_ERROR(check_takes_one(target));
  const FeatureEncoder* encoder = model_.encoder(feature);
  const bool is_bag = target.spec->kind == FeatureKind::kSequence;
  BagElements elements = is_bag && encoder != nullptr ? encoder->elements(text) : BagElements(text);
  Undo undo(target);
  for (std::string_view element; elements.next(&element);) {
    EncodedValue value;
    DPI_RETURN_IF_ERROR(encode_text(target, element, &value));
    store(target, value, 1.0f);
  }
  undo.keep();
  return {};
}

Status RawRows::set_number(int32_t feature, double number) {
  Target target;
  EncodedValue value;
  DPI_RETURN_IF_ERROR(find(feature, &target));
  DPI_RETURN_IF_ERROR(check_takes_one(target));
  const FeatureEncoder* encoder = model_.encoder(feature);
  const Status s = encoder != nullptr ? encoder->encode_number(number, &value)
                                      : plain_number(number, target.spec->is_slot(), &value);
  count(target, value, s);
  if (!s.ok()) return refuse(target, s);
  store(target, value, 1.0f);
  return {};
}

Status RawRows::set_integer(int32_t feature, int64_t value) {
  char buffer[kDigits];
  return set_text(feature, digits_of(value, buffer));
}

Status RawRows::set_unsigned(int32_t feature, uint64_t value) {
  char buffer[kDigits];
  return set_text(feature, digits_of(value, buffer));
}

Status RawRows::add_text(int32_t feature, std::string_view text, float weight) {
  Target target;
  EncodedValue value;
  DPI_RETURN_IF_ERROR(find(feature, &target));
  DPI_RETURN_IF_ERROR(check_takes_list(target));
  DPI_RETURN_IF_ERROR(encode_text(target, text, &value));
  store(target, value, weight);
  return {};
}

Status RawRows::add_integers(int32_t feature, const int64_t* values, const float* weights, int64_t n) {
  Target target;
  DPI_RETURN_IF_ERROR(find(feature, &target));
  DPI_RETURN_IF_ERROR(check_takes_list(target));
  if (n < 0 || (n > 0 && values == nullptr)) return invalid_argument("values is null or n is negative");
  Undo undo(target);
  for (int64_t i = 0; i < n; ++i) {
    char buffer[kDigits];
    EncodedValue value;
    DPI_RETURN_IF_ERROR(encode_text(target, digits_of(values[i], buffer), &value));
    store(target, value, weights != nullptr ? weights[i] : 1.0f);
  }
  undo.keep();
  return {};
}

Status RawRows::set_ids(int32_t feature, const int64_t* ids, const float* weights, int64_t n) {
  Target target;
  DPI_RETURN_IF_ERROR(find(feature, &target));
  if (!target.spec->is_slot()) return refuse(target, invalid_argument("ids given for a numeric feature"));
  if (n < 0 || (n > 0 && ids == nullptr)) return invalid_argument("ids is null or n is negative");
  if (target.spec->kind == FeatureKind::kCategorical && n > 1) {
    return refuse(target, invalid_argument(std::to_string(n) + " ids where a categorical feature has one"));
  }
  make_room(target.part->open_ids[target.at], static_cast<size_t>(n));
  make_room(target.part->open_weights[target.at], static_cast<size_t>(n));
  target.part->open_ids[target.at].clear();
  target.part->open_weights[target.at].clear();
  for (int64_t i = 0; i < n; ++i) add_id(target, ids[i], weights != nullptr ? weights[i] : 1.0f);
  return {};
}

Status RawRows::set_floats(int32_t feature, const float* values, int64_t n) {
  Target target;
  DPI_RETURN_IF_ERROR(find(feature, &target));
  if (target.spec->is_slot()) return refuse(target, invalid_argument("floats given for a feature of ids"));
  if (n != target.spec->dim || values == nullptr) {
    return refuse(target, invalid_argument(std::to_string(n) + " floats, expected " +
                                           std::to_string(target.spec->dim)));
  }
  Part& p = *target.part;
  float* row = p.dense.data() + p.dense.size() - static_cast<size_t>(p.columns);
  std::copy_n(values, n, row + target.at);
  return {};
}

Batch RawRows::batch() {
  Batch b;
  for (const RowSpace space : kRequestSpaces) make_room_to_close(parts_[space]);
  make_room(shared_offsets_, 1);
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
