#include "runtime/model/host_flights.hpp"

#include <algorithm>

#include "plan/analysis/cost.hpp"

namespace dpi {

namespace {

// A share of a call is worth waking a thread for from about 40 us on, and a tenth of that where the thread is
// awake (option spin_us). Times of a row are those of one core with 64-byte vectors: rough, since they only
// say how few rows are too few.
constexpr double kShareNs = 40'000, kSpinShareNs = 4'000, kNsPerProduct = 0.01, kNsPerFloat = 0.1;

// Values of a chunk that a core's own cache (1 MB and more) holds beside the weights of a layer. Weights
// beyond kMuch are read from further away for each chunk, and then tall chunks cost less: 3 layers of 1000
// over 624 columns are 5 % slower in chunks of 256 rows than of 4096, 64-32 over the same columns 16 %
// faster.
constexpr int64_t kCache = 1 << 20, kMuch = 8 << 20, kFewRows = 128;

// A user's values are made anew for each chunk, so chunks of few users have up to so many times the rows.
constexpr int64_t kMostTimes = 4;

int64_t whole_tiles(int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; }

/// Item rows whose values the cache holds, when kFewRows of them have so many users.
int64_t cached_rows(const Plan& plan, int64_t users) {
  const auto memory = plan_memory(plan, kFewRows, users, 64);
  if (!memory.ok()) return kFewRows;  // whoever allocates says why
  return std::max(kFewRows,
                  whole_tiles(kCache / std::max<int64_t>(memory.value().arena_bytes / kFewRows, 1)));
}

}  // namespace

HostFlights host_flights(const Plan& plan, int32_t threads, int64_t max_rows) {
  HostFlights f;
  f.count = static_cast<int32_t>(std::clamp<int64_t>(threads, 1, max_rows));
  f.rows = f.alone = (max_rows + f.count - 1) / f.count;
  int64_t weights = 0;
  for (const PlanParam& p : plan.params) weights += p.dims.size() * static_cast<int64_t>(sizeof(float));
  if (weights > kMuch || f.rows <= kFewRows) return f;
  const int64_t most = f.rows;
  f.alone = std::min(most, cached_rows(plan, kFewRows));
  f.rows = std::clamp(cached_rows(plan, 1), f.alone, std::min(most, kMostTimes * f.alone));
  return f;
}

int64_t rows_worth_a_thread(const Plan& plan, const ModelOptions& options) {
  double ns = 0;
  for (const PlanOp& op : plan.ops) {
    const OpWork work = plan::work_of(plan, op);
    ns += work.flops * kNsPerProduct + work.floats * kNsPerFloat;
  }
  const double share = options.spin_us > 0 ? kSpinShareNs : kShareNs;
  return whole_tiles(static_cast<int64_t>(share / std::max(ns, 1.0)) + 1);
}

int64_t most_warm_rows(const Plan& plan, const ModelOptions& options) {
  if (options.threads == 1) return options.max_rows;
  return std::max(options.max_rows, rows_worth_a_thread(plan, options) * options.threads);
}

}  // namespace dpi
