// The places of one shard that hold no row a reader may look for: free ones, and unlinked ones that wait
// until their readers have left. Four bytes a place, all taken when it is made. Used under the shard's lock.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace dpi::tiered {

class PlacePool {
 public:
  PlacePool() = default;
  /// Places [first, first + count), all free.
  PlacePool(int32_t first, int32_t count) : first_(first), next_(static_cast<size_t>(count), -1) {
    for (int32_t i = count - 1; i >= 0; --i) give(first + i);
  }

  bool take(int32_t* place) {
    if (free_ < 0) return false;
    *place = free_;
    free_ = next(free_);
    --n_free_;
    return true;
  }
  /// A place that no reader has seen.
  void give(int32_t place) {
    next(place) = free_;
    free_ = place;
    ++n_free_;
  }
  /// A place that was unlinked before the bump that returned `epoch`, which never falls.
  void retire(int32_t place, uint64_t epoch) {
    if (count_ == 0 || newest().epoch != epoch) add_batch(epoch);
    next(place) = -1;
    (n_waiting_ > 0 ? next(last_) : oldest_) = place;
    last_ = place;
    ++newest().places;
    ++n_waiting_;
  }
  /// Frees what was retired before the epoch `oldest`.
  void recycle(uint64_t oldest) {
    while (count_ > 0 && batches_[head_].epoch < oldest) {
      for (int32_t i = 0; i < batches_[head_].places; ++i) {
        const int32_t place = oldest_;
        oldest_ = next(place);
        give(place);
      }
      n_waiting_ -= batches_[head_].places;
      head_ = (head_ + 1) % kBatches;
      --count_;
    }
  }

  int32_t n_free() const { return n_free_; }
  int32_t n_waiting() const { return n_waiting_; }

 private:
  static constexpr int32_t kBatches = 64;
  struct Batch {
    uint64_t epoch = 0;
    int32_t places = 0;
  };
  Batch& newest() { return batches_[(head_ + count_ - 1) % kBatches]; }
  /// When there is no room for a batch the newest waits a little longer.
  void add_batch(uint64_t epoch) {
    if (count_ < kBatches)
      batches_[(head_ + count_++) % kBatches] = {epoch, 0};
    else
      newest().epoch = epoch;
  }
  int32_t& next(int32_t place) { return next_[static_cast<size_t>(place - first_)]; }

  int32_t first_ = 0;
  std::vector<int32_t> next_;  // of a free or a waiting place
  int32_t free_ = -1, n_free_ = 0;
  int32_t oldest_ = -1, last_ = -1, n_waiting_ = 0;
  std::array<Batch, kBatches> batches_{};  // a ring, epochs ascending
  int32_t head_ = 0, count_ = 0;
};

}  // namespace dpi::tiered
