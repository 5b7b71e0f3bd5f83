// A context's part in the host cache: its line of the epochs, its counters, its ring of samples, and
// room for the misses of its largest call. One call at a time. Made by HostCache::make_reader, off the path
// of calls.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "store/tiered/cache_member.hpp"
#include "store/tiered/shard.hpp"
#include "store/tiered/store_health.hpp"

namespace dpi::tiered {

/// One id column of a call: keys in, places out.
struct CacheLookup {
  int32_t table = 0;
  const int64_t* keys = nullptr;
  int64_t n = 0;
  int32_t* places = nullptr;  // [n]; undefined when the call fails
};

/// Places of sampled hits, overwritten when nobody drains them.
class SampleRing {
 public:
  static constexpr uint64_t kEntries = 1024;
  void push(int32_t table, int32_t place) {
    const uint64_t at = StdSync::own(end_);
    const uint64_t entry = static_cast<uint64_t>(table) << 32 | static_cast<uint32_t>(place);
    StdSync::store(entries_[at % kEntries], entry, std::memory_order_relaxed);
    StdSync::store(end_, at + 1, std::memory_order_relaxed);
  }
  /// By one thread at a time. What was overwritten is lost, and an entry may be seen twice.
  template <class Take>
  void drain(Take&& take) {
    const uint64_t end = StdSync::load(end_, std::memory_order_relaxed);
    uint64_t at = end - drained_ > kEntries ? end - kEntries : drained_;
    for (; at < end; ++at) {
      const uint64_t e = StdSync::load(entries_[at % kEntries], std::memory_order_relaxed);
      take(static_cast<int32_t>(e >> 32), static_cast<int32_t>(e & UINT32_MAX));
    }
    drained_ = end;
  }

 private:
  alignas(64) uint64_t end_ = 0;
  uint64_t entries_[kEntries] = {};
  alignas(64) uint64_t drained_ = 0;
};

/// Which of a call's keys are sampled: one in `step`, from a first one that is drawn anew for each call.
/// Calls that ask for the same keys in the same order would else have the same few of them sampled for ever.
class SampleSteps {
 public:
  /// seed: of the reader, so that readers draw apart.
  explicit SampleSteps(uint64_t seed = 0) : state_(seed) {}
  void begin(int64_t step) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    step_ = step;
    at_ = static_cast<int64_t>((state_ >> 32) * static_cast<uint64_t>(step) >> 32);
  }
  /// Each sampled number of the call's next n keys, counted from 0.
  template <class Take>
  void of_next(int64_t n, Take&& take) {
    for (; at_ < n; at_ += step_) take(at_);
    at_ -= n;
  }

 private:
  uint64_t state_;
  int64_t at_ = 0, step_ = kSampledOneIn;
};

/// A distinct key that was not in the host tier.
struct Miss {
  HashedKey key;
  int32_t table = 0;
  int32_t place = Directory::kMissing;
  int32_t fetch = -1;  // until it has landed
  bool waited = false;
  DownPolicy down = DownPolicy::kAsMiss;  // another one: its store is down, and this decides
  uint32_t entry = 0;                     // of the table of distinct keys
  Shard* shard = nullptr;
  int32_t route = -1;  // in its store; -1: nothing of it is down, so nobody has asked
};

struct CacheReader {
  struct Missed {
    int32_t lookup = 0;
    int32_t miss = -1;
    int64_t at = 0;
  };

  CacheMember* member = nullptr;  // whose reader it is
  Epochs::Line* line = nullptr;
  bool inside = false;  // an acquire that has not been released
  int64_t max_keys = 0;
  SampleSteps steps;
  std::vector<TableCounts> counts;  // per table
  SampleRing samples;
  std::vector<Missed> missed;  // capacity max_keys, as that of the next two
  std::vector<Miss> misses;
  std::vector<int32_t> held;       // places for a call that finds the tier full
  std::vector<PlaceStack> stacks;  // per shard, into held
  std::vector<int32_t> wanted;     // per shard
  std::vector<int32_t> distinct;   // hash table of indices into misses + 1
  std::vector<int64_t> gained;     // per table: keys that a call found when it looked again, and not at first

  uint64_t bytes() const {
    return sizeof *this + missed.capacity() * sizeof(Missed) + misses.capacity() * sizeof(Miss) +
           (held.capacity() + distinct.capacity()) * sizeof(int32_t);
  }
};

}  // namespace dpi::tiered
