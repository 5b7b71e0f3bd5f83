#include "bundle/delta/moved_keys.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace dpi {
namespace {

/// Rising keys and, as the base's go by, how many of those are smaller and whether it is one of them.
class Ranks {
 public:
  explicit Ranks(const std::vector<int64_t>& keys) : keys_(keys), is_there_(keys.size(), false) {
    below_.reserve(keys.size());
  }
  void pass(int64_t first, std::span<const int64_t> block) {
    auto from = block.begin();
    for (size_t i = below_.size(); i < keys_.size() && keys_[i] <= block.back(); ++i) {
      from = std::lower_bound(from, block.end(), keys_[i]);
      below_.push_back(first + (from - block.begin()));
      is_there_[i] = *from == keys_[i];
    }
  }
  void finish(int64_t all) { below_.resize(keys_.size(), all); }

  const std::vector<int64_t>& keys() const { return keys_; }
  int64_t below(size_t i) const { return below_[i]; }
  bool is_there(size_t i) const { return is_there_[i]; }

 private:
  const std::vector<int64_t>& keys_;
  std::vector<int64_t> below_;
  std::vector<bool> is_there_;
};

/// Rows of the new set, for keys that are in it: `gone` and `added` shift those of the base.
std::vector<int64_t> new_rows(const Ranks& ranks, const KeySetDelta& change) {
  std::vector<int64_t> out;
  out.reserve(ranks.keys().size());
  size_t gone = 0, added = 0;
  for (size_t i = 0; i < ranks.keys().size(); ++i) {
    const int64_t key = ranks.keys()[i];
    while (gone < change.gone.size() && change.gone[gone] < key) ++gone;
    while (added < change.added.size() && change.added[added] < key) ++added;
    out.push_back(ranks.below(i) - static_cast<int64_t>(gone) + static_cast<int64_t>(added));
  }
  return out;
}

Status wrong_key(const std::string& path, int64_t key, const char* text) {
  return bad_model(path + ": key " + std::to_string(key) + " " + text);
}

Status check_set(const Ranks& ranks, const TableDelta& table, const KeySetDelta& change) {
  for (size_t i = 0; i < ranks.keys().size(); ++i) {
    const int64_t key = ranks.keys()[i];
    if (ranks.is_there(i) || std::binary_search(change.added.begin(), change.added.end(), key)) continue;
    return wrong_key("/tables/" + std::to_string(table.table) + ".at", key,
                     "is neither in the base nor added");
  }
  return {};
}

}  // namespace

Result<MovedKeys> find_moved_keys(Bundle& base, size_t key_set, const KeySetDelta& change,
                                  const std::vector<const TableDelta*>& set) {
  Ranks gone(change.gone), added(change.added);
  std::vector<Ranks> lists;
  MovedKeys out;
  for (const TableDelta* t : set) lists.emplace_back(t->at);
  const auto empty = [](const Ranks& list) { return list.keys().empty(); };
  if (empty(gone) && empty(added) && std::all_of(lists.begin(), lists.end(), empty)) {
    out.set.resize(set.size());
    return out;
  }
  DPI_RETURN_IF_ERROR(base.read_keys(key_set, [&](int64_t first, std::span<const int64_t> keys) {
    gone.pass(first, keys);
    added.pass(first, keys);
    for (Ranks& list : lists) list.pass(first, keys);
    return Status();
  }));
  const int64_t all = base.manifest().key_sets[key_set].keys;
  gone.finish(all);
  added.finish(all);
  const std::string path = "/tables/set" + std::to_string(key_set);
  for (size_t i = 0; i < change.gone.size(); ++i) {
    if (!gone.is_there(i)) return wrong_key(path + ".gone", change.gone[i], "is not in the base");
    out.gone.push_back(gone.below(i));
  }
  for (size_t i = 0; i < change.added.size(); ++i)
    if (added.is_there(i)) return wrong_key(path + ".added", change.added[i], "is in the base already");
  out.added = new_rows(added, change);
  for (size_t t = 0; t < lists.size(); ++t) {
    lists[t].finish(all);
    DPI_RETURN_IF_ERROR(check_set(lists[t], *set[t], change));
    out.set.push_back(new_rows(lists[t], change));
  }
  return out;
}

}  // namespace dpi
