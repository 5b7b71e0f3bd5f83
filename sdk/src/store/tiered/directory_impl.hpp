// The bodies of directory.hpp; included by it alone.
#pragma once

#include <bit>

#include "store/tiered/directory.hpp"

namespace dpi::tiered {

template <class Sync, int kEntries>
inline uint32_t DirectoryT<Sync, kEntries>::same_keys(const Bucket& b, int64_t key) {
  uint32_t same = 0;  // all keys are compared: where the match lies cannot be predicted
#pragma GCC unroll 5
  for (int i = 0; i < kEntries; ++i)
    same |= static_cast<uint32_t>(Sync::load(b.key[i], std::memory_order_acquire) == key) << i;
  return same;
}

template <class Sync, int kEntries>
inline int32_t DirectoryT<Sync, kEntries>::cell(const Bucket& b, int i, uint32_t code, int32_t shard,
                                                int64_t key) const {
  constexpr auto kAcquire = std::memory_order_acquire;
  const uint32_t word = Sync::load(b.word[i], kAcquire);
  const bool same = Sync::load(b.key[i], kAcquire) == key;
  const bool stayed = Sync::load(b.word[i], kAcquire) == word;
  const bool of_table = word >> shape_.place_bits == code;  // else empty, or the same key of another table
  const int32_t place = place_of(word, shard);
  return (same & stayed & of_table) ? place : kMissing;
}

template <class Sync, int kEntries>
inline int32_t DirectoryT<Sync, kEntries>::in_bucket(const Bucket& b, uint32_t code, int32_t shard,
                                                     int64_t key) const {
  for (uint32_t same = same_keys(b, key); same != 0; same &= same - 1) {
    const int32_t place = cell(b, std::countr_zero(same), code, shard, key);
    if (place != kMissing) return place;
  }
  return kMissing;
}

template <class Sync, int kEntries>
int32_t DirectoryT<Sync, kEntries>::find_rest(const TableCode& t, uint64_t h, int64_t key) const {
  const int32_t shard = shard_of(h);
  int32_t place = in_bucket(buckets_[second_of(h)], t.code, shard, key);
  for (int32_t s = 0; s < stash_buckets_ && place == kMissing; ++s)
    place = in_bucket(stash(shard)[s], t.code, shard, key);
  return place;
}

template <class Sync, int kEntries>
auto DirectoryT<Sync, kEntries>::cell_of(const TableCode& t, uint64_t h, int64_t key) const -> Cell {
  const auto look = [&](Bucket& b) -> Cell {
    for (int i = 0; i < kEntries; ++i) {
      if (Sync::own(b.word[i]) >> shape_.place_bits == t.code && Sync::own(b.key[i]) == key) return {&b, i};
    }
    return {};
  };
  Cell c = look(buckets_[first_of(h)]);
  if (c.bucket == nullptr) c = look(buckets_[second_of(h)]);
  for (int32_t s = 0; s < stash_buckets_ && c.bucket == nullptr; ++s) c = look(stash(shard_of(h))[s]);
  return c;
}

template <class Sync, int kEntries>
bool DirectoryT<Sync, kEntries>::free_cell(Bucket& b, Cell* to) {
  for (int i = 0; i < kEntries; ++i) {
    if (Sync::own(b.word[i]) != 0) continue;
    *to = {&b, i};
    return true;
  }
  return false;
}

/// A free cell of the bucket; where there is none, one of its keys moves to that key's second bucket, in
/// which up to moves - 1 keys have moved before. A key that lies in its second bucket stays: readers look one
/// way only.
template <class Sync, int kEntries>
bool DirectoryT<Sync, kEntries>::make_room(int64_t bucket, int moves, Cell* to) {
  Bucket& b = buckets_[bucket];
  if (free_cell(b, to)) return true;
  for (int i = 0; i < kEntries && moves > 0; ++i) {
    const int64_t key = Sync::own(b.key[i]);
    const uint32_t word = Sync::own(b.word[i]);
    const uint64_t h = hash(table(word >> shape_.place_bits), key);
    Cell free;
    if (first_of(h) != bucket || second_of(h) == bucket || !make_room(second_of(h), moves - 1, &free))
      continue;
    fill(free, key, word);
    *to = {&b, i};
    clear(*to);
    return true;
  }
  return false;
}

template <class Sync, int kEntries>
bool DirectoryT<Sync, kEntries>::insert(const TableCode& t, uint64_t h, int64_t key, int32_t place) {
  Cell c;
  bool found = false;
  for (int moves = 0; moves <= kMoves && !found; ++moves)
    found = make_room(first_of(h), moves, &c) || make_room(second_of(h), moves, &c);
  for (int32_t s = 0; s < stash_buckets_ && !found; ++s) found = free_cell(stash(shard_of(h))[s], &c);
  if (found) fill(c, key, word_of(t.code, shard_of(h), place));
  return found;
}

template <class Sync, int kEntries>
int32_t DirectoryT<Sync, kEntries>::erase(const TableCode& t, uint64_t h, int64_t key) {
  const Cell c = cell_of(t, h, key);
  if (c.bucket == nullptr) return kMissing;
  const int32_t place = place_of(Sync::own(c.bucket->word[c.entry]), shard_of(h));
  clear(c);
  return place;
}

template <class Sync, int kEntries>
int32_t DirectoryT<Sync, kEntries>::replace(const TableCode& t, uint64_t h, int64_t key, int32_t place) {
  const Cell c = cell_of(t, h, key);
  if (c.bucket == nullptr) return kMissing;
  const int32_t before = place_of(Sync::own(c.bucket->word[c.entry]), shard_of(h));
  Sync::store(c.bucket->word[c.entry], word_of(t.code, shard_of(h), place), std::memory_order_release);
  return before;
}

}  // namespace dpi::tiered
