// A tier below that computes its rows, and may be slow, failing, or a liar; some rows it may have at hand.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/clock.hpp"
#include "store/tiered/row_source.hpp"

namespace dpi::test {

/// Element e of the row of a key. Rows are floats; every third negative key and key 7 are in no tier.
inline float element(int32_t table, int64_t key, int64_t e) {
  return static_cast<float>(table * 1000 + (key % 4093) + e * 5000) + 0.25f;
}
inline bool is_absent(int64_t key) { return key == 7 || (key < 0 && key % 3 == 0); }

class FakeSource final : public tiered::RowSource {
 public:
  explicit FakeSource(std::vector<int64_t> dims) : dims_(std::move(dims)) {}

  Status fetch(const tiered::FetchRequest& r) override {
    ++fetches;
    if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us.load()));
    {
      std::unique_lock<std::mutex> lock(mutex_);
      for (const int64_t k : r.keys) ++asked_[{r.table, k}];
      gate_.wait(lock, [&] { return !closed_; });
    }
    if (failing > 0 && failing-- > 0) return {failure, "the disk is gone"};
    const uint64_t lost = routes_down;
    bool any = false;
    for (size_t i = 0; i < r.keys.size(); ++i) {
      const bool fails = (lost >> route(r.table, r.keys[i]) & 1) != 0;
      if (fails && r.failed != nullptr) r.failed[i / 64] |= uint64_t{1} << (i % 64);
      if (!fails) give(r, i);
      any = any || fails;
    }
    if (any) return {failure, "no answer from the first that failed"};
    if (finds_too_much) r.found[r.keys.size() / 64] |= uint64_t{1} << (r.keys.size() % 64);
    return {};
  }

  /// Of several servers, keys go by what is left when they are divided by their number.
  int32_t route(int32_t, int64_t key) override {
    return static_cast<int32_t>((key % servers + servers) % servers);
  }
  std::vector<StoreNode> nodes(int32_t) override {
    std::vector<StoreNode> all;
    for (int32_t r = 0; r < servers && servers > 1; ++r) {
      StoreNode& node = all.emplace_back();
      node.address = "server" + std::to_string(r);
      node.route = r;
      node.down = (routes_down >> r & 1) != 0;
      if (node.down) node.last = {failure, node.address + (password_refused ? " says no" : " is gone"), 1};
    }
    return all;
  }

  /// Every element of a row is larger by so much when it was updated so often.
  static constexpr float kUpdated = 0.125f;
  int64_t sequence(int32_t) override { return updates; }

  /// Even keys, when it has any. The gate is not asked.
  void fetch_ready(const tiered::FetchRequest& r) override {
    ++readied;
    if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us.load()));
    ready_deadline_ns = r.deadline_ns;
    for (size_t i = 0; i < r.keys.size() && evens_at_hand; ++i) {
      if (r.keys[i] % 2 == 0) give(r, i);
    }
  }

  /// Fetches wait at the gate.
  void close_gate() { set_gate(true); }
  void open_gate() { set_gate(false); }
  int asked(int32_t table, int64_t key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return asked_[{table, key}];
  }

  std::atomic<int> fetches{0}, failing{0}, delay_us{0}, readied{0};
  std::atomic<uint64_t> ready_deadline_ns{0};
  std::atomic<int> updates{-1};          // -1: rows never change
  std::atomic<uint64_t> routes_down{0};  // bit r: rows of server r fail
  int32_t servers = 1;
  std::atomic<bool> password_refused{false};
  std::atomic<bool> evens_at_hand{false}, writes_nothing{false}, finds_too_much{false};
  Code failure = Code::kIo;

 private:
  void give(const tiered::FetchRequest& r, size_t i) const {
    if (is_absent(r.keys[i])) return;
    r.found[i / 64] |= uint64_t{1} << (i % 64);
    if (writes_nothing) return;
    for (int64_t e = 0; e < dims_[static_cast<size_t>(r.table)]; ++e) {
      const float v =
          element(r.table, r.keys[i], e) + kUpdated * static_cast<float>(std::max(0, updates.load()));
      std::memcpy(r.rows[i] + e * 4, &v, 4);
    }
  }
  void set_gate(bool closed) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = closed;
    }
    gate_.notify_all();
  }
  const std::vector<int64_t> dims_;
  std::mutex mutex_;
  std::condition_variable gate_;
  bool closed_ = false;
  std::map<std::pair<int32_t, int64_t>, int> asked_;
};

}  // namespace dpi::test
