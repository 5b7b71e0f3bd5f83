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
  explicit Undo(const Place& p)
      : place(p), before(p.spec->kind == FeatureKind::kSequence ? p.part->open_ids[p.at].size() : kNothing) {}
  ~Undo() {
    if (before == kNothing) return;
    place.part->open_ids[place.at].resize(before);
    place.part->open_weights[place.at].resize(before);
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  void keep() { before = kNothing; }

  static constexpr size_t kNothing = SIZE_MAX;
  const Place& place;
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

Status RawRows::find(int32_t feature, Place* place) {
  const auto& features = model_.engine().schema().features;
  if (feature < 0 || static_cast<size_t>(feature) >= features.size()) {
    return invalid_argument("feature index " + std::to_string(feature) + " is not in [0, " +
                            std::to_string(features.size()) + ")");
  }
  const auto& f = features[feature];
  const bool split = has_shared_, own = split && f.shared;
  *place = {feature, &f.spec, &parts_[own ? RowSpace::kShared : RowSpace::kItem],
            f.spec.is_slot() ? (split ? f.part_slot : f.slot) : (split ? f.part_column : f.column)};
  if (place->part->open) return {};
  return invalid_argument(own ? "begin a shared row before setting its features"
                              : "begin a row before setting its features");
}

Status RawRows::refuse(const Place& place, const Status& why) const {
  const int64_t row = place.part->rows - 1;
  const char* what = place.part == &parts_[RowSpace::kShared] ? "shared row " : "row ";
  return Status(why.code(),
                what + std::to_string(row) + ", feature '" + place.spec->name + "': " + why.message())
      .at(row, place.feature);
}

Status RawRows::check_takes_one(const Place& place) const {
  if (place.spec->kind != FeatureKind::kDense) return {};
  return refuse(place, invalid_argument("a dense vector takes its floats, no single raw value"));
}

Status RawRows::check_takes_list(const Place& place) const {
  if (place.spec->kind == FeatureKind::kSequence) return {};
  return refuse(place,
                invalid_argument(std::string("a list for a ") + name_of(place.spec->kind) + " feature, " +
                                 (place.spec->kind == FeatureKind::kDense ? "which takes its floats"
                                                                          : "which takes one value")));
}

/// Missing values are counted when the row is scored, but for elements that leave their bag here.
void RawRows::count(const Place& place, const EncodedValue& value, const Status& status) {
  using Cause = RawCounters::Cause;
  if (value.unknown) {
    counters_->add(place.feature, Cause::kUnknown);
  } else if (status.code() == Code::kInvalidArgument) {
    counters_->add(place.feature, Cause::kUnparsable);
  } else if (status.ok() && value.kind == EncodedValue::Kind::kMissing &&
             place.spec->kind == FeatureKind::kSequence) {
    counters_->add(place.feature, Cause::kMissing);
  }
}

Status RawRows::encode_text(const Place& place, std::string_view text, EncodedValue* out) {
  const FeatureEncoder* encoder = model_.encoder(place.feature);
  const Status s =
      encoder != nullptr ? encoder->encode_text(text, out) : plain_text(text, place.spec->is_slot(), out);
  count(place, *out, s);
  return s.ok() ? Status() : refuse(place, s);
}

void RawRows::add_id(const Place& place, int64_t id, float weight) {
  Part& p = *place.part;
  make_room(p.open_ids[place.at], 1);
  make_room(p.open_weights[place.at], 1);
  if (place.spec->kind == FeatureKind::kCategorical) {
    p.open_ids[place.at].clear();
    p.open_weights[place.at].clear();
  }
  p.open_ids[place.at].push_back(id);
  p.open_weights[place.at].push_back(weight);
  p.any_weight = p.any_weight || weight != 1.0f;
}

void RawRows::store(const Place& place, const EncodedValue& value, float weight) {
  const bool missing = value.kind == EncodedValue::Kind::kMissing;
  Part& p = *place.part;
  if (!place.spec->is_slot()) {
    float* row = p.dense.data() + p.dense.size() - static_cast<size_t>(p.columns);
    row[place.at] = missing ? std::numeric_limits<float>::quiet_NaN() : value.value;
  } else if (!missing) {
    add_id(place, value.id, weight);
  } else if (place.spec->kind == FeatureKind::kCategorical) {
    p.open_ids[place.at].clear();
    p.open_weights[place.at].clear();
  }
}

Status RawRows::set_text(int32_t feature, std::string_view text) {
  Place place;
  DPI_RETURN_IF_ERROR(find(feature, &place));
  DPI_RETURN_IF_ERROR(check_takes_one(place));
  const FeatureEncoder* encoder = model_.encoder(feature);
  const bool is_bag = place.spec->kind == FeatureKind::kSequence;
  BagElements elements = is_bag && encoder != nullptr ? encoder->elements(text) : BagElements(text);
  Undo undo(place);
  for (std::string_view element; elements.next(&element);) {
    EncodedValue value;
    DPI_RETURN_IF_ERROR(encode_text(place, element, &value));
    store(place, value, 1.0f);
  }
  undo.keep();
  return {};
}

Status RawRows::set_number(int32_t feature, double number) {
  Place place;
  EncodedValue value;
  DPI_RETURN_IF_ERROR(find(feature, &place));
  DPI_RETURN_IF_ERROR(check_takes_one(place));
  const FeatureEncoder* encoder = model_.encoder(feature);
  const Status s = encoder != nullptr ? encoder->encode_number(number, &value)
                                      : plain_number(number, place.spec->is_slot(), &value);
  count(place, value, s);
  if (!s.ok()) return refuse(place, s);
  store(place, value, 1.0f);
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
  Place place;
  EncodedValue value;
  DPI_RETURN_IF_ERROR(find(feature, &place));
  DPI_RETURN_IF_ERROR(check_takes_list(place));
  DPI_RETURN_IF_ERROR(encode_text(place, text, &value));
  store(place, value, weight);
  return {};
}

Status RawRows::add_integers(int32_t feature, const int64_t* values, const float* weights, int64_t n) {
  Place place;
  DPI_RETURN_IF_ERROR(find(feature, &place));
  DPI_RETURN_IF_ERROR(check_takes_list(place));
  if (n < 0 || (n > 0 && values == nullptr)) return invalid_argument("values is null or n is negative");
  Undo undo(place);
  for (int64_t i = 0; i < n; ++i) {
    char buffer[kDigits];
    EncodedValue value;
    DPI_RETURN_IF_ERROR(encode_text(place, digits_of(values[i], buffer), &value));
    store(place, value, weights != nullptr ? weights[i] : 1.0f);
  }
  undo.keep();
  return {};
}

Status RawRows::set_ids(int32_t feature, const int64_t* ids, const float* weights, int64_t n) {
  Place place;
  DPI_RETURN_IF_ERROR(find(feature, &place));
  if (!place.spec->is_slot()) return refuse(place, invalid_argument("ids given for a numeric feature"));
  if (n < 0 || (n > 0 && ids == nullptr)) return invalid_argument("ids is null or n is negative");
  if (place.spec->kind == FeatureKind::kCategorical && n > 1) {
    return refuse(place, invalid_argument(std::to_string(n) + " ids where a categorical feature has one"));
  }
  make_room(place.part->open_ids[place.at], static_cast<size_t>(n));
  make_room(place.part->open_weights[place.at], static_cast<size_t>(n));
  place.part->open_ids[place.at].clear();
  place.part->open_weights[place.at].clear();
  for (int64_t i = 0; i < n; ++i) add_id(place, ids[i], weights != nullptr ? weights[i] : 1.0f);
  return {};
}

Status RawRows::set_floats(int32_t feature, const float* values, int64_t n) {
  Place place;
  DPI_RETURN_IF_ERROR(find(feature, &place));
  if (place.spec->is_slot()) return refuse(place, invalid_argument("floats given for a feature of ids"));
  if (n != place.spec->dim || values == nullptr) {
    return refuse(
        place, invalid_argument(std::to_string(n) + " floats, expected " + std::to_string(place.spec->dim)));
  }
  Part& p = *place.part;
  float* row = p.dense.data() + p.dense.size() - static_cast<size_t>(p.columns);
  std::copy_n(values, n, row + place.at);
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
