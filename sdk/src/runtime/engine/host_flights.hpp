// How a call on a backend in host memory is cut: into shares for threads, and those into chunks that stay in
// a core's cache. Bits do not depend on it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "runtime/options/options.hpp"

namespace dpi {

/// Rows of a product's tile: a share that ends inside a tile pays for all of it.
inline constexpr int64_t kTileRows = 8;

constexpr int64_t whole_tiles(int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; }

/// Chunks of a round: a thread keeps their scores until other threads have scored the rows before them.
inline constexpr int64_t kKeptChunks = 8;

/// More rows than a call has.
inline constexpr int64_t kNoRows = int64_t{1} << 40;

/// The flights of a context: one per thread of option `threads`.
struct HostFlights {
  int32_t count = 1;
  int64_t rows = 0;   // of each at a time; together at most max_rows
  int64_t alone = 0;  // of each at a time where every row is its own user: shared values have as many rows
  int64_t tall = 0;   // of each at a time where a user would be cut otherwise, and computed twice

  /// Rows of each thread in a round of a shared call, and rows whose scores it has room for. Shares end where
  /// tiles do.
  int64_t round_rows() const { return kKeptChunks * whole_tiles(tall); }
  int64_t kept_rows() const { return round_rows() + kTileRows; }
};
/// Option scratch_bytes, in force.
constexpr int64_t chunk_bytes(uint64_t option, bool on_device) {
  constexpr uint64_t kAny = uint64_t{1} << 60;
  return option > 0 ? static_cast<int64_t>(std::min(option, kAny)) : int64_t{1} << (on_device ? 30 : 28);
}

HostFlights host_flights(const Plan& plan, const ModelOptions& options, int64_t max_rows);

/// A backend's answer about a prepared op: into how many parts it can be cut, and whether each part does
/// something for all rows first.
struct OpParts {
  int32_t most = 1;
  bool begins_with_rows = false;
};

/// From how many rows on several threads take parts of an op.
struct OpCut {
  OpParts parts;
  int64_t from_rows = kNoRows;
};

/// How threads share a call out: from twice min_share rows on each takes rows of its own, below that and from
/// crew_rows on they take parts of its large ops (execute/crew.hpp).
struct WorkRows {
  int64_t min_share = kNoRows;
  int64_t crew_rows = kNoRows;

  int64_t least() const { return std::min(2 * min_share, crew_rows); }
};

/// By counts: warm-up looks whether it is so (model/warm_up.cpp).
struct WorkCuts {
  WorkRows asleep, awake;  // the other threads, when the call comes
  std::vector<OpCut> ops;  // of the plan
};
WorkCuts work_cuts(const Plan& plan, const std::vector<OpParts>& parts);

/// Rows of a call after which no other call of a context meets memory for the first time: a chunk, and a
/// share for every thread.
int64_t most_warm_rows(const Plan& plan, const ModelOptions& options);

}  // namespace dpi
