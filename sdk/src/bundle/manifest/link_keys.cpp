#include "bundle/manifest/link_keys.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace dpi {
namespace {

constexpr int64_t kMinorWithKeys = 1;
constexpr size_t kMaxPads = 16;  // each is a row of every table of the set

using SetIndex = std::map<std::string, int32_t, std::less<>>;

bool uses_keys(const Manifest& m) {
  return !m.key_sets.empty() ||
         std::any_of(m.features.begin(), m.features.end(), [](const auto& f) { return f.is_keyed(); }) ||
         std::any_of(m.tables.begin(), m.tables.end(),
                     [](const auto& t) { return t.external || !t.keys.empty(); });
}

Result<int32_t> find_set(const SetIndex& index, const std::string& who, const std::string& name) {
  const auto it = index.find(name);
  if (it != index.end()) return it->second;
  return bad_model(who + ": there is no key set " + in_quotes(name));
}

/// The number of the feature's pad_id among those of its set; most sets have one or two.
int32_t pad_number(const FeatureSpec& f, KeySetSpec* set) {
  const std::optional<int64_t> pad = f.has_pad_id ? std::optional(f.pad_id) : std::nullopt;
  const auto at = std::find(set->pads.begin(), set->pads.end(), pad);
  const auto number = static_cast<int32_t>(at - set->pads.begin());
  if (at == set->pads.end()) set->pads.push_back(pad);
  return number;
}

Status link_feature(const SetIndex& index, Manifest* m, FeatureSpec* f) {
  DPI_ASSIGN_OR_RETURN(f->key_set, find_set(index, "feature " + in_quotes(f->name), f->keys));
  KeySetSpec& set = m->key_sets[static_cast<size_t>(f->key_set)];
  f->keys_elsewhere = set.external();
  const int64_t absent_row = set.external() ? kMostRequestKeys : set.keys;
  const int64_t pad_row = absent_row + 1 + pad_number(*f, &set);
  if (set.pads.size() > kMaxPads)
    return bad_model("key set " + in_quotes(set.name) + ": its features have more than 16 different pad_ids");
  if (pad_row >= kMaxTableRows) {
    return bad_model("key set " + in_quotes(set.name) + ": " + std::to_string(set.keys) + " keys and " +
                     std::to_string(set.pads.size()) + " pad_ids of features need more than 2^31-2 rows");
  }
  f->absent_row = static_cast<int32_t>(absent_row);
  f->pad_row = static_cast<int32_t>(pad_row);
  return {};
}

Status link_table(const SetIndex& index, const Manifest& m, TableSpec* t) {
  const std::string who = "table " + in_quotes(t->name);
  DPI_ASSIGN_OR_RETURN(t->key_set, find_set(index, who, t->keys));
  const KeySetSpec& set = m.key_sets[static_cast<size_t>(t->key_set)];
  if (set.external() != t->external) {
    return bad_model(who + ": one of it and its key set " + in_quotes(set.name) +
                     " is external, the other is not");
  }
  if (t->external && (t->rows == 0 || set.keys == 0)) {
    t->rows = std::max(t->rows, set.keys > 0 ? set.keys + 1 : 0);
  } else if (t->rows != set.keys + 1) {
    return bad_model(who + ": " + std::to_string(t->rows) + " rows, expected the " +
                     std::to_string(set.keys) + " keys of key set " + in_quotes(set.name) +
                     " and one for the default");
  }
  t->pad_rows = static_cast<int32_t>(set.pads.size());
  return {};
}

}  // namespace

Status link_keys(Manifest* m) {
  if (!uses_keys(*m)) return {};
  if (m->version_minor < kMinorWithKeys) {
    return bad_model("keys and external tables need format 2.1, the file says 2." +
                     std::to_string(m->version_minor));
  }
  SetIndex index;
  for (size_t i = 0; i < m->key_sets.size(); ++i) index.emplace(m->key_sets[i].name, static_cast<int32_t>(i));
  for (FeatureSpec& f : m->features) {
    if (f.is_keyed()) DPI_RETURN_IF_ERROR(link_feature(index, m, &f));
  }
  for (TableSpec& t : m->tables) {
    if (!t.keys.empty()) DPI_RETURN_IF_ERROR(link_table(index, *m, &t));
  }
  return {};
}

}  // namespace dpi
