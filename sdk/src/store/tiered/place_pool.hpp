// The places of one shard that hold no row a reader may look for: free ones, and unlinked ones that wait
// until their readers have left. Takes all its memory when it is made. Used under the shard's lock.
#pragma once

#include <cstdint>
#include <vector>

namespace dpi::tiered {

class PlacePool {
 public:
  PlacePool() = default;
  /// Places [first, first + count), all free.
  PlacePool(int32_t first, int32_t count) : waiting_(static_cast<size_t>(count)) {
    free_.reserve(static_cast<size_t>(count));
    for (int32_t i = count - 1; i >= 0; --i) free_.push_back(first + i);
  }

  bool take(int32_t* place) {
    if (free_.empty()) return false;
    *place = free_.back();
    free_.pop_back();
    return true;
  }
  /// A place that no reader has seen.
  void give(int32_t place) { free_.push_back(place); }
  /// A place that was unlinked before the bump that returned `epoch`.
  void retire(int32_t place, uint64_t epoch) {
    waiting_[(head_ + count_++) % waiting_.size()] = {place, epoch};
  }
  /// Frees what was retired before the epoch `oldest`.
  void recycle(uint64_t oldest) {
    while (count_ > 0 && waiting_[head_].epoch < oldest) {
      free_.push_back(waiting_[head_].place);
      head_ = (head_ + 1) % waiting_.size();
      --count_;
    }
  }

  int32_t n_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t n_waiting() const { return static_cast<int32_t>(count_); }

 private:
  struct Waiting {
    int32_t place = 0;
    uint64_t epoch = 0;
  };
  std::vector<int32_t> free_;
  std::vector<Waiting> waiting_;  // a ring, epochs ascending
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace dpi::tiered
