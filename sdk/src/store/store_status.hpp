// How the stores below a host tier are: the bundle's file, RocksDB, Redis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace dpi {

/// A store that rows come from: "redis" at "10.0.0.1:6379,10.0.0.2:6379".
struct StoreName {
  std::string name, place;
};

/// The last failure; successes do not clear it.
struct StoreFailure {
  Code code = Code::kOk;
  std::string text;
  int64_t at_ms = 0;  // of the epoch; 0 = nothing has failed
};

/// One of a store's servers, as far as the store can tell.
struct StoreNode {
  std::string address;
  bool down = false;
  int64_t since_ms = 0;     // of the epoch: since then it is up or down; 0 = it was never used
  uint64_t reconnects = 0;  // connections that were made for ones that broke
  uint64_t redirects = 0;   // commands that it sent on to another server
  uint64_t failures = 0;
  StoreFailure last;
  int32_t route = 0;  // of tiered::RowSource: which rows are asked for there

  // Of the circuit breaker of that route (tiered::StoreHealth).
  bool open = false;  // option store.down decides about its rows
  uint64_t times_down = 0, probes = 0;
};

struct StoreStatus {
  StoreName name;
  bool down = false;        // it, or one of its nodes
  int64_t since_ms = 0;     // of the epoch: since then it is up or down
  uint64_t failures = 0;    // failed fetches
  uint64_t times_down = 0;  // its nodes together
  uint64_t probes = 0;      // fetches that asked whether it, or a node, is up again
  StoreFailure last;
  uint64_t queued = 0, running = 0;  // fetches
  uint64_t oldest_ns = 0;            // how long the oldest of them has been under way
  std::vector<StoreNode> nodes;      // empty where the store cannot tell
};

}  // namespace dpi
