#include "store/tiered/prefill.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.hpp"

namespace dpi::tiered {

namespace {

constexpr size_t kFetchAtOnce = 256;

}  // namespace

/// One table's keys of the list.
struct Prefill::Cursor {
  size_t in_list = 0;
  int32_t table = 0;
  HotKeyWalk walk;

  const HotKey& key() const { return walk.key(); }
};

Prefill::Prefill(HostCache* cache, std::vector<Table> tables)
    : cache_(cache), tables_(std::move(tables)), passing_(tables_.size()) {
  const ArenaPlan& plan = cache->plan();
  for (const ArenaPlan::Class& c : plan.classes) {
    int64_t& sum = class_spare_.emplace_back(0);
    for (int32_t s = 0; s < c.shards; ++s) {
      spare_.push_back(cache->spare(static_cast<int32_t>(spare_.size())));
      sum += spare_.back();
    }
  }
  share_out_first_rows();
}

uint64_t Prefill::bytes(const ArenaPlan& plan) {
  uint64_t places = 0;
  for (const ArenaPlan::Class& c : plan.classes) places += static_cast<uint64_t>(c.places());
  return places * sizeof(Chosen) +
         plan.class_of.size() * (sizeof(Cursor) + static_cast<size_t>(HotKeyWalk::kAtOnce) * sizeof(HotKey));
}

size_t Prefill::class_of(int32_t table) const {
  return static_cast<size_t>(cache_->plan().class_of[static_cast<size_t>(table)]);
}

bool Prefill::is_elsewhere(int32_t table, int64_t key) const {
  const std::vector<int64_t>& rows = tables_[static_cast<size_t>(table)].elsewhere;
  return std::find(rows.begin(), rows.end(), key) != rows.end();
}

/// Takes a place of the key's shard; false if all are spoken for.
bool Prefill::take_place(int32_t table, int64_t key) {
  int32_t& spare = spare_[static_cast<size_t>(cache_->shard_of(table, key))];
  if (spare <= 0) return false;
  --spare;
  --class_spare_[class_of(table)];
  return true;
}

std::vector<Prefill::Cursor> Prefill::open_list(const HotKeyFile& list) const {
  std::vector<Cursor> cursors;
  for (size_t l = 0; l < list.tables().size(); ++l) {
    const auto at = std::find_if(tables_.begin(), tables_.end(),
                                 [&](const Table& t) { return t.name == list.tables()[l].name; });
    if (at == tables_.end()) continue;
    cursors.push_back({l, static_cast<int32_t>(at - tables_.begin()), HotKeyWalk(list, l)});
  }
  return cursors;
}

Status Prefill::choose(const HotKeyFile& list) {
  std::vector<Cursor> cursors = open_list(list);
  class_lookups_.assign(class_spare_.size(), 0);
  int64_t most = 0, places = 0;
  for (const Cursor& c : cursors) {
    class_lookups_[class_of(c.table)] += static_cast<double>(list.tables()[c.in_list].lookups);
    most += list.tables()[c.in_list].n;
  }
  for (const int64_t spare : class_spare_) places += spare;
  chosen_.reserve(static_cast<size_t>(std::min(most, places)));
  std::vector<Cursor*> heap;  // the hottest first
  const auto colder = [](const Cursor* a, const Cursor* b) { return hotter(b->key(), a->key()); };
  const auto push_next = [&](Cursor* c) -> Status {
    if (class_spare_[class_of(c->table)] == 0) return {};
    DPI_ASSIGN_OR_RETURN(const bool more, c->walk.next());
    if (!more) return {};
    heap.push_back(c);
    std::push_heap(heap.begin(), heap.end(), colder);
    return {};
  };
  for (Cursor& c : cursors) DPI_RETURN_IF_ERROR(push_next(&c));
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), colder);
    Cursor* const c = heap.back();
    heap.pop_back();
    const HotKey k = c->key();
    if (!is_elsewhere(c->table, k.key) && take_place(c->table, k.key))
      chosen_.push_back({k.key, c->table, heat_of(k.count, class_of(c->table))});
    DPI_RETURN_IF_ERROR(push_next(c));
  }
  sort();
  DPI_RETURN_IF_ERROR(check_once(list));
  share_out_first_rows();
  return {};
}

/// The heat that Admission would have learned from such lookups, between one halving and the next. At least
/// 1, so that a row of the list is warmer than one that nobody has asked for.
uint8_t Prefill::heat_of(uint64_t count, size_t size_class) const {
  const auto places = static_cast<double>(cache_->plan().classes[size_class].places());
  const double heat = static_cast<double>(count) / class_lookups_[size_class] * places * kHeatOfShare;
  return static_cast<uint8_t>(std::clamp(std::round(heat), 1.0, 255.0));
}

void Prefill::choose(const HostCache& before) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    const auto table = static_cast<int32_t>(t);
    for (const WarmKey& k : before.warm_keys(table)) chosen_.push_back({k.key, table, k.heat});
  }
  std::sort(chosen_.begin(), chosen_.end(), [](const Chosen& a, const Chosen& b) {
    if (a.heat != b.heat) return a.heat > b.heat;
    return a.table != b.table ? a.table < b.table : a.key < b.key;
  });
  std::erase_if(chosen_, [this](const Chosen& c) {
    return is_elsewhere(c.table, c.key) || !take_place(c.table, c.key);
  });
  sort();
  share_out_first_rows();
}

void Prefill::sort() {
  std::sort(chosen_.begin(), chosen_.end(), [](const Chosen& a, const Chosen& b) {
    return a.table != b.table ? a.table < b.table : a.key < b.key;
  });
  for (size_t i = 0; i < chosen_.size(); ++i) {
    Passing& p = passing_[static_cast<size_t>(chosen_[i].table)];
    if (p.end == 0) p.next = i;
    p.end = i + 1;
  }
}

Status Prefill::check_once(const HotKeyFile& list) const {
  const auto twice = std::adjacent_find(chosen_.begin(), chosen_.end(), [](const Chosen& a, const Chosen& b) {
    return a.table == b.table && a.key == b.key;
  });
  if (twice == chosen_.end()) return {};
  return bad_model(list.title() + ": table " + in_quotes(tables_[static_cast<size_t>(twice->table)].name) +
                   " has key " + std::to_string(twice->key) + " twice");
}

/// By the number of rows, so that no table takes all places of its class while it loads first.
void Prefill::share_out_first_rows() {
  std::vector<double> rows(class_spare_.size(), 0);
  for (size_t t = 0; t < tables_.size(); ++t)
    rows[class_of(static_cast<int32_t>(t))] += static_cast<double>(tables_[t].rows);
  for (size_t t = 0; t < tables_.size(); ++t) {
    const size_t c = class_of(static_cast<int32_t>(t));
    const double share = static_cast<double>(tables_[t].rows) / std::max(1.0, rows[c]);
    passing_[t].first_rows = static_cast<int64_t>(static_cast<double>(class_spare_[c]) * share) + 1;
  }
}

void Prefill::offer(int32_t table, int64_t key, std::span<const std::byte> row) {
  Passing& p = passing_[static_cast<size_t>(table)];
  if (p.next < p.end && chosen_[p.next].key == key) {
    cache_->preload(table, key, row, chosen_[p.next++].heat);
  } else if (key < p.first_rows && !is_elsewhere(table, key) && take_place(table, key)) {
    cache_->preload(table, key, row);
  }
}

Status Prefill::fetch_rest(int32_t table, RowSource& source) {
  Passing& p = passing_[static_cast<size_t>(table)];
  while (p.next < p.end) {
    const size_t n = std::min(kFetchAtOnce, p.end - p.next);
    DPI_RETURN_IF_ERROR(fetch(table, std::span(chosen_).subspan(p.next, n), source));
    p.next += n;
  }
  return {};
}

Status Prefill::fetch(int32_t table, std::span<const Chosen> rows, RowSource& source) {
  const auto row_bytes = static_cast<size_t>(cache_->source_bytes(table));
  std::vector<std::byte> bytes(rows.size() * row_bytes);
  std::vector<std::byte*> to;
  std::vector<int64_t> keys;
  for (size_t i = 0; i < rows.size(); ++i) {
    keys.push_back(rows[i].key);
    to.push_back(bytes.data() + i * row_bytes);
  }
  uint64_t found[kFetchAtOnce / 64] = {};
  DPI_RETURN_IF_ERROR(source.fetch({table, keys, to.data(), found, 0}));
  for (size_t i = 0; i < rows.size(); ++i) {
    if ((found[i / 64] >> (i % 64) & 1) != 0)
      cache_->preload(table, keys[i], {to[i], row_bytes}, rows[i].heat);
  }
  return {};
}

}  // namespace dpi::tiered
