// The health of the stores below a tier: up or down since when, the last failure, and whether calls ask them
// (option store.down): one circuit breaker per store.
//
// A store is down after `failures` failed fetches within `window_ns`. From then on a fetch thread asks it for
// one of the rows that failed, after first_probe_ns and then after twice as long each time, and the first
// answer puts it up again. Other fetches do not: where a store has several nodes, those of a healthy one say
// nothing about the one that is down. While it is down, calls for rows that are not here follow
// DownOptions::policy; kAsMiss goes on asking as if it were up.
//
// Each change is one message of component "store", written by the fetch thread that calls tell(), at most one
// a second per store: what changed in between is counted in the next one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/status.hpp"
#include "store/store_status.hpp"

namespace dpi::tiered {

/// The answer to a call for a row that is not here while the row's store is down.
enum class DownPolicy : int32_t { kAsMiss, kDefault, kFail };

struct DownOptions {
  DownPolicy policy = DownPolicy::kAsMiss;
  int32_t failures = 5;
  uint64_t window_ns = 10'000'000'000;
  uint64_t first_probe_ns = 100'000'000, longest_probe_ns = 2'000'000'000;
};

class StoreHealth {
 public:
  /// log: null = nobody listens.
  StoreHealth(std::vector<StoreName> stores, const DownOptions& options, LogSink* log);

  /// The policy for rows that are not here: kAsMiss while the store is up.
  DownPolicy policy(int32_t store) const {
    const bool down = stores_[static_cast<size_t>(store)]->down.load(std::memory_order_acquire);
    return down ? options_.policy : DownPolicy::kAsMiss;
  }
  /// Why such a call fails; null before the store was first down.
  std::shared_ptr<const Status> refusal(int32_t store) const;

  /// A fetch has failed of rows that begin with this one.
  void failed(int32_t store, const Status& why, int32_t table, int64_t key);

  struct Probe {
    int32_t table = 0;
    int64_t key = 0;
  };
  /// The row to ask a store for that is down, when that is due. Whoever takes it says what came of it.
  std::optional<Probe> take_probe(int32_t store, uint64_t now_ns);
  void probed(int32_t store, const Status& answer, uint64_t now_ns);

  /// Writes messages that are due. By one thread at a time.
  void tell(uint64_t now_ns);

  int32_t count() const { return static_cast<int32_t>(stores_.size()); }
  StoreStatus status(int32_t store) const;

 private:
  struct Store {
    StoreStatus is;  // but for `down`, and what the fetcher and the source know
    std::atomic<bool> down{false};
    std::vector<uint64_t> failed_ns;  // a ring of the last ones
    size_t next_failed = 0;
    Probe row;
    uint64_t probe_ns = 0, wait_ns = 0;
    std::shared_ptr<const Status> refusal;
    bool told_down = false;
    uint64_t told_ns = 0, told_failures = 0, changes = 0, changed_ns = 0;
  };
  static void note(Store* s, const Status& why);
  void turn(Store* s, bool down, uint64_t now_ns);
  std::string text(Store* s, uint64_t now_ns) const;

  const DownOptions options_;
  LogSink* const log_;
  mutable std::mutex mutex_;  // of all but `down`
  std::vector<std::unique_ptr<Store>> stores_;
};

}  // namespace dpi::tiered
