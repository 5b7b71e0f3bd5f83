#include "runtime/engine/chunk_forms.hpp"

#include <algorithm>
#include <utility>

#include "backend/abi/batch_bucket.hpp"
#include "plan/analysis/cost.hpp"

namespace dpi {

namespace {

// From form to form: a chunk then has a quarter of its bytes at most for users that are not there.
constexpr int64_t kFewerUsers = 4;

constexpr int64_t kTile = 8;  // of products: rows behind the last whole one cost as much

/// The largest size that chunks have, up to n.
int64_t size_within(const ChunkBounds& b, int64_t n) {
  if (n >= b.max_rows) return b.max_rows;
  if (!b.buckets) return n > kTile ? n / kTile * kTile : n;
  int64_t size = 1;
  while (next_bucket(size, b.max_rows) <= n) size = next_bucket(size, b.max_rows);
  return size;
}

/// Looks for sizes whose values have room.
class Search {
 public:
  Search(const Plan& plan, const ChunkBounds& bounds) : plan_(plan), bounds_(bounds) {}

  bool fits(int64_t rows, int64_t users) const {
    const auto memory = plan_memory(plan_, rows, users, bounds_.alignment);
    return memory.ok() && memory.value().arena_bytes <= bounds_.bytes;
  }
  /// The most rows from `least` on, which surely fit, with so many users; with 0 each has its own.
  int64_t rows_beside(int64_t users, int64_t least) const {
    const auto fit = [&](int64_t rows) { return fits(rows, users == 0 ? rows : users); };
    if (fit(bounds_.max_rows)) return bounds_.max_rows;
    int64_t low = least, high = bounds_.max_rows;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (fit(middle) ? low : high) = middle;
    }
    // Gaps between values make more rows fit where fewer do not.
    int64_t rows = size_within(bounds_, low);
    while (rows > least && !fit(rows)) rows = size_within(bounds_, rows - 1);
    return std::max(rows, least);
  }

 private:
  const Plan& plan_;
  const ChunkBounds& bounds_;
};

}  // namespace

Result<ChunkForms> ChunkForms::make(const Plan& plan, const ChunkBounds& bounds) {
  const Search search(plan, bounds);
  ChunkForms forms;
  const auto add = [&](int64_t rows, int64_t users) -> Status {
    DPI_ASSIGN_OR_RETURN(MemoryPlan memory, plan_memory(plan, rows, users, bounds.alignment));
    forms.all_.push_back({rows, users, std::move(memory)});
    return {};
  };
  int64_t users = search.rows_beside(0, 1);
  int64_t rows = search.rows_beside(users, users);
  DPI_RETURN_IF_ERROR(add(rows, users));
  while (users > 1 && rows < bounds.max_rows) {
    users = size_within(bounds, std::max<int64_t>(users / kFewerUsers, 1));
    const int64_t more = search.fits(rows, users) ? search.rows_beside(users, rows) : rows;
    if (more <= rows) continue;
    rows = more;
    DPI_RETURN_IF_ERROR(add(rows, users));
  }
  return forms;
}

int64_t ChunkForms::arena_bytes() const {
  int64_t most = 0;
  for (const ChunkForm& f : all_) most = std::max(most, f.memory.arena_bytes);
  return most;
}

const MemoryPlan& ChunkForms::memory_for(int64_t rows, int64_t users) const {
  for (const ChunkForm& f : all_)
    if (rows <= f.rows && users <= f.users) return f.memory;
  return all_.back().memory;
}

RowSpace space_of(const Plan& plan, const PlanOp& op) {
  for (const int32_t v : op.outputs)
    if (v >= 0) return plan.values[static_cast<size_t>(v)].space;
  return RowSpace::kConstant;
}

double rows_per_user(const Plan& plan) {
  constexpr double kFloat = 1;  // multiply-adds that take as long as touching one, which lies in a cache
  double row = 0, user = 0;
  for (const PlanOp& op : plan.ops) {
    const OpWork work = plan::work_of(plan, op);
    double& of_space = space_of(plan, op) == RowSpace::kShared ? user : row;
    of_space += work.flops + kFloat * work.floats;
  }
  return user / std::max(row, 1.0);
}

}  // namespace dpi
