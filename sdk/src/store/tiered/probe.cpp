// The path of every call: keys -> places, in groups, so that the buckets of a group are on their way from
// memory together. No lock, no allocation, no write but to the reader's own lines.
#include <algorithm>

#include "store/tiered/host_cache.hpp"

namespace dpi::tiered {

namespace {

constexpr int32_t kGroup = 256;

}  // namespace

struct HostCache::Group {
  /// Keys [first, first + n) of a lookup.
  struct Piece {
    int32_t lookup = 0;
    int32_t n = 0;
    int64_t first = 0;
  };
  uint64_t hash[kGroup];
  Piece pieces[kGroup];
  int32_t n_keys = 0;
  int32_t n_pieces = 0;
  /// Keys that are not in their first bucket.
  struct Late {
    int16_t piece = 0;
    int16_t at = 0;    // in the piece
    int16_t hash = 0;  // in the group
  };
  Late late[kGroup];
};

void HostCache::probe(CacheReader& r, std::span<const CacheLookup> lookups) const {
  Group g;
  for (size_t l = 0; l < lookups.size(); ++l) {
    const CacheLookup& lookup = lookups[l];
    const Table& table = tables_[static_cast<size_t>(lookup.table)];
    const Directory& directory = *table.directory;
    for (int64_t first = 0; first < lookup.n;) {
      const auto n = static_cast<int32_t>(std::min<int64_t>(lookup.n - first, kGroup - g.n_keys));
      for (int32_t i = 0; i < n; ++i) {
        const uint64_t h = directory.hash(table.code, lookup.keys[first + i]);
        g.hash[g.n_keys + i] = h;
        directory.prefetch_first(h);
      }
      g.pieces[g.n_pieces++] = {static_cast<int32_t>(l), n, first};
      g.n_keys += n;
      first += n;
      if (g.n_keys == kGroup) probe_group(r, lookups, &g);
    }
  }
  probe_group(r, lookups, &g);
}

void HostCache::probe_group(CacheReader& r, std::span<const CacheLookup> lookups, Group* g) const {
  int32_t n_late = 0, at = 0;
  for (int32_t p = 0; p < g->n_pieces; ++p) {
    const auto& piece = g->pieces[p];
    const CacheLookup& lookup = lookups[static_cast<size_t>(piece.lookup)];
    const Table& table = tables_[static_cast<size_t>(lookup.table)];
    const int64_t* keys = lookup.keys + piece.first;
    int32_t* places = lookup.places + piece.first;
    for (int32_t i = 0; i < piece.n; ++i, ++at) {
      places[i] = table.directory->find_first(table.code, g->hash[at], keys[i]);
      if (places[i] >= 0) continue;
      table.directory->prefetch_second(g->hash[at]);
      g->late[n_late++] = {static_cast<int16_t>(p), static_cast<int16_t>(i), static_cast<int16_t>(at)};
    }
    add_count(&r.counts[static_cast<size_t>(lookup.table)].hits, piece.n);
  }
  for (int32_t i = 0; i < n_late; ++i) {
    const auto& late = g->late[i];
    const auto& piece = g->pieces[late.piece];
    const CacheLookup& lookup = lookups[static_cast<size_t>(piece.lookup)];
    const Table& table = tables_[static_cast<size_t>(lookup.table)];
    int32_t& place = lookup.places[piece.first + late.at];
    if (place == Directory::kMissing)
      place = table.directory->find_rest(table.code, g->hash[late.hash], lookup.keys[piece.first + late.at]);
    if (place >= 0) continue;
    add_count(&r.counts[static_cast<size_t>(lookup.table)].hits, -1);
    if (place == Directory::kMissing) r.missed.push_back({piece.lookup, -1, piece.first + late.at});
    if (place == Directory::kMissing) continue;
    place = table.default_place;
    add_count(&r.counts[static_cast<size_t>(lookup.table)].absent, 1);
  }
  for (int32_t p = 0; p < g->n_pieces; ++p) {
    const auto& piece = g->pieces[p];
    const CacheLookup& lookup = lookups[static_cast<size_t>(piece.lookup)];
    sample(r, tables_[static_cast<size_t>(lookup.table)], lookup.places + piece.first, piece.n);
  }
  g->n_keys = g->n_pieces = 0;
}

/// One in 16 of the hits.
void HostCache::sample(CacheReader& r, const Table& table, const int32_t* places, int64_t n) const {
  int64_t at = r.sample_at;
  for (; at < n; at += kSampledOneIn) {
    if (places[at] >= 0 && places[at] < table.class_places) r.samples.push(table.size_class, places[at]);
  }
  r.sample_at = at - n;
}

}  // namespace dpi::tiered
