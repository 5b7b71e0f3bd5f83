#include "base/forks.hpp"

#include <pthread.h>

#include <atomic>

#include "base/at_load.hpp"

namespace dpi {

namespace {
std::atomic<uint64_t> g_fork_generation{0};
}  // namespace

uint64_t fork_generation() {
  static const int kRegistered =
      pthread_atfork(nullptr, nullptr, [] { g_fork_generation.fetch_add(1, std::memory_order_relaxed); });
  static_cast<void>(kRegistered);
  return g_fork_generation.load(std::memory_order_relaxed);
}

namespace {
const AtLoad g_counting([] { fork_generation(); });
}  // namespace

}  // namespace dpi
