// Arena offsets. Two values may share bytes only if every use of one comes before the first write of the
// other by stream order and events; the issue order alone separates nothing (it does when there is one
// stream).
#include <algorithm>
#include <map>
#include <utility>

#include "base/checked.hpp"
#include "plan/analysis/reach.hpp"

namespace dpi {
namespace {

using plan::Reach;
using plan::Region;

struct Block {
  int32_t value = -1;
  int64_t bytes = 0;
  std::vector<int32_t> writers;  // ops
  std::vector<int32_t> uses;     // writers and readers, aliases included
};

int64_t rows_of(RowSpace space, int64_t max_rows, int64_t max_shared_rows) {
  if (space == RowSpace::kItem) return max_rows;
  return space == RowSpace::kShared ? max_shared_rows : 1;
}

Result<int64_t> bytes_of(const PlanValue& v, int64_t rows, int64_t alignment) {
  const auto floats = checked_mul(std::max<int64_t>(rows, 1), std::max(v.row_stride, v.dims.size()));
  const auto bytes = floats ? checked_mul(*floats, kernels::dtype_bytes(v.dtype)) : std::nullopt;
  if (!bytes || *bytes > INT64_MAX / 4) {
    return Status(Code::kOutOfMemory,
                  "value '" + v.name + "': more bytes than fit for " + std::to_string(rows) + " rows");
  }
  return round_up(*bytes, alignment);
}

Result<std::vector<Block>> blocks_of(const Plan& plan, const std::vector<int64_t>& rows, int64_t alignment) {
  std::vector<Block> blocks;
  std::vector<int32_t> block_of(plan.values.size(), -1);
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue& value = plan.values[v];
    if (value.storage != Storage::kArena || value.is_bags) continue;
    Block b;
    b.value = static_cast<int32_t>(v);
    DPI_ASSIGN_OR_RETURN(b.bytes, bytes_of(value, rows[static_cast<size_t>(value.space)], alignment));
    block_of[v] = static_cast<int32_t>(blocks.size());
    blocks.push_back(std::move(b));
  }
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const auto op = static_cast<int32_t>(i);
    auto note = [&](int32_t v, bool write) {
      const int32_t base = v < 0 ? -1 : plan::region_of(plan, v).base;
      if (base < 0 || block_of[static_cast<size_t>(base)] < 0) return;
      Block& b = blocks[static_cast<size_t>(block_of[static_cast<size_t>(base)])];
      if (b.uses.empty() || b.uses.back() != op) b.uses.push_back(op);
      if (write && (b.writers.empty() || b.writers.back() != op)) b.writers.push_back(op);
    };
    for (int32_t v : plan.ops[i].inputs) note(v, false);
    for (int32_t v : plan.ops[i].outputs) note(v, true);
  }
  return blocks;
}

/// One stream: blocks live from their first to their last op; freed bytes go to the best fitting later block.
void place_by_time(const Plan& plan, std::vector<Block>& blocks, MemoryPlan& memory) {
  std::vector<std::vector<size_t>> starts(plan.ops.size()), ends(plan.ops.size());
  for (size_t k = 0; k < blocks.size(); ++k) {
    if (blocks[k].uses.empty()) continue;
    starts[static_cast<size_t>(blocks[k].uses.front())].push_back(k);
    ends[static_cast<size_t>(blocks[k].uses.back())].push_back(k);
  }
  std::map<int64_t, int64_t> gaps;  // offset -> bytes, not touching each other
  auto take = [&](int64_t bytes) {
    auto best = gaps.end();
    for (auto it = gaps.begin(); it != gaps.end(); ++it) {
      if (it->second >= bytes && (best == gaps.end() || it->second < best->second)) best = it;
    }
    if (best == gaps.end()) {
      const int64_t offset = memory.arena_bytes;
      memory.arena_bytes += bytes;
      return offset;
    }
    const auto [offset, size] = *best;
    gaps.erase(best);
    if (size > bytes) gaps[offset + bytes] = size - bytes;
    return offset;
  };
  auto give = [&](int64_t offset, int64_t bytes) {
    auto next = gaps.lower_bound(offset);
    if (next != gaps.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = gaps.erase(next);
    }
    if (next != gaps.begin()) {
      auto before = std::prev(next);
      if (before->first + before->second == offset) {
        before->second += bytes;
        return;
      }
    }
    gaps[offset] = bytes;
  };
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for (size_t k : starts[i]) memory.offset[static_cast<size_t>(blocks[k].value)] = take(blocks[k].bytes);
    for (size_t k : ends[i]) give(memory.offset[static_cast<size_t>(blocks[k].value)], blocks[k].bytes);
  }
}

/// Several streams: biggest block first, each at the lowest offset where no block in its way may live at the
/// same time.
void place_by_order(const Plan& plan, std::vector<Block>& blocks, MemoryPlan& memory) {
  std::vector<int32_t> order(plan.ops.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const Reach reach(plan::execution_edges(plan), order);
  auto all_before = [&](const Block& a, const Block& b) {
    for (int32_t u : a.uses) {
      for (int32_t w : b.writers) {
        if (!reach(u, w)) return false;
      }
    }
    return true;
  };
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.value < b.value;
  });
  for (size_t k = 0; k < blocks.size(); ++k) {
    std::vector<std::pair<int64_t, int64_t>> taken;  // begin, end
    for (size_t j = 0; j < k; ++j) {
      if (all_before(blocks[j], blocks[k]) || all_before(blocks[k], blocks[j])) continue;
      const int64_t at = memory.offset[static_cast<size_t>(blocks[j].value)];
      taken.emplace_back(at, at + blocks[j].bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + blocks[k].bytes <= begin) break;
      at = std::max(at, end);
    }
    memory.offset[static_cast<size_t>(blocks[k].value)] = at;
    memory.arena_bytes = std::max(memory.arena_bytes, at + blocks[k].bytes);
  }
}

}  // namespace

Result<MemoryPlan> plan_memory(const Plan& plan, int64_t max_rows, int64_t max_shared_rows,
                               int64_t alignment) {
  if (alignment <= 0 || (alignment & (alignment - 1)) != 0) {
    return invalid_argument("arena alignment is " + std::to_string(alignment) + ", expected a power of two");
  }
  std::vector<int64_t> rows(3);
  for (RowSpace s : {RowSpace::kConstant, RowSpace::kShared, RowSpace::kItem}) {
    rows[static_cast<size_t>(s)] = rows_of(s, max_rows, max_shared_rows);
  }
  DPI_ASSIGN_OR_RETURN(std::vector<Block> blocks, blocks_of(plan, rows, alignment));
  int64_t total = 0;
  for (const Block& b : blocks) {
    const auto sum = checked_add(total, b.bytes);
    if (!sum) return Status(Code::kOutOfMemory, "the plan's values need more bytes than fit");
    total = *sum;
  }
  MemoryPlan memory;
  memory.offset.assign(plan.values.size(), -1);
  if (plan.n_streams <= 1) {
    place_by_time(plan, blocks, memory);
  } else {
    place_by_order(plan, blocks, memory);
  }
  return memory;
}

}  // namespace dpi
