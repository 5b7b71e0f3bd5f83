// Warm-up: every context is created and runs plausible rows, so that no request pays for first touches, lazy
// loading or graph capture. Then it is measured from which sizes threads are worth waking.
#include <algorithm>

#include "backend/abi/batch_bucket.hpp"
#include "base/clock.hpp"
#include "runtime/engine/host_flights.hpp"
#include "runtime/model/model.hpp"
#include "runtime/model/sharing_check.hpp"

namespace dpi {

namespace {

constexpr uint64_t kWarmUpPatienceNs = 2'000'000'000;

/// So few that the smallest host tier holds their rows.
constexpr int64_t kDistinct = 8;

/// Rows whose ids lie inside each vocabulary (keys may be absent), differ within kDistinct rows and are never
/// the missing id; floats are 0.5.
struct SyntheticRows {
  std::vector<int64_t> ids;
  std::vector<float> dense;
  Batch batch;

  SyntheticRows(const ResolveSchema& schema, int64_t rows) {
    const auto& l = schema.columns;
    ids.resize(static_cast<size_t>(rows * l.n_slots));
    dense.assign(static_cast<size_t>(rows * l.n_columns), 0.5f);
    for (const auto& f : schema.features) {
      if (f.slot < 0) continue;
      for (int64_t r = 0; r < rows; ++r) {
        ids[static_cast<size_t>(r * l.n_slots + f.slot)] = valid_id(f.spec, r % kDistinct * 7919);
      }
    }
    batch.item.rows = rows;
    batch.item.ids = ids.empty() ? nullptr : ids.data();
    batch.item.nnz = static_cast<int64_t>(ids.size());
    batch.item.dense = dense.empty() ? nullptr : dense.data();
  }

  static int64_t valid_id(const FeatureSpec& f, int64_t n) {
    const int64_t id = f.is_keyed() ? n : n % f.vocab_size;
    if (!f.has_missing_id || id != f.missing_id) return id;
    return f.is_keyed() ? id + 1 : (id + 1) % f.vocab_size;
  }
};

/// Rows of a call that keeps every flight of a context busy.
int64_t most_rows(const Engine& e) {
  const ModelOptions& o = e.options();
  return e.host_memory() ? most_warm_rows(e.plan(), o) : o.max_rows * o.in_flight;
}

/// Sizes that between them touch whatever calls of up to `rows` rows use: with graphs every bucket.
std::vector<int64_t> warm_sizes(const Engine& e, int64_t rows) {
  if (!e.uses_graphs()) return {1, rows};
  std::vector<int64_t> sizes;
  const int64_t most = e.options().max_rows;
  for (int64_t n = 1; n < std::min(rows, most); n = next_bucket(n, most)) sizes.push_back(n);
  sizes.push_back(std::min(rows, most));
  if (rows > most) sizes.push_back(rows);
  return sizes;
}

}  // namespace

Status Model::warm_up(int64_t max_rows) {
  DPI_RETURN_IF_ERROR(check_process());
  if (max_rows < 1)
    return invalid_argument("warm-up needs max_rows of at least 1, got " + std::to_string(max_rows));
  const int64_t rows = std::min(max_rows, most_rows(engine()));
  const SyntheticRows synthetic(engine().schema(), rows);
  std::vector<float> out(static_cast<size_t>(rows * engine().heads()));
  // One at a time: two that each hold half of the contexts would wait until they lose patience, and leave the
  // rest cold.
  const std::lock_guard<std::mutex> one_at_a_time(warm_up_mutex_);
  const auto run_rows = [&](Context& context) -> Status {
    for (int64_t n : warm_sizes(engine(), rows)) {
      Batch b = synthetic.batch;
      b.item.rows = n;
      b.item.nnz = n * engine().schema().columns.n_slots;
      // op by op, captured, replayed
      for (int pass = 0; pass < (engine().uses_graphs() ? 3 : 1); ++pass) {
        DPI_RETURN_IF_ERROR(context.run(b, out.data(), {}));
      }
    }
    return {};
  };
  std::vector<ContextPool::Lease> held;
  for (int32_t i = 0; i < pool_->size(); ++i) {
    RunControl patience;
    patience.deadline_ns = monotonic_ns() + kWarmUpPatienceNs;
    auto acquired = claim(patience);
    if (!acquired.ok() && acquired.status().code() == Code::kTimeout)
      break;  // the rest are at work, so warm already
    DPI_ASSIGN_OR_RETURN(ContextPool::Lease lease, std::move(acquired));
    DPI_RETURN_IF_ERROR(run_rows(*lease));
    held.push_back(std::move(lease));
  }
  for (;;) {
    DPI_ASSIGN_OR_RETURN(const std::optional<ContextPool::Lease> spare, pool_->new_spare());
    if (!spare) break;
    DPI_RETURN_IF_ERROR(run_rows(**spare));
  }
  if (held.empty()) return {};
  return check_sharing(engine(), *held.front(), synthetic.batch, out.data());
}

}  // namespace dpi
