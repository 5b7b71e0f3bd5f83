// Where is the row of (table, key)? A hashed directory of fixed size: key and table -> place, 32 bits. Every
// int64 is a legal key: whether a cell is empty is told by its word, not by its key.
//
//   cell = key (8 bytes) + word (4 bytes); word = table's code << place_bits | place, 0 = empty
//   bucket = 5 cells in one cache line; a key lies in its first bucket, in its second when that was full, or
//   in the stash of its shard when both were
//
// Any number of readers, without locks; one writer at a time per shard (a key's shard is part of its hash).
//
// Why readers need no lock. A cell is filled key first, then word; emptied by its word; and a word's place is
// not handed out again while a reader is in an epoch in which it was linked (epochs.hpp). A reader loads key,
// word, key, word (all acquire) and believes them when both pairs are equal:
//   - the cell cannot have gone from this word to another and back between its two loads, because the word's
//     place was not free in between;
//   - so the word stood there when the key was loaded in between, and a key changes only while the word is
//     another.
// The first load of the key is a hint only: it may be a vector's (probe_keys.cpp), which is neither atomic
// nor an acquire. Whoever finds nothing that way looks into the first bucket again, with loads that are.
// "Absent" is the one word that may come back for another key; then the second load of the key has acquired
// that key, and the last load of the word is not older than it, so the word belongs to this key.
// A key that moves is copied to its second bucket, then cleared in its first. Readers look at the first, then
// at the second; who found the first cleared has acquired the clearing store, and with it the copy.
// A reader may miss a key that is linked, replaced or moved while it looks: misses are looked up again by the
// writer before anything is fetched.
#pragma once

#include <cstdint>
#include <optional>

#include "base/prefetch.hpp"
#include "store/tiered/sync.hpp"

namespace dpi::tiered {

/// Mixes all bits of the key with the table's salt; a bijection of the key, so keys of a table never collide
/// in all 64 bits.
inline uint64_t mix_key(uint64_t salt, int64_t key) {
  uint64_t h = static_cast<uint64_t>(key) ^ salt;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  h = (h ^ (h >> 29)) * 0x9e6c63d0876a9a47u;
  return h ^ (h >> 32);
}

/// A table as a directory knows it. Codes are 1, 2, ...
struct TableCode {
  uint32_t code = 0;
  uint64_t salt = 0;
};

inline TableCode table_code(uint32_t code, uint64_t seed) { return {code, mix_key(seed, code) | 1}; }

struct DirectoryShape {
  int32_t shards = 1;             // a power of two
  int64_t buckets_per_shard = 1;  // >= 1, < 2^32
  int32_t places_per_shard = 0;   // places of shard s are [s * places_per_shard, (s + 1) * places_per_shard)
  int32_t place_bits = 0;         // hold 0 .. places_per_shard, the last of which means "absent"
  int32_t stash_per_shard = 8;    // cells
  uint64_t seed = 0;              // of the hash
};

/// The shape for this many places, `remembered` absent keys and `tables`, at a load of at most 0.75. Nothing
/// when tables and places do not fit one word together: take more shards.
std::optional<DirectoryShape> directory_shape(int32_t shards, int32_t places_per_shard, int32_t remembered,
                                              int64_t tables, uint64_t seed);

template <class Sync, int kEntries = 5>
class DirectoryT {
 public:
  static constexpr int32_t kMissing = -1;  // not linked, as far as a reader can tell
  static constexpr int32_t kAbsent = -2;   // known to be in no tier

  struct alignas(kEntries == 5 ? 64 : 8) Bucket {
    int64_t key[kEntries];
    uint32_t word[kEntries];
  };
  static_assert(kEntries != 5 || sizeof(Bucket) == 64);
  static constexpr int kKeysPerBucket = kEntries;

  static uint64_t bucket_count(const DirectoryShape& s) {
    const auto stash = static_cast<uint64_t>((s.stash_per_shard + kEntries - 1) / kEntries);
    return static_cast<uint64_t>(s.shards) * (static_cast<uint64_t>(s.buckets_per_shard) + stash);
  }
  static uint64_t bytes(const DirectoryShape& s) { return bucket_count(s) * sizeof(Bucket); }

  /// memory: bytes(shape), zeroed, aligned to a line; must outlive the directory.
  DirectoryT(const DirectoryShape& shape, void* memory)
      : shape_(shape),
        buckets_(static_cast<Bucket*>(memory)),
        stash_buckets_((shape.stash_per_shard + kEntries - 1) / kEntries),
        stash_(buckets_ + static_cast<int64_t>(shape.shards) * shape.buckets_per_shard) {}
  DirectoryT() = default;

  // --- readers, inside an epoch ---
  uint64_t hash(const TableCode& t, int64_t key) const { return mix_key(t.salt, key); }
  int32_t shard_of(uint64_t h) const {
    return static_cast<int32_t>(h & static_cast<uint64_t>(shape_.shards - 1));
  }
  /// The buckets in which the key of this hash may lie.
  int64_t first_of(uint64_t h) const { return in_shard(h, h); }
  int64_t second_of(uint64_t h) const { return in_shard(h, (h | 1) * 0xa24baed4963ee407u); }
  const Bucket& bucket(int64_t number) const { return buckets_[number]; }
  void prefetch_second(uint64_t h) const { prefetch_line(&buckets_[second_of(h)]); }
  /// Place, kAbsent or kMissing.
  int32_t find_first(const TableCode& t, uint64_t h, int64_t key) const {
    return in_bucket(buckets_[first_of(h)], t.code, shard_of(h), key);
  }
  int32_t find_rest(const TableCode& t, uint64_t h, int64_t key) const;
  int32_t find(const TableCode& t, uint64_t h, int64_t key) const {
    const int32_t place = find_first(t, h, key);
    return place != kMissing ? place : find_rest(t, h, key);
  }
  int32_t find(const TableCode& t, int64_t key) const { return find(t, hash(t, key), key); }

  /// Bits of the cells whose key is this one, empty ones among them: a hint for cell().
  static uint32_t same_keys(const Bucket& b, int64_t key);
  /// The place in this cell; kMissing unless it holds the key.
  int32_t cell(const Bucket& b, int i, uint32_t code, int32_t shard, int64_t key) const;

  // --- the shard's writer ---
  /// The key must not be linked. place: of the key's shard, or kAbsent. False: no cell is free; erase one of
  /// the keys that near() gives.
  bool insert(const TableCode& t, uint64_t h, int64_t key, int32_t place);
  /// The place that was unlinked, kAbsent, or kMissing when the key is not linked.
  int32_t erase(const TableCode& t, uint64_t h, int64_t key);
  /// Erases, and links `place` in the same store: readers find one or the other.
  int32_t replace(const TableCode& t, uint64_t h, int64_t key, int32_t place);

  /// visit(code, key, place) for every entry of a bucket in [0, buckets()), place = kAbsent for those.
  template <class Visit>
  void entries(int32_t shard, int64_t bucket, Visit&& visit) const {
    const int64_t in_stash = bucket - shape_.buckets_per_shard;
    visit_bucket(in_stash >= 0 ? stash(shard)[in_stash] : buckets_[shard * shape_.buckets_per_shard + bucket],
                 shard, visit);
  }
  int64_t buckets() const { return shape_.buckets_per_shard + stash_buckets_; }
  /// The same for the buckets in which a key of this hash may lie, but the stash.
  template <class Visit>
  void near(uint64_t h, Visit&& visit) const {
    visit_bucket(buckets_[first_of(h)], shard_of(h), visit);
    if (second_of(h) != first_of(h)) visit_bucket(buckets_[second_of(h)], shard_of(h), visit);
  }
  TableCode table(uint32_t code) const { return table_code(code, shape_.seed); }
  const DirectoryShape& shape() const { return shape_; }

 private:
  static constexpr int kMoves =
      2;  // in a row, for one insertion: then the stash stays empty at a load of 0.75

  struct Cell {
    Bucket* bucket = nullptr;
    int entry = 0;
  };

  /// The bucket of the shard of h that the high bits of `spread` name.
  int64_t in_shard(uint64_t h, uint64_t spread) const {
    // The high half of a product of 64 by 32 bits, in halves that vectors can multiply.
    const uint64_t n = static_cast<uint32_t>(shape_.buckets_per_shard);
    const uint64_t low = (spread & UINT32_MAX) * n >> 32, at = ((spread >> 32) * n + low) >> 32;
    return static_cast<int64_t>(static_cast<uint32_t>(shard_of(h)) * n + at);
  }
  Bucket* stash(int32_t shard) const { return stash_ + static_cast<int64_t>(shard) * stash_buckets_; }

  uint32_t word_of(uint32_t code, int32_t shard, int32_t place) const {
    const int32_t local =
        place == kAbsent ? shape_.places_per_shard : place - shard * shape_.places_per_shard;
    return code << shape_.place_bits | static_cast<uint32_t>(local);
  }
  int32_t place_of(uint32_t word, int32_t shard) const {
    const auto local = static_cast<int32_t>(word & ((1u << shape_.place_bits) - 1));
    return local == shape_.places_per_shard ? kAbsent : shard * shape_.places_per_shard + local;
  }
  int32_t in_bucket(const Bucket& b, uint32_t code, int32_t shard, int64_t key) const;

  /// The writer's view of its own cells.
  Cell cell_of(const TableCode& t, uint64_t h, int64_t key) const;
  static bool free_cell(Bucket& b, Cell* to);
  bool make_room(int64_t bucket, int moves, Cell* to);
  static void fill(const Cell& c, int64_t key, uint32_t word) {
    Sync::store(c.bucket->key[c.entry], key, std::memory_order_release);  // not before the cell was emptied
    Sync::store(c.bucket->word[c.entry], word, std::memory_order_release);
  }
  static void clear(const Cell& c) {
    Sync::store(c.bucket->word[c.entry], uint32_t{0}, std::memory_order_release);
  }
  template <class Visit>
  void visit_bucket(const Bucket& b, int32_t shard, Visit& visit) const {
    for (int i = 0; i < kEntries; ++i) {
      const uint32_t word = Sync::own(b.word[i]);
      if (word != 0) visit(word >> shape_.place_bits, Sync::own(b.key[i]), place_of(word, shard));
    }
  }

  DirectoryShape shape_;
  Bucket* buckets_ = nullptr;
  int32_t stash_buckets_ = 0;
  Bucket* stash_ = nullptr;
};

}  // namespace dpi::tiered

#include "store/tiered/directory_impl.hpp"

namespace dpi::tiered {

using Directory = DirectoryT<StdSync>;

}  // namespace dpi::tiered
