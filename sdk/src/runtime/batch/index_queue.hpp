// A bounded queue of numbers for any number of threads on both ends, without locks: each cell has a turn that
// says who may use it next (Vyukov's bounded queue).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace dpi {

class IndexQueue {
 public:
  /// Room for `most` numbers at least.
  explicit IndexQueue(size_t most)
      : mask_(std::bit_ceil(most < 2 ? 2 : most) - 1), cells_(std::make_unique<Cell[]>(mask_ + 1)) {
    for (size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  /// False: it is full.
  bool push(uint64_t value) {
    size_t at = end_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const auto ahead = static_cast<std::ptrdiff_t>(cell.turn.load(std::memory_order_acquire) - at);
      if (ahead < 0) return false;
      if (ahead == 0 && end_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        cell.value = value;
        cell.turn.store(at + 1, std::memory_order_seq_cst);
        return true;
      }
      if (ahead > 0) at = end_.load(std::memory_order_relaxed);
    }
  }
  /// False: there is none, or the next one is just being put there.
  bool pop(uint64_t* value) {
    size_t at = begin_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const auto ahead = static_cast<std::ptrdiff_t>(cell.turn.load(std::memory_order_seq_cst) - (at + 1));
      if (ahead < 0) return false;
      if (ahead == 0 && begin_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
        *value = cell.value;
        cell.turn.store(at + mask_ + 1, std::memory_order_release);
        return true;
      }
      if (ahead > 0) at = begin_.load(std::memory_order_relaxed);
    }
  }
  /// True when pop would find one.
  bool any() const {
    const size_t at = begin_.load(std::memory_order_seq_cst);
    return cells_[at & mask_].turn.load(std::memory_order_seq_cst) == at + 1;
  }
  size_t bytes() const { return (mask_ + 1) * sizeof(Cell); }

 private:
  struct Cell {
    std::atomic<size_t> turn{0};
    uint64_t value = 0;
  };
  const size_t mask_;
  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<size_t> end_{0};
  alignas(64) std::atomic<size_t> begin_{0};
};

}  // namespace dpi
