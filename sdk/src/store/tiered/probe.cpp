// The path of every call: keys -> places, in groups. While one group is looked up, the buckets of the next
// are asked of memory one by one, and the second buckets of the one before are on their way. No lock, no
// allocation, no write but to the reader's own lines.
#include <algorithm>

#include "base/prefetch.hpp"
#include "store/tiered/host_cache.hpp"
#include "store/tiered/probe_keys.hpp"

namespace dpi::tiered {

namespace {

constexpr int32_t kGroup = 64;  // about what a core has under way when memory is slow
constexpr int32_t kSteps = 3;   // filled, looked at, finished

}  // namespace

/// Nothing in it is set before it is used: a call of one row would pay for all of it.
struct HostCache::Group {
  /// Keys [first, first + n) of a lookup.
  struct Piece {
    int32_t lookup, n;
    int64_t first;
  };
  uint64_t hash[kGroup];
  const Directory::Bucket* bucket[kGroup];
  Piece pieces[kGroup];
  int32_t n_keys, n_pieces, n_late;
  /// Keys that are not in their first bucket, or in no tier.
  struct Late {
    int16_t piece;
    int16_t at;    // in the piece
    int16_t hash;  // in the group
  };
  Late late[kGroup + 1];  // one is written before it is known to count

  void prefetch() const {
    for (int32_t i = 0; i < n_keys; ++i) prefetch_line(bucket[i]);
  }
};

void HostCache::probe(CacheReader& r, std::span<const CacheLookup> lookups) const {
  Group ring[kSteps];
  int64_t n_groups = 0;
  Group* g = nullptr;  // that is being filled
  const auto group = [&](int64_t n) { return &ring[n % kSteps]; };
  const auto filled = [&] {
    if (n_groups == 0) g->prefetch();
    if (n_groups >= 1) look(r, lookups, group(n_groups - 1), g);
    if (n_groups >= 2) finish(r, lookups, *group(n_groups - 2));
    ++n_groups;
    g = nullptr;
  };
  for (size_t l = 0; l < lookups.size(); ++l) {
    const CacheLookup& lookup = lookups[l];
    const Table& table = tables_[static_cast<size_t>(lookup.table)];
    for (int64_t first = 0; first < lookup.n;) {
      if (g == nullptr) g = group(n_groups), g->n_keys = g->n_pieces = g->n_late = 0;
      const auto n = static_cast<int32_t>(std::min<int64_t>(lookup.n - first, kGroup - g->n_keys));
      probe_keys().hash(*table.directory, table.code, lookup.keys + first, n, g->hash + g->n_keys,
                        g->bucket + g->n_keys);
      g->pieces[g->n_pieces++] = {static_cast<int32_t>(l), n, first};
      g->n_keys += n;
      first += n;
      if (g->n_keys == kGroup) filled();
    }
  }
  if (g != nullptr) filled();
  if (n_groups >= 1) look(r, lookups, group(n_groups - 1), nullptr);
  for (int64_t n = std::max<int64_t>(0, n_groups - 2); n < n_groups; ++n) finish(r, lookups, *group(n));
}

/// Looks into first buckets, and asks for the second ones where that was not enough. Between one key and the
/// next it asks for a bucket of the group behind, which has at most as many: memory is never waited for
/// alone.
void HostCache::look(CacheReader& r, std::span<const CacheLookup> lookups, Group* g,
                     const Group* behind) const {
  int32_t at = 0;
  const int32_t n_behind = behind != nullptr ? behind->n_keys : 0;
  for (int32_t p = 0; p < g->n_pieces; ++p) {
    const auto& piece = g->pieces[p];
    const CacheLookup& lookup = lookups[static_cast<size_t>(piece.lookup)];
    const Table& table = tables_[static_cast<size_t>(lookup.table)];
    int32_t* places = lookup.places + piece.first;
    const int32_t ahead = std::clamp(n_behind - at, 0, piece.n);
    const auto part = [&](int32_t from, int32_t n, const Directory::Bucket* const* next) {
      probe_keys().look(*table.directory, table.code, lookup.keys + piece.first + from, g->hash + at + from,
                        g->bucket + at + from, n, next, places + from);
    };
    if (ahead > 0) part(0, ahead, behind->bucket + at);
    if (ahead < piece.n) part(ahead, piece.n - ahead, g->bucket + at + ahead);
    const int32_t before = g->n_late;
    for (int32_t i = 0; i < piece.n; ++i, ++at) {
      g->late[g->n_late] = {static_cast<int16_t>(p), static_cast<int16_t>(i), static_cast<int16_t>(at)};
      g->n_late += places[i] < 0;
    }
    for (int32_t i = before; i < g->n_late; ++i) table.directory->prefetch_second(g->hash[g->late[i].hash]);
    add_count(&r.counts[static_cast<size_t>(lookup.table)].hits, piece.n);
  }
}

/// Looks further for the late ones, and samples all.
void HostCache::finish(CacheReader& r, std::span<const CacheLookup> lookups, const Group& g) const {
  for (int32_t i = 0; i < g.n_late; ++i) {
    const auto& late = g.late[i];
    const auto& piece = g.pieces[late.piece];
    const CacheLookup& lookup = lookups[static_cast<size_t>(piece.lookup)];
    const Table& table = tables_[static_cast<size_t>(lookup.table)];
    int32_t& place = lookup.places[piece.first + late.at];
    if (place == Directory::kMissing)
      place = table.directory->find(table.code, g.hash[late.hash], lookup.keys[piece.first + late.at]);
    if (place >= 0) continue;
    add_count(&r.counts[static_cast<size_t>(lookup.table)].hits, -1);
    if (place == Directory::kMissing) r.missed.push_back({piece.lookup, -1, piece.first + late.at});
    if (place == Directory::kMissing) continue;
    place = table.default_place;
    add_count(&r.counts[static_cast<size_t>(lookup.table)].absent, 1);
  }
  for (int32_t p = 0; p < g.n_pieces; ++p) {
    const auto& piece = g.pieces[p];
    const CacheLookup& lookup = lookups[static_cast<size_t>(piece.lookup)];
    sample(r, lookup.table, lookup.places + piece.first, piece.n);
  }
}

/// One in 16 of the hits; of a call with more samples than the ring holds as many fewer, from all of its
/// tables.
void HostCache::sample(CacheReader& r, int32_t number, const int32_t* places, int64_t n) const {
  const Table& table = tables_[static_cast<size_t>(number)];
  r.steps.of_next(n, [&](int64_t at) {
    if (places[at] >= 0 && places[at] < table.class_places) r.samples.push(number, places[at]);
  });
}

}  // namespace dpi::tiered
