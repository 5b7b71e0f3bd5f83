// Which rows stay: least frequently used, decayed, learned from every miss and one hit in 16. Hits write
// nothing shared: readers put sampled places into rings of their own, whoever fetches drains them into
// `heat`, one byte per place. A miss is counted for its key in a sketch, four counters of four bits per
// place; its row comes as warm as that count, and when it goes, its heat stays in the sketch. A row that was
// fetched is on probation, first in, first out; then it meets the coldest of some other rows, and the colder
// of the two goes, the newcomer when they are equal. So a row that is asked for once passes through a small
// part of the places and pushes out only what is colder: rows that were loaded and never asked for, or long
// ago.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "store/tiered/sync.hpp"

namespace dpi::tiered {

constexpr int32_t kSampledOneIn = 16;
constexpr int32_t kSampleHeat = 4;         // of the lookups that a sample stands for: one may be chance
constexpr int32_t kSamplesPerCooling = 8;  // rows that just belong here are seen once in 20 lookups a place
/// The heat that a row gains between two halvings if its share of the hits is one place's.
constexpr int32_t kHeatOfShare = kSampleHeat * kSamplesPerCooling;

/// A key as a list of the writer remembers it.
struct LinkedKey {
  uint32_t code = 0;
  int64_t key = 0;
  uint64_t since_ns = 0;
};

/// First in, first out, of fixed capacity.
class KeyRing {
 public:
  explicit KeyRing(int32_t capacity) : ring_(static_cast<size_t>(capacity)) {}
  bool full() const { return count_ == ring_.size(); }
  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t capacity() const { return ring_.size(); }
  const LinkedKey& front() const { return ring_[head_]; }
  void push(const LinkedKey& k) { ring_[(head_ + count_++) % ring_.size()] = k; }
  void pop() {
    head_ = (head_ + 1) % ring_.size();
    --count_;
  }

 private:
  std::vector<LinkedKey> ring_;
  size_t head_ = 0, count_ = 0;
};

/// One per shard, used under the shard's lock except for warm().
class Admission {
 public:
  explicit Admission(int32_t places);

  /// A sampled hit; by one thread at a time, beside the others' calls: two that write a byte at once may
  /// count as one. One sample in kSamplesPerCooling also halves the heat of one place in turn, so a heat is
  /// halved once per kSamplesPerCooling * `places` samples.
  void warm(int32_t local_place) {
    set_heat(local_place, std::min(heat(local_place) + kSampleHeat, 255));
    if (++n_warmed_ % kSamplesPerCooling != 0) return;
    set_heat(cooling_, heat(cooling_) / 2);
    cooling_ = cooling_ + 1 < static_cast<int32_t>(heat_.size()) ? cooling_ + 1 : 0;
  }
  /// A key that had to be fetched.
  void missed(uint64_t h);
  /// The row of a key came. heat: known of it from elsewhere.
  void admit(uint64_t h, int32_t local_place, uint8_t heat);
  /// The row goes.
  void evicted(uint64_t h, int32_t local_place);
  uint8_t heat(int32_t local_place) const { return StdSync::own(heat_[static_cast<size_t>(local_place)]); }
  int count(uint64_t h) const;

 private:
  void set_heat(int32_t local_place, int heat) {
    StdSync::store(heat_[static_cast<size_t>(local_place)], static_cast<uint8_t>(heat),
                   std::memory_order_relaxed);
  }
  static constexpr int kMostCounted = 15;
  size_t counter(uint64_t h, int which) const;
  int counted(size_t counter) const { return sketch_[counter / 2] >> (counter % 2 * 4) & kMostCounted; }
  void raise(uint64_t h, int count);

  std::vector<uint8_t> heat_;
  std::vector<uint8_t> sketch_;  // two counters in a byte
  int32_t cooling_ = 0;
  uint32_t n_warmed_ = 0;
  size_t n_missed_ = 0;  // since all counts were halved
};

}  // namespace dpi::tiered
