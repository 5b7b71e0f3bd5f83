// Sleeping on one word until another thread changes it: Linux's futex, private to the process.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace dpi {

/// Sleeps while `word` holds `seen`, at most until `until_ns` (monotonic_ns; 0 = without limit). Returns
/// early now and then: the caller looks at the word again.
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t seen, uint64_t until_ns) {
  timespec until{};
  until.tv_sec = static_cast<time_t>(until_ns / 1'000'000'000u);
  until.tv_nsec = static_cast<decltype(until.tv_nsec)>(until_ns % 1'000'000'000u);
  syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, seen, until_ns == 0 ? nullptr : &until, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

/// Wakes one thread that sleeps on the word at this address. The word is not read, so it may be gone already;
/// whoever sleeps on what lies there by then looks at its own word again.
inline void futex_wake(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// Wakes all that sleep on the word at this address.
inline void futex_wake_all(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace dpi
