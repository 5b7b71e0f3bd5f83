// The source below the host tier: a row file, RocksDB, Redis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "store/store_status.hpp"

namespace dpi::tiered {

struct FetchRequest {
  int32_t table = 0;
  std::span<const int64_t> keys;     // no key twice
  std::byte* const* rows = nullptr;  // row i goes to rows[i], as many bytes as the source stores a row in
  uint64_t* found = nullptr;         // bit i of these words, all 0 when called: row i was written
  uint64_t deadline_ns = 0;          // CLOCK_MONOTONIC; a fetch that passes it answers kTimeout
  // Null, or words as of `found`, all 0 when called. Set with an error, bit i: key i was not answered; the
  // others were. No bit with an error: none was.
  uint64_t* failed = nullptr;
};

/// A store's servers fail apart: each key goes by one of so many routes.
constexpr int32_t kRoutes = 64;

class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Called by several threads at once. A key without a row is no error: its bit stays 0. When a status is
  /// returned, nothing of the request is used, but for what `failed` says.
  virtual Status fetch(const FetchRequest& request) = 0;
  /// Rows of the request that are at hand without waiting, for callers themselves: the others' bits stay 0,
  /// and fetch() is asked for them. Fails never, and ends early at the deadline.
  virtual void fetch_ready(const FetchRequest& /*request*/) {}
  /// How many updates the table has had whole, where its rows may change under its readers; else, or when
  /// that cannot be told now, -1. Called by one thread at a time, and waits not longer than a fetch may.
  virtual int64_t sequence(int32_t /*table*/) { return -1; }
  /// The stores that rows come from, at least one, and the number of a table's.
  virtual std::vector<StoreName> stores() const { return {{"rows", ""}}; }
  virtual int32_t store_of(int32_t /*table*/) const { return 0; }
  /// Empty where the store cannot tell.
  virtual std::vector<StoreNode> nodes(int32_t /*store*/) { return {}; }
  /// The route of a key in its table's store, 0 ... kRoutes - 1. Waits for nobody.
  virtual int32_t route(int32_t /*table*/, int64_t /*key*/) { return 0; }
};

}  // namespace dpi::tiered
