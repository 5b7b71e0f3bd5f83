// A word that threads sleep on until it changes. Who changes it makes a system call only while somebody
// sleeps.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "runtime/execute/call_shares.hpp"

namespace dpi {

class WaitWord {
 public:
  explicit WaitWord(uint32_t value = 0) : value_(value) {}

  uint32_t get() const { return value_.load(std::memory_order_seq_cst); }
  /// Before others see the word's object.
  void reset(uint32_t value) { value_.store(value, std::memory_order_relaxed); }
  void set(uint32_t value) {
    value_.store(value, std::memory_order_seq_cst);
    wake();
  }
  void add(uint32_t n) {
    value_.fetch_add(n, std::memory_order_seq_cst);
    wake();
  }
  bool change(uint32_t from, uint32_t to) {
    return value_.compare_exchange_strong(from, to, std::memory_order_seq_cst);
  }
  /// Returns when the word is no longer `seen`, at until_ns (0 = never), or early.
  void sleep(uint32_t seen, uint64_t until_ns) {
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (value_.load(std::memory_order_seq_cst) == seen) futex_wait(value_, seen, until_ns);
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// After a change elsewhere that sleepers look for too.
  void wake() {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) futex_wake_all(&value_);
  }

 private:
  std::atomic<uint32_t> value_;
  std::atomic<uint32_t> sleepers_{0};
};

/// Sleeps until ready(value of the word), the deadline, or one of the flags: the caller's, and `abort`, which
/// may be null and whose setter wakes the word until everybody has left. look_ns: ready is asked then too, 0
/// = only when the word changes.
template <class Ready>
Status await(WaitWord& word, const RunControl& control, const int32_t* abort, Ready&& ready,
             uint64_t look_ns = 0) {
  constexpr uint64_t kPollNs = 1'000'000;  // how often a sleeper looks at its cancel flag
  for (;;) {
    const uint32_t seen = word.get();
    if (ready(seen)) return {};
    DPI_RETURN_IF_ERROR(check_control(control));
    if (abort != nullptr && __atomic_load_n(abort, __ATOMIC_SEQ_CST) != 0)
      return {Code::kCancelled, "the batcher was closed"};
    uint64_t until = control.deadline_ns;
    if (look_ns != 0) until = until == 0 ? look_ns : std::min(until, look_ns);
    if (control.cancel != nullptr) {
      const uint64_t look = monotonic_ns() + kPollNs;
      until = until == 0 ? look : std::min(until, look);
    }
    word.sleep(seen, until);
  }
}

}  // namespace dpi
