#include "backend/cuda/small_batch/plan.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/cuda/common/estimates.hpp"
#include "kernels/cuda/common/narrow.hpp"

namespace dpi::backend::small_batch {

namespace cuda = kernels::cuda;
namespace gpu = kernels::cuda::small_batch;

namespace {

// ---- weights

/// An element as the products of `mode` take it from memory.
template <class T>
T packed(float v, gpu::Mode mode) {
  return cuda::narrowed<T>(mode == gpu::Mode::kTf32 ? kernels::round_to_tf32(v) : v);
}

template <class T>
void pack_block(const OwnedOp& op, int32_t column, int32_t depth, gpu::Mode mode, std::vector<char>* out) {
  const bool by_depth = mode == gpu::Mode::kF32;
  const kernels::Param w = op.param(0);
  const int64_t n_out = w.dims.d[0];
  const int64_t n_in = w.dims.d[1];
  T block[gpu::kTileColumns * gpu::kBlockDepth];
  for (int32_t n = 0; n < gpu::kTileColumns; ++n) {
    for (int32_t k = 0; k < gpu::kBlockDepth; ++k) {
      const bool inside = column + n < n_out && depth + k < n_in;
      const float v = inside ? w.data[(column + n) * n_in + depth + k] : 0.0f;
      block[by_depth ? k * gpu::kTileColumns + n : n * gpu::kBlockDepth + k] = packed<T>(v, mode);
    }
  }
  const auto* bytes = reinterpret_cast<const char*>(block);
  out->insert(out->end(), bytes, bytes + sizeof(block));
}

void pack_unit(const BatchModel& model, const UnitPlan& u, gpu::Mode mode, std::vector<char>* out) {
  if (u.node < 0) return;
  const OwnedOp& op = model.ops[static_cast<size_t>(model.nodes[static_cast<size_t>(u.node)].op)];
  for (int32_t b = u.begin; b < u.end; ++b) {
    const int32_t column = u.tile * gpu::kTileColumns;
    const int32_t depth = b * gpu::kBlockDepth;
    if (mode == gpu::Mode::kF16) {
      pack_block<cuda::Half>(op, column, depth, mode, out);
    } else if (mode == gpu::Mode::kBf16) {
      pack_block<cuda::Bfloat16>(op, column, depth, mode, out);
    } else {
      pack_block<float>(op, column, depth, mode, out);
    }
  }
}

// ---- time

using namespace cuda::estimates;

int32_t up(int32_t n, int32_t of) { return (n + of - 1) / of; }

/// One round of one rank.
double estimate_round(const RoundPlan& r, const BatchPlan& plan) {
  const gpu::Mode mode = plan.shape.mode;
  int32_t most = 0;
  int32_t all = 0;
  for (const UnitPlan& u : r.units) {
    most = std::max(most, u.end - u.begin);
    all += u.end - u.begin;
  }
  const double in_flight = (plan.stages - 1.0) * plan.shape.warps;
  const double block = mode == gpu::Mode::kF32 ? kSmallBatchPlainBlock : kSmallBatchTensorBlock;
  const double products =
      std::max(most * kSmallBatchWarpBlock, all * std::max(block, kSmallBatchCopy / in_flight));
  const auto tiles = static_cast<int32_t>(r.tiles.size());
  const int32_t threads = plan.shape.warps * cuda::kWarp;
  const int32_t passes = up(tiles * gpu::kTileRows * gpu::kTileColumns / 4, threads);
  return kSmallBatchRound + products + passes * kSmallBatchPass +
         tiles * plan.shape.ranks * kSmallBatchTileToRank;
}

/// Products of level l, which ends when the last rank does.
double estimate_products(const std::vector<RankPlan>& ranks, size_t l, const BatchPlan& plan) {
  double slowest = 0;
  for (const RankPlan& rank : ranks) {
    double micros = 0;
    for (const RoundPlan& r : rank.levels[l]) micros += estimate_round(r, plan);
    slowest = std::max(slowest, micros);
  }
  return slowest;
}

/// Items of the rank that has most.
int32_t most_items(const BatchPlan& plan) {
  int32_t most = 0;
  for (int32_t r = 0; r < plan.shape.ranks; ++r) {
    gpu::Header h;
    std::memcpy(&h, plan.programs.data() + int64_t{r} * plan.shape.program_bytes, sizeof(h));
    most = std::max(most, h.n_items);
  }
  return most;
}

/// Microseconds of one tile of 16 rows, by estimate. Tasks of a level go before its products.
double estimate(const BatchModel& model, const std::vector<RankPlan>& ranks, const BatchPlan& plan) {
  const double barrier = ranks.size() > 1 ? kSmallBatchBarrier : 0;
  const int32_t rows = up(gpu::kTileRows, plan.shape.ranks);
  double micros = kSmallBatchStart + kSmallBatchGather +
                  up(most_items(plan), plan.shape.warps) * kSmallBatchItem + (model.n_levels + 1) * barrier;
  for (int32_t l = 1; l <= model.n_levels; ++l) {
    const auto tasks =
        static_cast<int32_t>(std::count_if(model.nodes.begin(), model.nodes.end(), [&](const Node& s) {
          return s.level == l && s.kind != NodeKind::kProduct;
        }));
    if (tasks > 0) micros += kSmallBatchTask + (up(tasks * rows, plan.shape.warps) - 1) * kSmallBatchNextTask;
    micros += estimate_products(ranks, static_cast<size_t>(l - 1), plan);
  }
  return micros;
}

// ---- fit

struct Choice {
  int32_t ranks = 1;
  int32_t warps = 8;
};

/// Tries more float32 before less, long rings of weights before short ones.
std::optional<BatchPlan> fit(const BatchModel& model, gpu::Mode mode, const gpu::Limits& limits,
                             const Choice& choice, int32_t* least) {
  const std::vector<RankPlan> ranks = divide_products(model, choice.ranks, choice.warps);
  BatchPlan plan;
  plan.shape.mode = mode;
  plan.shape.ranks = choice.ranks;
  plan.shape.warps = choice.warps;
  plan.shape.n_inputs = static_cast<int32_t>(model.inputs.size());
  plan.shape.n_tables = static_cast<int32_t>(model.tables.size());
  for (const Exactness exact : {Exactness::kAll, Exactness::kFactors, Exactness::kLittle}) {
    const Placement draft = place_values(model, mode, exact, 0);
    const std::vector<char> sized = write_programs(model, draft, ranks, plan);  // offsets do not change sizes
    plan.shape.program_bytes = static_cast<int32_t>(sized.size()) / choice.ranks;
    const Placement placement = place_values(model, mode, exact, plan.shape.program_bytes);
    const int32_t ring = ring_at(plan.shape, placement.end);
    plan.shape.zero_at = placement.begin;
    plan.shape.zero_bytes = placement.zero_bytes;
    plan.shape.views_at = placement.end;
    plan.shape.outputs_at = ring - kOutputBytes;
    for (const int32_t stages : {8, 6, 4, 3, 2}) {
      const int32_t bytes = ring + choice.warps * stages * gpu::stage_bytes(mode);
      *least = std::min(*least, bytes);
      const bool short_ring = stages < 4 && exact != Exactness::kLittle && gpu::element_bytes(mode) == 2;
      if (bytes > limits.shared_bytes || short_ring) continue;
      plan.stages = stages;
      plan.levels = model.n_levels;
      plan.shape.shared_bytes = bytes;
      plan.programs = write_programs(model, placement, ranks, plan);
      plan.micros = estimate(model, ranks, plan);
      return plan;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<char> pack_weights(const BatchModel& model, const std::vector<RankPlan>& ranks,
                               const gpu::Shape& shape) {
  std::vector<char> all;
  for (const RankPlan& rank : ranks) {
    for (int32_t w = 0; w < shape.warps; ++w) {
      for (const auto& rounds : rank.levels) {
        for (const RoundPlan& r : rounds) pack_unit(model, r.units[static_cast<size_t>(w)], shape.mode, &all);
      }
    }
  }
  return all;
}

Result<BatchPlan> make_plan(const BatchModel& model, gpu::Mode mode, const gpu::Limits& limits) {
  std::optional<BatchPlan> best;
  int32_t least = INT32_MAX;
  const int32_t asked = std::min(limits.ranks, limits.max_ranks);
  for (int32_t ranks = 1; ranks <= limits.max_ranks; ranks *= 2) {
    if (asked > 0 && ranks != asked) continue;
    for (int32_t warps = limits.warps; warps >= std::min(limits.least_warps, limits.warps); warps /= 2) {
      std::optional<BatchPlan> plan = fit(model, mode, limits, {ranks, warps}, &least);
      if (!plan) continue;
      // A larger cluster has to be worth its multiprocessors.
      if (!best || plan->micros < kSmallBatchClusterGain * best->micros) best = std::move(plan);
    }
  }
  if (!best)
    return unsupported("a small batch of these ops takes " + std::to_string(least) +
                       " bytes of shared memory, a block has " + std::to_string(limits.shared_bytes));
  best->weights =
      pack_weights(model, divide_products(model, best->shape.ranks, best->shape.warps), best->shape);
  return std::move(*best);
}

}  // namespace dpi::backend::small_batch
