// Which rows stay: least frequently used, decayed, learned from one access in 16. Reads write nothing shared:
// readers put sampled places into rings of their own, whoever fetches drains them into `heat`, one byte per
// place. A key that is not here is counted in a sketch of one byte per place, and takes its count along when
// its row comes; when the row goes, its heat stays in the sketch. A row whose key was never counted is on
// probation: first in, first out, unless a sample warms it meanwhile. So rows that are asked for once pass
// through a small part of the places and push nothing out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "store/tiered/sync.hpp"

namespace dpi::tiered {

constexpr int32_t kSampledOneIn = 16;

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

/// Of one shard; used under its lock, but for warm().
class Admission {
 public:
  explicit Admission(int32_t places);

  /// A sampled hit; by one thread at a time, beside the others' calls: two that write a byte at once may
  /// count as one. Each sample also halves the heat of one place in turn, so a heat is halved once per
  /// `places` samples.
  void warm(int32_t local_place) {
    const int now = heat(local_place);
    set_heat(local_place, std::min(now + 1, 255));
    set_heat(cooling_, heat(cooling_) / 2);
    cooling_ = cooling_ + 1 < static_cast<int32_t>(heat_.size()) ? cooling_ + 1 : 0;
  }
  /// A key that had to be fetched; one in 16 counts.
  void missed(uint64_t h);
  /// The row of a key came. heat: known of it from elsewhere. True: it is on probation.
  bool admit(uint64_t h, int32_t local_place, uint8_t heat = 0);
  /// The row goes.
  void evicted(uint64_t h, int32_t local_place);
  uint8_t heat(int32_t local_place) const { return StdSync::own(heat_[static_cast<size_t>(local_place)]); }
  uint8_t count(uint64_t h) const;

 private:
  void set_heat(int32_t local_place, int heat) {
    StdSync::store(heat_[static_cast<size_t>(local_place)], static_cast<uint8_t>(heat),
                   std::memory_order_relaxed);
  }
  uint8_t& counter(uint64_t h, int which);

  std::vector<uint8_t> heat_;
  std::vector<uint8_t> sketch_;  // a power of two
  int32_t cooling_ = 0;
  uint32_t n_missed_ = 0;
  size_t n_counted_ = 0;  // since all counts were halved
};

}  // namespace dpi::tiered
