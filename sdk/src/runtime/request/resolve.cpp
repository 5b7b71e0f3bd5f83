#include "runtime/request/resolve.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/request/key_group.hpp"
#include "runtime/request/pack_values.hpp"

namespace dpi {

namespace {

/// One part of the batch as one space's features read it: where bag (row, feature) and column (row, feature)
/// are.
struct Source {
  const BatchPart* part = nullptr;
  int64_t first_row = 0;  // of the part, for local row 0
  int64_t rows = 0;
  int64_t bag_row = 0;  // bag = row * bag_row + slot * bag_slot
  int64_t bag_slot = 0;
  int64_t dense_stride = 0;
  bool whole = true;    // the part holds all features (no shared part)
  bool shared = false;  // rows count in the shared part

  int64_t bag(int64_t row, int32_t slot) const { return (first_row + row) * bag_row + slot * bag_slot; }
};

Source make_source(const ResolveSchema& s, const Batch& b, const RowRange& range, RowSpace space) {
  Source src;
  const bool own = b.has_shared() && space == RowSpace::kShared;
  src.part = own ? &b.shared : &b.item;
  src.first_row = own ? range.shared_begin : range.begin;
  src.rows = own ? range.shared_end - range.shared_begin : range.rows();
  src.whole = !b.has_shared();
  src.shared = own;
  const auto& l = s.columns;
  const int64_t slots = src.whole ? l.n_slots : own ? l.n_shared_slots : l.n_item_slots;
  const int64_t columns = src.whole ? l.n_columns : own ? l.n_shared_columns : l.n_item_columns;
  src.bag_row = b.slot_major ? 1 : slots;
  src.bag_slot = b.slot_major ? src.part->rows : 1;
  src.dense_stride = src.part->dense_stride != 0 ? src.part->dense_stride : columns;
  return src;
}

/// One feature of one row, which counts within the range that is resolved.
struct Cell {
  const Source& src;
  const ResolveSchema& schema;
  int32_t feature;
  int64_t row;

  const auto& rules() const { return schema.features[static_cast<size_t>(feature)]; }
  Status refuse(const std::string& what) const {
    const int64_t at = src.first_row + row;
    return invalid_argument((src.shared ? "shared row " : "row ") + std::to_string(at) + ", feature '" +
                            rules().spec.name + "': " + what)
        .at(at, feature);
  }
};

std::string range_text(const FeatureSpec& f, int64_t id) {
  return "id " + std::to_string(id) + " is outside [0, " + std::to_string(f.vocab_size) +
         ") (feature rule out_of_range=error)";
}

/// The outcome of a feature's rules for one id.
enum class IdFate { kKeep, kMissing, kOutOfRange, kRefusedRange };
/// Applies the feature's rules. Sets *resolved for kKeep and kOutOfRange only.
IdFate judge(const FeatureSpec& f, int64_t id, int32_t* resolved) {
  if (f.has_missing_id && id == f.missing_id) return IdFate::kMissing;
  if (static_cast<uint64_t>(id) < static_cast<uint64_t>(f.vocab_size)) {
    *resolved = static_cast<int32_t>(id);
    return IdFate::kKeep;
  }
  if (f.out_of_range == OutOfRange::kError) return IdFate::kRefusedRange;
  *resolved = static_cast<int32_t>(f.out_of_range == OutOfRange::kOov ? f.oov_id : f.default_id);
  return IdFate::kOutOfRange;
}

/// The outcome for one id of a feature of keys. kKeep: padding, *row is known. kFind: look the key up.
enum class KeyFate { kKeep, kMissing, kFind };
KeyFate judge_key(const ResolveSchema::KeyRules& k, int64_t key, int32_t* row) {
  if (k.has_missing_id && key == k.missing_id) return KeyFate::kMissing;
  if (!k.has_pad_id || key != k.pad_id) return KeyFate::kFind;
  *row = k.pad_row;
  return KeyFate::kKeep;
}

/// A categorical value that is missing: pad_id, default_id, or an error.
Status resolve_missing(const Cell& cell, FeatureCounters& c, KeyGroup& group, int32_t* out) {
  const auto& f = cell.rules().spec;
  ++c.missing;
  if (f.missing == Missing::kError) return cell.refuse("a missing value (feature rule missing=error)");
  if (f.is_keyed()) {
    const auto& keys = cell.rules().keys;
    *out = f.missing == Missing::kPad ? keys.pad_row : keys.default_row;
    if (keys.default_key) group.add(keys, *keys.default_key, out, &c);
  } else {
    *out = static_cast<int32_t>(f.missing == Missing::kPad ? f.pad_id : f.default_id);
  }
  return {};
}

Status resolve_one_id(const Cell& cell, FeatureCounters& c, KeyGroup& keys, int32_t* out) {
  const Source& src = cell.src;
  const auto& f = cell.rules();
  const int64_t bag = src.bag(cell.row, src.whole ? f.slot : f.part_slot);
  int64_t at = bag;
  if (src.part->offsets != nullptr) {
    at = src.part->offsets[bag];
    const int64_t n = src.part->offsets[bag + 1] - at;
    if (n == 0) return resolve_missing(cell, c, keys, out);
    if (n != 1) return cell.refuse(std::to_string(n) + " ids where a categorical feature has one");
  }
  if (src.part->weights != nullptr && src.part->weights[at] != 1.0f) {
    return cell.refuse("a weight other than 1 on a feature that is not weighted");
  }
  const int64_t id = src.part->ids[at];
  if (f.keys.key_set >= 0) {
    const KeyFate fate = judge_key(f.keys, id, out);
    if (fate == KeyFate::kMissing) return resolve_missing(cell, c, keys, out);
    if (fate == KeyFate::kFind) keys.add(f.keys, id, out, &c);
    return {};
  }
  switch (judge(f.spec, id, out)) {
    case IdFate::kKeep:
      return {};
    case IdFate::kMissing:
      return resolve_missing(cell, c, keys, out);
    case IdFate::kOutOfRange:
      ++c.out_of_range;
      return {};
    case IdFate::kRefusedRange:
      ++c.out_of_range;
      return cell.refuse(range_text(f.spec, id));
  }
  return {};
}

// Of a slot-major batch: a column's ids of a tile are a stream to read and its rows stay in a core's cache; a
// strip is what goes by the features' rules when one of its ids needs them.
constexpr int64_t kPassRows = 128;
constexpr int64_t kStripRows = 16;

/// The first of n bags' ids, if each bag has one and weights, where there are any, are 1; else null.
const int64_t* one_id_each(const BatchPart& part, int64_t bag, int64_t n) {
  int64_t first = bag;
  if (part.offsets != nullptr) {
    if (!pack_forms().one_each(part.offsets + bag, n)) return nullptr;
    first = part.offsets[bag];
  }
  if (part.weights != nullptr && !pack_forms().ones(part.weights + first, n)) return nullptr;
  return part.ids + first;
}

/// Packed columns k .. k + n - 1 of a strip: kColumnsAtOnce of them, or one.
bool pack_plain_strip(const Source& src, const ResolveSchema::IdColumns& c, size_t k, size_t n, int64_t r,
                      int64_t rows, int64_t width, int32_t* dst) {
  const int64_t* ids[kColumnsAtOnce];
  for (size_t i = 0; i < n; ++i) {
    ids[i] = one_id_each(*src.part, src.bag(r, c.slot[k + i]), rows);
    if (ids[i] == nullptr) return false;
  }
  if (n == 1) return pack_column(ids[0], c.limit[k], c.missing[k], rows, dst + k, width);
  return pack_forms().columns(ids, c.limit.data() + k, c.missing.data() + k, rows, dst + k, width);
}

/// Rows [r, r + rows) of a slot-major batch, a few columns at a time, because a column's ids lie side by
/// side; `width` = packed columns of a row. good[i]: every bag of strip i has one id that needs no rule.
void pack_plain_columns(const Source& src, const ResolveSchema::IdColumns& c, int64_t r, int64_t rows,
                        int64_t width, int32_t* dst, bool* good) {
  const size_t n = c.slot.size();
  const size_t step = n < kColumnsAtOnce ? 1 : kColumnsAtOnce;
  for (int64_t at = 0; at < rows; at += kStripRows) good[at / kStripRows] = n > 0;
  for (size_t k = 0; k < n; k += step) {
    const size_t first = std::min(k, n - step);  // the last columns overlap those before them
    for (int64_t at = 0; at < rows; at += kStripRows) {
      bool& strip = good[at / kStripRows];
      strip = strip && pack_plain_strip(src, c, first, step, r + at, std::min(kStripRows, rows - at), width,
                                        dst + at * width);
    }
  }
}

/// Row r where every bag has one id. False: some bag or id needs its feature's rules.
bool pack_plain_row(const Source& src, const ResolveSchema::IdColumns& c, int64_t r, int32_t* dst) {
  if (src.bag_slot == 1) {
    for (const auto& run : c.runs) {
      const size_t k = run.first;
      const auto n = static_cast<int64_t>(run.n);
      const int64_t* ids = one_id_each(*src.part, src.bag(r, c.slot[k]), n);
      if (ids == nullptr || !pack_forms().ids(ids, c.limit.data() + k, c.missing.data() + k, n, dst + k))
        return false;
    }
    return true;
  }
  if (src.part->offsets != nullptr || src.part->weights != nullptr) return false;
  bool good = true;
  for (size_t k = 0; k < c.slot.size(); ++k) {
    const int64_t id = src.part->ids[src.bag(r, c.slot[k])];
    good = good && static_cast<uint64_t>(id) < c.limit[k] && id != c.missing[k];
    dst[k] = static_cast<int32_t>(id);
  }
  return good;
}

/// Packs rows from r on while they need no rule, of a batch with one id a bag whose slots lie side by side;
/// the first row that was not packed.
int64_t pack_plain_rows(const Source& src, const ResolveSchema::IdColumns& c, int64_t r, int64_t width,
                        int32_t* packed) {
  const BatchPart& part = *src.part;
  if (c.runs.size() != 1 || src.bag_slot != 1 || part.offsets != nullptr || part.weights != nullptr) return r;
  const auto pack = pack_forms().ids;
  const int64_t n = c.runs[0].n;
  const int64_t* ids = part.ids + src.bag(r, c.slot[0]);
  for (; r < src.rows && pack(ids, c.limit.data(), c.missing.data(), n, packed + r * width); ++r)
    ids += src.bag_row;
  return r;
}

/// A row of valid ids, one per bag, is a compare and a narrowing store each; keys come behind them.
Status resolve_categorical(const Source& src, const ResolveSchema& s, RowSpace space, int32_t* packed,
                           FeatureCounters* counters, KeyGroup& keys) {
  const auto& list = s.categorical[space];
  const auto n = static_cast<int64_t>(list.size());
  const auto& columns = (src.whole ? s.whole_rows : s.part_rows)[space].ids;
  const auto numbers = static_cast<int64_t>(columns.slot.size());  // columns that are no keys
  bool strips[kPassRows / kStripRows] = {};
  int64_t packed_to = 0;  // the first row whose numbers were not packed with those before it
  for (int64_t r = 0; r < src.rows; ++r) {
    int32_t* dst = packed + r * n;
    const int64_t at = r % kPassRows;
    if (at == 0 && src.bag_slot != 1)
      pack_plain_columns(src, columns, r, std::min(kPassRows, src.rows - r), n, dst, strips);
    if (r >= packed_to) packed_to = pack_plain_rows(src, columns, r, n, packed);
    const bool done =
        numbers > 0 && (r < packed_to || strips[at / kStripRows] || pack_plain_row(src, columns, r, dst));
    for (int64_t k = done ? numbers : 0; k < n; ++k) {
      DPI_RETURN_IF_ERROR(resolve_one_id({src, s, list[k], r}, counters[list[k]], keys, dst + k));
    }
  }
  return {};
}

/// One sequence feature while its bags are packed.
struct BagWriter {
  const Source& src;
  const ResolveSchema& schema;
  int32_t feature;
  FeatureCounters& counters;
  KeyGroup& keys;
  int32_t* ids;
  float* weights;  // null unless the feature is weighted
  int64_t capacity;
  int64_t n = 0;

  Cell cell(int64_t row) const { return {src, schema, feature, row}; }
  Status add(int64_t row, int64_t at) {
    const auto& f = schema.features[feature].spec;
    const float w = src.part->weights != nullptr ? src.part->weights[at] : 1.0f;
    if (weights == nullptr && w != 1.0f) {
      return cell(row).refuse("a weight other than 1 on a feature that is not weighted");
    }
    if (!std::isfinite(w)) return cell(row).refuse("a weight that is not finite");
    int32_t id = 0;
    if (f.is_keyed()) return add_key(src.part->ids[at], w);
    switch (judge(f, src.part->ids[at], &id)) {
      case IdFate::kMissing:
        ++counters.missing;
        return {};  // leaves the bag
      case IdFate::kOutOfRange:
        ++counters.out_of_range;
        break;
      case IdFate::kRefusedRange:
        ++counters.out_of_range;
        return cell(row).refuse(range_text(f, src.part->ids[at]));
      case IdFate::kKeep:
        break;
    }
    push(id, w);
    return {};
  }
  Status add_key(int64_t key, float w) {
    const auto& rules = schema.features[feature].keys;
    int32_t row = rules.absent_row;
    const KeyFate fate = judge_key(rules, key, &row);
    if (fate == KeyFate::kMissing) {
      ++counters.missing;
      return {};
    }
    push(row, w);
    if (fate == KeyFate::kFind) keys.add(rules, key, ids + n - 1, &counters);
    return {};
  }
  /// Ids [begin, end) at once when none needs a rule but that missing ones leave the bag; false: nothing was
  /// added.
  bool add_plain(int64_t begin, int64_t end) {
    constexpr int64_t kWorthwhile = 4;  // ids
    const auto& f = schema.features[feature].spec;
    const int64_t more = end - begin;
    if (f.is_keyed() || more < kWorthwhile) return false;
    const int64_t* const from = src.part->ids + begin;
    const float* const w = src.part->weights != nullptr ? src.part->weights + begin : nullptr;
    if (w != nullptr &&
        !(weights != nullptr ? pack_floats(w, more, weights + n) : pack_forms().ones(w, more)))
      return false;
    const auto limit = static_cast<uint64_t>(f.vocab_size);
    if (pack_forms().bag(from, limit, f.has_missing_id ? f.missing_id : -1, more, ids + n)) {
      if (weights != nullptr && w == nullptr) std::fill(weights + n, weights + n + more, 1.0f);
      n += more;
      return true;
    }
    if (!f.has_missing_id || weights != nullptr) return false;
    const int64_t left = drop_missing(from, limit, f.missing_id, more, ids + n);
    if (left < 0) return false;
    counters.missing += static_cast<uint64_t>(more - left);
    n += left;
    return true;
  }
  void push(int32_t id, float w) {
    ids[n] = id;
    if (weights != nullptr) weights[n] = w;
    ++n;
  }
};

Status resolve_bag(BagWriter& w, int64_t row) {
  const auto& f = w.schema.features[w.feature];
  const int64_t bag = w.src.bag(row, w.src.whole ? f.slot : f.part_slot);
  int64_t begin = bag, end = bag + 1;
  if (w.src.part->offsets != nullptr) {
    begin = w.src.part->offsets[bag];
    end = w.src.part->offsets[bag + 1];
  }
  if (f.max_bag > 0 && end - begin > f.max_bag) {
    ++w.counters.cut;
    (f.spec.keep_last ? begin : end) = f.spec.keep_last ? end - f.max_bag : begin + f.max_bag;
  }
  if (end - begin > w.capacity - w.n) {
    return w.cell(row).refuse("more ids than the context holds; raise max_nnz or max_rows");
  }
  const int64_t before = w.n;
  if (!w.add_plain(begin, end)) {
    for (int64_t at = begin; at < end; ++at) DPI_RETURN_IF_ERROR(w.add(row, at));
  }
  if (w.n != before || f.spec.missing == Missing::kPad) return {};
  ++w.counters.missing;
  if (f.spec.missing == Missing::kError) {
    return w.cell(row).refuse("an empty bag is missing (feature rule missing=error)");
  }
  if (w.n == w.capacity) return w.cell(row).refuse("more ids than the context holds; raise max_nnz");
  w.push(f.spec.is_keyed() ? f.keys.default_row : static_cast<int32_t>(f.spec.default_id), 1.0f);
  if (f.keys.default_key) w.keys.add(f.keys, *f.keys.default_key, w.ids + w.n - 1, &w.counters);
  return {};
}

/// `there`: rows of the sequence's space that lie in the block already.
Status resolve_sequence(const Source& src, const ResolveSchema& s, int32_t feature,
                        const InputMap::Sequence& q, std::byte* block, int64_t there, FeatureCounters& c,
                        KeyGroup& keys) {
  auto* offsets = reinterpret_cast<int32_t*>(block + q.offsets) + there;
  const bool weighted = s.features[feature].spec.weighted;
  BagWriter w{src,
              s,
              feature,
              c,
              keys,
              reinterpret_cast<int32_t*>(block + q.ids),
              weighted ? reinterpret_cast<float*>(block + q.weights) : nullptr,
              q.max_nnz,
              there > 0 ? offsets[0] : 0};
  for (int64_t r = 0; r < src.rows; ++r) {
    offsets[r] = static_cast<int32_t>(w.n);
    DPI_RETURN_IF_ERROR(resolve_bag(w, r));
  }
  offsets[src.rows] = static_cast<int32_t>(w.n);
  return {};
}

Status resolve_float(const Cell& cell, FeatureCounters& c, float* v) {
  if (std::isinf(*v)) return cell.refuse("an infinite value");
  const auto& f = cell.rules().spec;
  ++c.missing;
  if (f.missing == Missing::kError) return cell.refuse("NaN is missing (feature rule missing=error)");
  *v = f.missing == Missing::kPad ? 0.0f : static_cast<float>(f.default_value);
  return {};
}

Status resolve_dense(const Source& src, const ResolveSchema& s, RowSpace space, float* packed,
                     FeatureCounters* counters) {
  const int64_t width = s.n_floats[space];
  const auto& columns = (src.whole ? s.whole_rows : s.part_rows)[space].floats;
  for (int64_t r = 0; r < src.rows; ++r) {
    float* dst = packed + r * width;
    const float* row = src.part->dense + (src.first_row + r) * src.dense_stride;
    if (columns.side_by_side && pack_floats(row + columns.first, width, dst)) continue;
    for (const int32_t i : s.floats[space]) {
      const auto& f = s.features[i];
      const float* from = row + (src.whole ? f.column : f.part_column);
      for (int64_t k = 0; k < f.spec.dim; ++k) {
        float v = from[k];
        if (!std::isfinite(v)) DPI_RETURN_IF_ERROR(resolve_float({src, s, i, r}, counters[i], &v));
        dst[f.packed_column + k] = v;
      }
    }
  }
  return {};
}

void fill_row_map(const Batch& b, const RowRange& range, int64_t first, int32_t* map) {
  int64_t shared = range.shared_begin;
  for (int64_t r = range.begin; r < range.end; ++r) {
    while (b.shared_offsets[shared + 1] <= r) ++shared;
    map[r - range.begin] = static_cast<int32_t>(first + shared - range.shared_begin);
  }
}

}  // namespace

Status resolve_rows(const ResolveSchema& schema, const InputMap& map, const Batch& batch,
                    const RowRange& range, std::byte* block, FeatureCounters* counters, ResolvedRows* out,
                    const ResolvedRows* behind) {
  const PerSpace<int64_t> there = behind != nullptr ? behind->rows : PerSpace<int64_t>{0, 0};
  const PerSpace<Source> src{make_source(schema, batch, range, RowSpace::kItem),
                             make_source(schema, batch, range, RowSpace::kShared)};
  if (batch.has_shared())
    fill_row_map(batch, range, there.shared, reinterpret_cast<int32_t*>(block + map.row_map) + there.item);
  KeyGroup keys(schema.places, reinterpret_cast<int64_t*>(block + map.raw_keys),
                behind != nullptr ? behind->raw_keys : 0);  // done when this returns
  for (const RowSpace space : kRequestSpaces) {
    if (schema.n_ids[space] > 0) {
      auto* ids = reinterpret_cast<int32_t*>(block + map.ids[space]) + there[space] * schema.n_ids[space];
      DPI_RETURN_IF_ERROR(resolve_categorical(src[space], schema, space, ids, counters, keys));
    }
    if (schema.n_floats[space] > 0) {
      auto* dense =
          reinterpret_cast<float*>(block + map.dense[space]) + there[space] * schema.n_floats[space];
      DPI_RETURN_IF_ERROR(resolve_dense(src[space], schema, space, dense, counters));
    }
  }
  for (size_t k = 0; k < schema.sequences.size(); ++k) {
    const int32_t f = schema.sequences[k];
    const RowSpace space = schema.features[f].spec.space;
    DPI_RETURN_IF_ERROR(
        resolve_sequence(src[space], schema, f, map.sequences[k], block, there[space], counters[f], keys));
  }
  out->rows = {there.item + src.item.rows, there.shared + src.shared.rows};
  out->has_map = batch.has_shared();
  out->raw_keys = keys.raw_keys();
  return {};
}

}  // namespace dpi
