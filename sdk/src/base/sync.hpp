// How protocols without locks touch shared words. They are templates over this policy, so that the very same
// code runs over std::atomic_ref in the library and step by step under the scheduler of
// tests/support/tier_model.hpp, which tries every interleaving.
//
// Words are plain integers in zeroed memory, so that a block of any size is ready without being written.
#pragma once

#include <atomic>
#include <cstdint>

namespace dpi {

struct StdSync {
  static constexpr int32_t kLinesPerChunk = 32;  // readers that are made room for at once

  template <class T>
  static T load(const T& at, std::memory_order order) {
    return std::atomic_ref<T>(const_cast<T&>(at)).load(order);  // const loads come with C++26
  }
  template <class T>
  static void store(T& at, T value, std::memory_order order) {
    std::atomic_ref<T>(at).store(value, order);
  }
  template <class T>
  static T fetch_add(T& at, T value, std::memory_order order) {
    return std::atomic_ref<T>(at).fetch_add(value, order);
  }
  /// Sets `at` to `value` if it holds `expected`; true if it did.
  template <class T>
  static bool replace(T& at, T expected, T value, std::memory_order order) {
    return std::atomic_ref<T>(at).compare_exchange_strong(expected, value, order, std::memory_order_relaxed);
  }
  /// A word that nobody but the caller writes.
  template <class T>
  static T own(const T& at) {
    return load(at, std::memory_order_relaxed);
  }
};

}  // namespace dpi
