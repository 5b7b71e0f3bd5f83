// Runs a few threads over shared words in every possible order, one access at a time, for protocols that are
// templates over a Sync policy (base/sync.hpp).
//
//   ThreadModel model;
//   model.track(&world, sizeof world);            // all memory that ModelSync touches
//   model.thread([&] { ... });                    // reads and writes shared words through ModelSync only
//   model.run();                                  // returns the failures that some order leads to
//
// A thread is advanced by one access by running its body again from the start: accesses it has made are
// answered from its history, the next one is made, and the one after that ends the run by an exception. So a
// body may keep what it likes in local variables, but must change nothing else that it reads. Two orders that
// lead to the same memory and the same histories have the same future, which is walked once: the walk is
// complete for sequentially consistent memory. Weaker orders of stores are looked at by swap_stores.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace dpi::test {

class ThreadModel {
 public:
  ThreadModel() { current() = this; }
  ~ThreadModel() { current() = nullptr; }
  ThreadModel(const ThreadModel&) = delete;
  ThreadModel& operator=(const ThreadModel&) = delete;
  static ThreadModel*& current() {
    static ThreadModel* model = nullptr;
    return model;
  }

  template <class T>
  void track(T* at, size_t bytes = sizeof(T)) {
    regions_.push_back({reinterpret_cast<std::byte*>(at), bytes});
  }
  void thread(std::function<void()> body) { threads_.push_back({std::move(body), {}, false}); }

  /// Planted fault: the n-th store of thread `t` becomes visible after the one that follows it.
  void swap_stores(size_t t, int n) { swap_thread_ = t, swap_ = n; }
  /// Planted fault: what thread `t` loads from [at, at + bytes) is 0.
  void blind(size_t t, const void* at, size_t bytes) {
    blind_ = {t, static_cast<const std::byte*>(at), bytes};
  }

  void fail(const std::string& text) { failures_.insert(text); }
  /// Failures by text; empty = no order leads to one.
  const std::set<std::string>& run() {
    explore();
    return failures_;
  }
  size_t states() const { return seen_.size(); }
  /// Stores that the thread made in its longest run.
  int stores(size_t t) const { return threads_[t].most_stores; }

  bool running() const { return running_; }

  template <class T, class F>
  T access(F&& f) {
    return static_cast<T>(step([&] { return static_cast<uint64_t>(f()); }));
  }
  template <class T>
  T load(const T& at) {
    const auto* p = reinterpret_cast<const std::byte*>(&at);
    if (blind_.bytes > 0 && active_ == blind_.thread && p >= blind_.at && p < blind_.at + blind_.bytes)
      return T{};
    return access<T>([&] { return at; });
  }
  template <class T>
  T change(T& at, std::function<T(T)> next) {
    const int n = n_stores_++;
    if (active_ == swap_thread_ && n == swap_) {
      held_ = [&at, next] { at = next(at); };
      return own(at);
    }
    const T before = access<T>([&] {
      const T old = at;
      at = next(at);
      return old;
    });
    if (active_ == swap_thread_ && n == swap_ + 1 && held_) {
      const auto held = std::exchange(held_, nullptr);
      access<uint64_t>([&] { return held(), 0; });
    }
    return before;
  }
  /// Only its own thread writes it, so reading it is no step.
  template <class T>
  T own(const T& at) {
    Thread& t = threads_[active_];
    if (cursor_ == t.history.size()) t.history.push_back(static_cast<uint64_t>(at));
    return static_cast<T>(t.history[cursor_++]);
  }

 private:
  struct Stop {};
  struct Thread {
    std::function<void()> body;
    std::vector<uint64_t> history;
    bool done = false;
    int most_stores = 0;
  };
  struct Region {
    std::byte* at;
    size_t bytes;
  };
  struct Blind {
    size_t thread = 0;
    const std::byte* at = nullptr;
    size_t bytes = 0;
  };

  uint64_t step(const std::function<uint64_t()>& f) {
    Thread& t = threads_[active_];
    if (cursor_ == t.history.size()) {
      if (moved_) throw Stop{};
      moved_ = true;
      t.history.push_back(f());
    }
    return t.history[cursor_++];
  }

  void advance(size_t t) {
    active_ = t, cursor_ = 0, moved_ = false, n_stores_ = 0, running_ = true;
    held_ = nullptr;
    try {
      threads_[t].body();
      threads_[t].done = true;
    } catch (const Stop&) {
    }
    threads_[t].most_stores = std::max(threads_[t].most_stores, n_stores_);
    running_ = false;
  }

  std::string memory() const {
    std::string all;
    for (const Region& r : regions_) all.append(reinterpret_cast<const char*>(r.at), r.bytes);
    return all;
  }
  void restore(const std::string& all) {
    size_t at = 0;
    for (const Region& r : regions_) {
      std::memcpy(r.at, all.data() + at, r.bytes);
      at += r.bytes;
    }
  }

  void explore() {
    const std::string before = memory();
    std::string state = before;
    for (const Thread& t : threads_) {
      const uint64_t size = t.history.size() * 2 + (t.done ? 1 : 0);
      state.append(reinterpret_cast<const char*>(&size), sizeof size);
      state.append(reinterpret_cast<const char*>(t.history.data()), t.history.size() * sizeof(uint64_t));
    }
    if (!seen_.insert(std::move(state)).second) return;
    for (size_t t = 0; t < threads_.size(); ++t) {
      if (threads_[t].done) continue;
      const std::vector<uint64_t> history = threads_[t].history;
      advance(t);
      explore();
      restore(before);
      threads_[t].history = history;
      threads_[t].done = false;
    }
  }

  std::vector<Region> regions_;
  std::vector<Thread> threads_;
  std::unordered_set<std::string> seen_;
  std::set<std::string> failures_;
  size_t active_ = 0, cursor_ = 0;
  bool moved_ = false, running_ = false;
  int n_stores_ = 0;
  size_t swap_thread_ = SIZE_MAX;
  int swap_ = -1;
  std::function<void()> held_;
  Blind blind_;
};

/// Outside ThreadModel::run a plain access.
struct ModelSync {
  static constexpr int32_t kLinesPerChunk = 2;

  static ThreadModel* model() {
    ThreadModel* m = ThreadModel::current();
    return m != nullptr && m->running() ? m : nullptr;
  }
  template <class T>
  static T load(const T& at, std::memory_order) {
    return model() != nullptr ? model()->load(at) : at;
  }
  template <class T>
  static void store(T& at, T value, std::memory_order) {
    if (model() == nullptr)
      at = value;
    else
      model()->change<T>(at, [value](T) { return value; });
  }
  template <class T>
  static T fetch_add(T& at, T value, std::memory_order) {
    if (model() == nullptr) return at += value, static_cast<T>(at - value);
    return model()->change<T>(at, [value](T old) { return static_cast<T>(old + value); });
  }
  template <class T>
  static bool replace(T& at, T expected, T value, std::memory_order) {
    if (model() == nullptr) return at == expected && (at = value, true);
    return model()->change<T>(at, [=](T old) { return old == expected ? value : old; }) == expected;
  }
  template <class T>
  static T own(const T& at) {
    return model() != nullptr ? model()->own(at) : at;
  }
};

}  // namespace dpi::test
