// How a call on a backend in host memory is cut: into shares for threads, and those into chunks that stay in
// a core's cache. Bits do not depend on it.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"
#include "runtime/model/options.hpp"

namespace dpi {

/// Of a product: a share that ends inside a tile pays for all of it.
inline constexpr int64_t kTileRows = 8;

/// The flights of a context: one per thread of option `threads`.
struct HostFlights {
  int32_t count = 1;
  int64_t rows = 0;   // of each at a time; together at most max_rows
  int64_t alone = 0;  // of each at a time where every row is its own user: shared values have as many rows
};
HostFlights host_flights(const Plan& plan, int32_t threads, int64_t max_rows);

/// Rows that are worth a thread of their own.
int64_t rows_worth_a_thread(const Plan& plan, const ModelOptions& options);

/// Rows of a call after which no other call of a context meets memory for the first time: a chunk, and a
/// share for every thread.
int64_t most_warm_rows(const Plan& plan, const ModelOptions& options);

}  // namespace dpi
