// One shard of a size class: the only writer of its part of the directory, its places, what is being fetched
// into it, and which keys are known to be absent. Every function takes the shard's lock; all memory is taken
// when it is made.
//
//   miss:   claim(key) -> a place after all | joined a fetch that is under way | started one
//   fetch:  row(place) is written, then publish(fetch) or fail(fetch)
//   caller: poll(fetch) until it is done, or drop(fetch)
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/status.hpp"
#include "store/tiered/admission.hpp"
#include "store/tiered/copied_places.hpp"
#include "store/tiered/directory.hpp"
#include "store/tiered/epochs.hpp"
#include "store/tiered/place_pool.hpp"

namespace dpi::tiered {

using Epochs = EpochsT<StdSync>;

/// A key, looked for once.
struct HashedKey {
  TableCode table;
  uint64_t hash = 0;
  int64_t key = 0;
};

/// A key whose row is here, and how often it is asked for (admission.hpp).
struct WarmKey {
  int64_t key = 0;
  uint8_t heat = 0;
};

/// Places that a call holds for itself, in memory of its own.
struct PlaceStack {
  int32_t* at = nullptr;
  int32_t count = 0;
};

class Shard {
 public:
  struct Shape {
    int32_t number = 0;  // among all of a cache
    int32_t index = 0;   // in the directory
    int32_t places = 0;
    int32_t remembered = 1;
    int32_t fetches = 256;       // at most so many keys are being fetched
    uint64_t absent_age_ns = 0;  // for so long an absent key is not asked for again
  };
  /// copied: of its size class, or null: no row is copied elsewhere.
  Shard(const Shape& shape, Directory* directory, Epochs* epochs, CopiedPlaces* copied = nullptr);
  /// Its bytes beside its places' share of ArenaPlan.
  static uint64_t bytes_of_fetches(const Shape& shape);
  /// That memory as it is.
  uint64_t bytes() const {
    return sizeof *this + fetches_.capacity() * sizeof(Fetch) +
           (chains_.capacity() + unlinked_.capacity()) * sizeof(int32_t);
  }

  enum class Claim { kPlace, kJoined, kStarted, kNoPlace, kFull };
  struct Claimed {
    Claim what = Claim::kPlace;
    int32_t place = Directory::kMissing;  // kPlace: or kAbsent; kStarted: where the row is to be written
    int32_t fetch = -1;                   // kJoined, kStarted
  };
  /// wait: the caller will poll or drop the fetch. held: places to use before the shard's free ones, or
  /// null.
  Claimed claim(const HashedKey& k, bool wait, PlaceStack* held, uint64_t now_ns);

  /// heat: of a row that no call has asked for; without, the miss of a call is counted.
  void publish(int32_t fetch, bool found, uint64_t now_ns, std::optional<uint8_t> heat = std::nullopt);
  void fail(int32_t fetch, std::shared_ptr<const Status> why);

  struct Landed {
    int32_t place = Directory::kMissing;  // or kAbsent
    std::shared_ptr<const Status> failure;
  };
  /// Nothing while the fetch is under way; else the caller's hold is gone.
  std::optional<Landed> poll(int32_t fetch);
  /// Is a caller still waiting for a fetch that is under way?
  bool is_wanted(int32_t fetch) const;
  void drop(int32_t fetch);

  /// Moves free places to `to` until it has `count`, and evicts for what is missing. False: not yet, readers
  /// hold what was evicted.
  bool hold(int32_t count, PlaceStack* to);
  /// Free places beyond those that it keeps free for fetches.
  int32_t spare() const;
  void give_back(PlaceStack* places);
  /// Frees places that CopiedPlaces::unlink held back, since no copy of them can be found any more: they may
  /// be used again once today's readers have left.
  void left(const int32_t* places, int32_t n);
  /// Forgets absent keys that are too old.
  void expire(uint64_t now_ns);
  /// Unlinks all rows of a table and what is remembered of its absent keys: who asks next has them fetched.
  void forget_table(uint32_t code);
  void warm(int32_t place) { admission_.warm(place - first_); }
  /// Adds the keys of a table whose rows are here, each with its heat.
  void list_warm(uint32_t code, std::vector<WarmKey>* to) const;

  int32_t number() const { return shape_.number; }
  int32_t places() const { return shape_.places; }
  /// Rows that are linked, free places, places that wait for readers; places with any heat.
  struct Fill {
    int32_t linked = 0, free = 0, waiting = 0, absent = 0, in_flight = 0, warm = 0;
  };
  Fill fill() const;

 private:
  /// A key that is being fetched. Linked in a chain of its hash until it has landed, alive while held.
  struct Fetch {
    HashedKey key;
    int32_t place = -1;
    int32_t next = -1;
    int32_t holds = 0;
    bool landed = false;
    std::shared_ptr<const Status> failure;
  };

  int32_t& chain(uint64_t h) { return chains_[(h >> 24) & (chains_.size() - 1)]; }
  int32_t fetch_of(const HashedKey& k);
  void land(int32_t fetch);
  void release(int32_t fetch);
  bool take_place(PlaceStack* held, int32_t* place);
  void link(const HashedKey& k, int32_t place, std::optional<uint8_t> heat);
  void remember_absent(const HashedKey& k, uint64_t now_ns);
  void forget_oldest();
  void forget_old(uint64_t now_ns);
  void evict(int32_t count);
  void keep_some_free();
  bool pick(LinkedKey* victim);
  bool end_probation(LinkedKey* of, int* heat);
  int coldest_at_hand(LinkedKey* coldest);
  void unlink(const LinkedKey& victim);
  HashedKey hashed(const LinkedKey& k) const;

  const Shape shape_;
  Directory* const directory_;
  Epochs* const epochs_;
  CopiedPlaces* const copied_;
  const int32_t first_;      // place
  const int32_t keep_free_;  // so that the next fetch need not wait for readers

  mutable std::mutex mutex_;  // of the rest
  PlacePool pool_;
  Admission admission_;
  KeyRing probation_;
  KeyRing absent_;
  std::vector<Fetch> fetches_;
  std::vector<int32_t> chains_;
  int32_t spare_fetch_ = 0;  // chain of unused fetches
  int32_t linked_ = 0;
  int32_t fetching_ = 0;
  int32_t leaving_ = 0;  // unlinked places that are still copied elsewhere
  int32_t n_waiting() const { return pool_.n_waiting() + leaving_; }
  int64_t hand_ = 0;
  void retire_unlinked();
  std::vector<int32_t> unlinked_;  // until the bump
};

}  // namespace dpi::tiered
