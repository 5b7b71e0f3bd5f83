// The health of the stores below a tier: up or down since when, the last failure, and whether calls ask them
// (option store.down). One circuit breaker per route of a store (row_source.hpp): where one of several
// servers is down, the rows of the others are asked for as ever.
//
// A route is down after `failures` failed fetches within `window_ns`. From then on a fetch thread asks it for
// one of the rows that failed, after first_probe_ns and then after twice as long each time, and the first
// answer puts it up again. Other fetches do not: where several servers share a route, those of a healthy one
// say nothing about the one that is down. While it is down, calls for its rows that are not here follow
// DownOptions::policy; kAsMiss goes on asking as if it were up.
//
// Each change is one message of component "store", written by the fetch thread that calls tell(), at most one
// a second per route: what changed in between is counted in the next one. So is another cause of what is down
// already, at most every other_cause_ns.
#pragma once

#include <array>
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
#include "store/tiered/row_source.hpp"

namespace dpi::tiered {

/// The answer to a call for a row that is not here while the row's store is down.
enum class DownPolicy : int32_t { kAsMiss, kDefault, kFail };

struct DownOptions {
  DownPolicy policy = DownPolicy::kAsMiss;
  int32_t failures = 5;
  uint64_t window_ns = 10'000'000'000;
  uint64_t first_probe_ns = 100'000'000, longest_probe_ns = 2'000'000'000;
  uint64_t other_cause_ns = 10'000'000'000;
};

class StoreHealth {
 public:
  /// log: null = nobody listens.
  StoreHealth(std::vector<StoreName> stores, const DownOptions& options, LogSink* log);

  /// True while the policy decides about rows of some route: else nobody need know which route a row has.
  bool decides(int32_t store) const {
    return options_.policy != DownPolicy::kAsMiss && down_routes(store) != 0;
  }
  /// The policy for rows that are not here: kAsMiss while their route is up.
  DownPolicy policy(int32_t store, int32_t route) const {
    return (down_routes(store) >> route & 1) != 0 ? options_.policy : DownPolicy::kAsMiss;
  }
  /// Why such a call fails; null before the route was first down.
  std::shared_ptr<const Status> refusal(int32_t store, int32_t route) const;

  struct Row {
    int32_t route = 0;
    int32_t table = 0;
    int64_t key = 0;
  };
  /// A fetch has failed of rows of one route, such as this one. node: its server, "" where the store has one.
  void failed(int32_t store, const Row& row, const std::string& node, const Status& why);

  /// The row to ask a store for, when that is due for a route that is down. Whoever takes it says what came
  /// of it.
  std::optional<Row> take_probe(int32_t store, uint64_t now_ns);
  void probed(int32_t store, int32_t route, const Status& answer, uint64_t now_ns);

  /// Writes messages that are due. By one thread at a time.
  void tell(uint64_t now_ns);

  int32_t count() const { return static_cast<int32_t>(stores_.size()); }
  /// nodes: as the source tells of them.
  StoreStatus status(int32_t store, std::vector<StoreNode> nodes = {}) const;

 private:
  struct Route {
    std::string node;
    StoreFailure last;
    std::vector<uint64_t> failed_ns;  // a ring of the last ones
    size_t next_failed = 0;
    Row row;
    uint64_t probe_ns = 0, wait_ns = 0;
    std::shared_ptr<const Status> refusal;
    uint64_t failures = 0, times_down = 0, probes = 0;
    bool told_down = false;
    StoreFailure told;  // why it is down
    uint64_t told_ns = 0, told_failures = 0, changes = 0, changed_ns = 0;
  };
  struct Store {
    StoreStatus is;                 // but for `down`, and what the fetcher and the source know
    std::atomic<uint64_t> down{0};  // bit r: route r
    std::array<std::unique_ptr<Route>, kRoutes> routes;  // of those that failed once
    bool told_down = false;                              // of any; tell()'s
  };
  uint64_t down_routes(int32_t store) const {
    return stores_[static_cast<size_t>(store)]->down.load(std::memory_order_acquire);
  }
  Store& at(int32_t store) const { return *stores_[static_cast<size_t>(store)]; }
  static Route& route_of(const Store& s, int32_t route) { return *s.routes[static_cast<size_t>(route)]; }
  static bool is_down(const Store& s, int32_t route) {
    return (s.down.load(std::memory_order_relaxed) >> route & 1) != 0;
  }
  static void note(Store* s, Route* r, const Status& why);
  void turn(Store* s, int32_t route, bool down, uint64_t now_ns) const;
  void refuse(const Store& s, Route* r) const;
  std::string text(const Store& s, int32_t route, uint64_t now_ns) const;
  std::string other_cause(const Store& s, int32_t route, uint64_t now_ns) const;

  const DownOptions options_;
  LogSink* const log_;
  mutable std::mutex mutex_;  // of all but `down`
  std::vector<std::unique_ptr<Store>> stores_;
};

}  // namespace dpi::tiered
