#include "runtime/engine/host_flights.hpp"

#include <algorithm>

#include "plan/analysis/cost.hpp"
#include "runtime/engine/chunk_forms.hpp"

namespace dpi {

namespace {

// A share of a call is worth waking a thread for from about 60 us on (it comes 50 us late), and a tenth of
// that where the thread is awake (option spin_us). Times of a row are those of one core with 64-byte vectors:
// rough, since they only say how few rows are too few.
constexpr double kShareNs = 60'000, kSpinShareNs = 4'000, kNsPerProduct = 0.01, kNsPerFloat = 0.1;

// Values of a chunk that a core's own cache (1 MB and more) holds beside the weights of a layer. Weights
// beyond kMuch are read from further away for each chunk, and then tall chunks cost less: 3 layers of 1000
// over 624 columns are 5 % slower in chunks of 256 rows than of 4096, 64-32 over the same columns 16 %
// faster.
constexpr int64_t kCache = 1 << 20, kMuch = 8 << 20, kFewRows = 128;

// A user's values are made anew for each chunk, so chunks of few users have up to so many times the rows.
constexpr int64_t kMostTimes = 4;

// Rows of one user stay together while the user is more than one part in so many of their work.
constexpr double kUserPart = 16;

// So few rows take as long as one: their weights are read from far away.
constexpr int64_t kFewest = 4;

// A product is cut from about 3 us on: handing parts over and waiting for them takes a tenth of that. Calls
// have others come for products of 8 us where these are awake, else of 120: they come late.
constexpr double kCutNs = 3'000, kSpinCrewNs = 8'000, kCrewNs = 120'000;

double product_ns(const Plan& plan, const PlanOp& op) {
  return plan::work_of(plan, op).flops * kNsPerProduct;
}

/// The fewest rows that take `times` as long as one would that is not one of few.
int64_t first_rows(double times) {
  return times <= static_cast<double>(kFewest) ? 1 : static_cast<int64_t>(times) + 1;
}

/// Item rows whose values the cache holds, when kFewRows of them have so many users.
int64_t cached_rows(const Plan& plan, int64_t users) {
  const auto memory = plan_memory(plan, kFewRows, users, 64);
  if (!memory.ok()) return kFewRows;  // whoever allocates says why
  return std::max(kFewRows,
                  whole_tiles(kCache / std::max<int64_t>(memory.value().arena_bytes / kFewRows, 1)));
}

}  // namespace

HostFlights host_flights(const Plan& plan, const ModelOptions& options, int64_t max_rows) {
  HostFlights f;
  f.count = static_cast<int32_t>(std::clamp<int64_t>(options.threads, 1, max_rows));
  const int64_t each = (max_rows + f.count - 1) / f.count;
  const auto forms = ChunkForms::make(plan, {each, chunk_bytes(options.scratch_bytes, false), 64, false});
  f.alone = forms.ok() ? forms.value().users() : 1;  // whoever allocates says why
  f.rows = f.tall = forms.ok() ? forms.value().rows() : 1;
  int64_t weights = 0;
  for (const PlanParam& p : plan.params) weights += p.dims.size() * static_cast<int64_t>(sizeof(float));
  if (weights > kMuch || f.rows <= kFewRows) return f;
  f.alone = std::min(f.alone, cached_rows(plan, kFewRows));
  f.rows = std::clamp(cached_rows(plan, 1), f.alone, std::min(f.tall, kMostTimes * f.alone));
  f.tall = std::clamp(static_cast<int64_t>(kUserPart * rows_per_user(plan)), f.rows, f.tall);
  return f;
}

namespace {

/// Rows whose work takes `ns`.
int64_t rows_worth(const Plan& plan, double ns) {
  double row = 0;
  for (const PlanOp& op : plan.ops) {
    const OpWork work = plan::work_of(plan, op);
    row += work.flops * kNsPerProduct + work.floats * kNsPerFloat;
  }
  return whole_tiles(static_cast<int64_t>(ns / std::max(row, 1.0)) + 1);
}

/// The fewest rows below `end` whose cut products take `ns`, kNoRows when they never do.
int64_t rows_of_products(const Plan& plan, const std::vector<OpCut>& cuts, double ns, int64_t end) {
  for (int64_t rows = 1; rows < end; ++rows) {
    double cut = 0;
    for (size_t i = 0; i < cuts.size(); ++i) {
      if (rows < cuts[i].from_rows) continue;
      cut += product_ns(plan, plan.ops[i]) * static_cast<double>(std::max(rows, kFewest));
    }
    if (cut >= ns) return rows;
  }
  return kNoRows;
}

WorkRows work_rows(const Plan& plan, const std::vector<OpCut>& cuts, double share_ns, double crew_ns) {
  WorkRows r;
  r.min_share = rows_worth(plan, share_ns);
  r.crew_rows = rows_of_products(plan, cuts, crew_ns, 2 * r.min_share);
  return r;
}

}  // namespace

WorkCuts work_cuts(const Plan& plan, const std::vector<OpParts>& parts) {
  WorkCuts cuts;
  cuts.ops.resize(plan.ops.size());
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    cuts.ops[i].parts = parts[i];
    const double ns = product_ns(plan, plan.ops[i]);
    if (parts[i].most > 1 && ns > 0) cuts.ops[i].from_rows = first_rows(kCutNs / ns);
  }
  cuts.asleep = work_rows(plan, cuts.ops, kShareNs, kCrewNs);
  cuts.awake = work_rows(plan, cuts.ops, kSpinShareNs, kSpinCrewNs);
  return cuts;
}

int64_t most_warm_rows(const Plan& plan, const ModelOptions& options) {
  if (options.threads == 1) return options.max_rows;
  return std::max(options.max_rows, rows_worth(plan, kShareNs) * options.threads);
}

}  // namespace dpi
