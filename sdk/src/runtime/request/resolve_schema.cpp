#include <algorithm>

#include "base/checked.hpp"
#include "runtime/request/resolve.hpp"
#include "store/resident/key_places.hpp"

namespace dpi {

namespace {

constexpr int64_t kAlign = 64;

/// Reserves count * size bytes at the end of a growing map; -1 on overflow.
int64_t reserve(int64_t* bytes, int64_t count, int64_t size) {
  const auto need = checked_mul(count, size);
  const auto end = need ? checked_add(*bytes, *need) : std::nullopt;
  if (!end || *end > (int64_t{1} << 46)) return -1;
  const int64_t at = *bytes;
  *bytes = round_up(*end, kAlign);
  return at;
}

ResolveSchema::IdColumns id_columns(const ResolveSchema& s, RowSpace space, bool part) {
  ResolveSchema::IdColumns c;
  for (const int32_t i : s.categorical[space]) {
    const auto& f = s.features[static_cast<size_t>(i)];
    if (f.spec.is_keyed()) break;  // the rest are keys, too
    c.slot.push_back(part ? f.part_slot : f.slot);
    c.limit.push_back(static_cast<uint64_t>(f.spec.vocab_size));
    c.missing.push_back(f.spec.has_missing_id ? f.spec.missing_id : -1);
    const size_t k = c.slot.size() - 1;
    if (k == 0 || c.slot[k] != c.slot[k - 1] + 1) c.runs.push_back({static_cast<uint32_t>(k), 0});
    ++c.runs.back().n;
  }
  return c;
}

ResolveSchema::FloatColumns float_columns(const ResolveSchema& s, RowSpace space, bool part) {
  ResolveSchema::FloatColumns c;
  int64_t next = -1;
  for (const int32_t i : s.floats[space]) {
    const auto& f = s.features[static_cast<size_t>(i)];
    const int32_t column = part ? f.part_column : f.column;
    if (next < 0) c.first = column;
    c.side_by_side = c.side_by_side && (next < 0 || column == next);
    next = column + f.spec.dim;
  }
  return c;
}

ResolveSchema::Placed placed(ResolveSchema* s, int32_t feature) {
  const FeatureSpec& f = s->features[static_cast<size_t>(feature)].spec;
  if (f.kind == FeatureKind::kCategorical) return {feature, s->n_places[f.space]++, -1};
  const auto at = std::find(s->sequences.begin(), s->sequences.end(), feature);
  return {feature, -1, static_cast<int32_t>(at - s->sequences.begin())};
}

ResolveSchema::KeyRules key_rules(const FeatureSpec& f) {
  if (!f.is_keyed()) return {};
  return {.missing_id = f.missing_id,
          .pad_id = f.pad_id,
          .has_missing_id = f.has_missing_id,
          .has_pad_id = f.has_pad_id,
          .key_set = f.key_set,
          .absent_row = f.absent_row,
          .pad_row = f.pad_row,
          .default_row = f.absent_row,
          .elsewhere = f.keys_elsewhere,
          .default_key = {}};
}

/// Sets the value for missing ids of an external set: padding or a key.
void set_default_key(ResolveSchema::Feature* f) {
  if (!f->keys.elsewhere || f->spec.missing != Missing::kDefault) return;
  if (f->keys.has_pad_id && f->spec.default_id == f->keys.pad_id)
    f->keys.default_row = f->keys.pad_row;
  else
    f->keys.default_key = f->spec.default_id;
}

/// Ids of external sets that a block holds at most.
int64_t most_raw_keys(const ResolveSchema& s, const InputMap& map) {
  int64_t n = 0;
  for (const ResolveSchema::Feature& f : s.features) {
    if (f.keys.elsewhere && f.spec.kind == FeatureKind::kCategorical) n += map.max_rows;
  }
  for (size_t q = 0; q < s.sequences.size(); ++q) {
    if (s.features[static_cast<size_t>(s.sequences[q])].keys.elsewhere) n += map.sequences[q].max_nnz;
  }
  return n;
}

/// Gives the categorical features of one kind of ids the next packed columns.
void place_categorical(ResolveSchema* s, bool keyed) {
  for (size_t i = 0; i < s->features.size(); ++i) {
    auto& f = s->features[i];
    if (f.spec.kind != FeatureKind::kCategorical || f.spec.is_keyed() != keyed) continue;
    f.packed_column = s->n_ids[f.spec.space]++;
    s->categorical[f.spec.space].push_back(static_cast<int32_t>(i));
  }
}

}  // namespace

ResolveSchema make_resolve_schema(const std::vector<FeatureSpec>& features,
                                  const std::vector<Placement>& placements) {
  ResolveSchema s;
  s.columns = columns_of(features);
  s.features.resize(features.size());
  for (size_t i = 0; i < features.size(); ++i) {
    auto& f = s.features[i];
    const auto index = static_cast<int32_t>(i);
    f.spec = features[i];
    f.shared = f.spec.space == RowSpace::kShared;
    const RowSpace space = f.spec.space;
    f.slot = s.columns.slot_of_feature[i];
    f.part_slot = f.shared ? s.columns.shared_slot_of_feature[i] : s.columns.item_slot_of_feature[i];
    f.column = s.columns.column_of_feature[i];
    f.part_column = f.shared ? s.columns.shared_column_of_feature[i] : s.columns.item_column_of_feature[i];
    f.keys = key_rules(f.spec);
    set_default_key(&f);
    if (f.spec.kind == FeatureKind::kCategorical) continue;
    if (f.spec.kind == FeatureKind::kSequence) {
      f.max_bag = f.spec.max_len;
      s.sequences.push_back(index);
    } else {
      f.packed_column = s.n_floats[space];
      s.n_floats[space] += static_cast<int32_t>(f.spec.dim);
      s.floats[space].push_back(index);
    }
  }
  for (const bool keyed : {false, true}) place_categorical(&s, keyed);
  for (const Placement& p : placements) s.placements.push_back(placed(&s, p.feature));
  for (const RowSpace space : kRequestSpaces) {
    s.whole_rows[space] = {id_columns(s, space, false), float_columns(s, space, false)};
    s.part_rows[space] = {id_columns(s, space, true), float_columns(s, space, true)};
  }
  return s;
}

void set_key_places(const KeyPlaces& places, ResolveSchema* schema) {
  schema->places = &places;
  for (auto& f : schema->features) {
    if (!f.spec.is_keyed() || f.keys.elsewhere || f.spec.missing != Missing::kDefault) continue;
    KeyLookup lookup{f.spec.default_id, 0, f.keys.key_set, -1};
    places.find({&lookup, 1});
    const bool is_pad = f.keys.has_pad_id && f.spec.default_id == f.keys.pad_id;
    f.keys.default_row = is_pad ? f.keys.pad_row : lookup.row >= 0 ? lookup.row : f.keys.absent_row;
  }
}

Result<InputMap> make_input_map(const ResolveSchema& schema, const PerSpace<int64_t>& most, int64_t max_nnz) {
  InputMap l;
  l.max_rows = most.item;
  l.max_shared = most.shared;
  l.max_nnz = max_nnz;
  bool fits = true;
  const auto take = [&](int64_t count, int64_t size) {
    const int64_t at = reserve(&l.bytes, count, size);
    fits = fits && at >= 0;
    return at;
  };
  l.row_map = take(most.item, sizeof(int32_t));
  for (const RowSpace space : kRequestSpaces) {
    l.dense[space] = take(most[space] * schema.n_floats[space], sizeof(float));
    l.ids[space] = take(most[space] * schema.n_ids[space], sizeof(int32_t));
  }
  for (const int32_t i : schema.sequences) {
    InputMap::Sequence q;
    const auto& f = schema.features[i];
    const int64_t rows = most[f.spec.space];
    const auto all = f.max_bag > 0 ? checked_mul(rows, f.max_bag) : std::optional<int64_t>(max_nnz);
    q.max_nnz = std::max<int64_t>({all.value_or(max_nnz), int64_t{1}});
    if (q.max_nnz > max_nnz) q.max_nnz = std::max(max_nnz, std::max<int64_t>(f.max_bag, 1));
    q.max_nnz = std::min<int64_t>(q.max_nnz, INT32_MAX);  // packed offsets are 32 bits
    q.offsets = take(rows + 1, sizeof(int32_t));
    q.ids = take(q.max_nnz, sizeof(int32_t));
    q.weights = take(f.spec.weighted ? q.max_nnz : 0, sizeof(float));
    l.sequences.push_back(q);
  }
  for (const RowSpace space : kRequestSpaces)
    l.places[space] = take(most[space] * schema.n_places[space], sizeof(int32_t));
  for (const ResolveSchema::Placed& p : schema.placements) {
    const bool bag = p.sequence >= 0;
    const auto sequence = static_cast<size_t>(p.sequence);
    l.bag_places.push_back(bag ? take(l.sequences[sequence].max_nnz, sizeof(int32_t)) : -1);
  }
  const int64_t raw_keys = most_raw_keys(schema, l);
  l.raw_keys = take(raw_keys, sizeof(int64_t));
  if (!fits || raw_keys > kMostRequestKeys)
    return Status(Code::kOutOfMemory, "a context for " + std::to_string(most.item) + " rows does not fit");
  return l;
}

int64_t most_placed(const ResolveSchema& schema, const InputMap& map) {
  int64_t n = 0;
  for (const ResolveSchema::Placed& p : schema.placements) {
    const bool bag = p.sequence >= 0;
    n += bag ? map.sequences[static_cast<size_t>(p.sequence)].max_nnz : map.max_rows;
  }
  return n;
}

kernels::Operand input_operand(const ResolveSchema& schema, const InputMap& map, int32_t feature,
                               const ResolvedRows& rows, std::byte* block) {
  const auto& f = schema.features[feature];
  const RowSpace space = f.spec.space;
  kernels::Operand o;
  if (f.spec.kind == FeatureKind::kCategorical) {
    o.bags.ids = reinterpret_cast<int32_t*>(block + map.ids[space]) + f.packed_column;
    o.bags.stride = schema.n_ids[space];
    o.bags.rows = rows.rows[space];
  } else if (f.spec.kind == FeatureKind::kSequence) {
    const auto at =
        std::find(schema.sequences.begin(), schema.sequences.end(), feature) - schema.sequences.begin();
    const auto& q = map.sequences[static_cast<size_t>(at)];
    o.bags.ids = reinterpret_cast<int32_t*>(block + q.ids);
    o.bags.offsets = reinterpret_cast<int32_t*>(block + q.offsets);
    o.bags.weights = f.spec.weighted ? reinterpret_cast<float*>(block + q.weights) : nullptr;
    o.bags.rows = rows.rows[space];
  } else {
    o.tensor.data = reinterpret_cast<float*>(block + map.dense[space]) + f.packed_column;
    o.tensor.row_stride = schema.n_floats[space];
    o.tensor.rows = rows.rows[space];
    o.tensor.dims.rank = 1;
    o.tensor.dims.d[0] = f.spec.dim;
  }
  return o;
}

kernels::Operand placed_operand(const ResolveSchema& schema, const InputMap& map, int32_t placement,
                                const ResolvedRows& rows, std::byte* block) {
  const ResolveSchema::Placed& p = schema.placements[static_cast<size_t>(placement)];
  const RowSpace space = schema.features[static_cast<size_t>(p.feature)].spec.space;
  kernels::Operand o = input_operand(schema, map, p.feature, rows, block);
  if (p.sequence >= 0) {
    o.bags.ids = reinterpret_cast<int32_t*>(block + map.bag_places[static_cast<size_t>(placement)]);
  } else {
    o.bags.ids = reinterpret_cast<int32_t*>(block + map.places[space]) + p.column;
    o.bags.stride = schema.n_places[space];
  }
  return o;
}

}  // namespace dpi
