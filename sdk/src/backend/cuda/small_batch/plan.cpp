#include "backend/cuda/small_batch/plan.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/cuda/common/narrow.hpp"

namespace dpi::backend {

namespace cuda = kernels::cuda;
using cuda::ChainMode;

namespace {

// ---- weights

template <class T>
void pack_block(const OwnedOp& op, int32_t column, int32_t depth, bool by_depth, std::vector<char>* out) {
  const kernels::Param w = op.param(0);
  const int64_t n_out = w.dims.d[0];
  const int64_t n_in = w.dims.d[1];
  T block[cuda::kChainColumns * cuda::kChainDepth];
  for (int32_t n = 0; n < cuda::kChainColumns; ++n) {
    for (int32_t k = 0; k < cuda::kChainDepth; ++k) {
      const bool inside = column + n < n_out && depth + k < n_in;
      const float v = inside ? w.data[(column + n) * n_in + depth + k] : 0.0f;
      block[by_depth ? k * cuda::kChainColumns + n : n * cuda::kChainDepth + k] = cuda::narrowed<T>(v);
    }
  }
  const auto* bytes = reinterpret_cast<const char*>(block);
  out->insert(out->end(), bytes, bytes + sizeof(block));
}

void pack_unit(const ChainModel& model, const ChainUnitPlan& u, ChainMode mode, std::vector<char>* out) {
  if (u.step < 0) return;
  const OwnedOp& op = model.ops[static_cast<size_t>(model.steps[static_cast<size_t>(u.step)].op)];
  for (int32_t b = u.begin; b < u.end; ++b) {
    const int32_t column = u.tile * cuda::kChainColumns;
    const int32_t depth = b * cuda::kChainDepth;
    if (mode == ChainMode::kF16) {
      pack_block<cuda::Half>(op, column, depth, false, out);
    } else if (mode == ChainMode::kBf16) {
      pack_block<cuda::Bfloat16>(op, column, depth, false, out);
    } else {
      pack_block<float>(op, column, depth, mode == ChainMode::kF32, out);
    }
  }
}

// ---- time

// Microseconds on an H200; from the model of the design notes, not measured.
constexpr double kGather = 2.2;           // ids, rows, start of the kernel
constexpr double kLevelAlone = 0.45;      // epilogue and barrier of one block
constexpr double kLevelCluster = 0.75;    // the same through distributed shared memory
constexpr double kBytesPerMicro = 1.1e5;  // one SM from L2
constexpr double kCopyMicros = 0.3;       // from the start of a copy out of L2 to its end
constexpr double kPlainBlock = 0.038;     // 16 x 32 x 16 products without tensor cores, one SM
constexpr double kTensorBlock = 0.006;

double estimate(const ChainModel& model, const std::vector<ChainRankPlan>& plans, const ChainPlan& plan) {
  const ChainMode mode = plan.shape.mode;
  int64_t most = 0;
  for (const ChainRankPlan& rank : plans) {
    int64_t blocks = 0;
    for (const auto& rounds : rank.levels) {
      for (const ChainRoundPlan& r : rounds) {
        for (const ChainUnitPlan& u : r.units) blocks += u.end - u.begin;
      }
    }
    most = std::max(most, blocks);
  }
  const auto blocks = static_cast<double>(most);
  const double in_flight = (plan.stages - 1.0) * plan.shape.warps * cuda::chain_block_bytes(mode);
  const double rate = std::min(kBytesPerMicro, in_flight / kCopyMicros);
  const double stream = blocks * cuda::chain_block_bytes(mode) / rate;
  const double products = blocks * (mode == ChainMode::kF32 ? kPlainBlock : kTensorBlock);
  const double levels = model.n_levels * (plans.size() > 1 ? kLevelCluster : kLevelAlone);
  return kGather + levels + std::max(stream, products);
}

// ---- fit

struct Choice {
  int32_t ranks = 1;
  int32_t warps = 8;
};

/// Tries more float32 before less, long rings of weights before short ones.
std::optional<ChainPlan> fit(const ChainModel& model, ChainMode mode, const cuda::ChainLimits& limits,
                             const Choice& choice, int32_t* least) {
  const std::vector<ChainRankPlan> ranks = divide_products(model, choice.ranks, choice.warps);
  ChainPlan plan;
  plan.shape.mode = mode;
  plan.shape.ranks = choice.ranks;
  plan.shape.warps = choice.warps;
  plan.shape.n_inputs = static_cast<int32_t>(model.inputs.size());
  plan.shape.n_tables = static_cast<int32_t>(model.tables.size());
  for (const ChainExactness exact :
       {ChainExactness::kAll, ChainExactness::kFactors, ChainExactness::kLittle}) {
    const ChainLayout draft = layout_values(model, mode, exact, 0);
    const std::vector<char> sized = write_programs(model, draft, ranks, plan);  // offsets do not change sizes
    plan.shape.program_bytes = static_cast<int32_t>(sized.size()) / choice.ranks;
    const ChainLayout layout = layout_values(model, mode, exact, plan.shape.program_bytes);
    const int32_t ring_at = round_up(layout.end + choice.warps * cuda::kChainPatchBytes, 128);
    for (const int32_t stages : {8, 6, 4, 3, 2}) {
      const int32_t bytes = ring_at + choice.warps * stages * cuda::chain_slot_bytes(mode);
      *least = std::min(*least, bytes);
      const bool short_ring =
          stages < 4 && exact != ChainExactness::kLittle && cuda::chain_element_bytes(mode) == 2;
      if (bytes > limits.shared_bytes || short_ring) continue;
      plan.stages = stages;
      plan.shape.shared_bytes = bytes;
      plan.programs = write_programs(model, layout, ranks, plan);
      plan.micros = estimate(model, ranks, plan);
      return plan;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<char> pack_weights(const ChainModel& model, const std::vector<ChainRankPlan>& ranks,
                               const cuda::ChainShape& shape) {
  std::vector<char> all;
  for (const ChainRankPlan& rank : ranks) {
    for (int32_t w = 0; w < shape.warps; ++w) {
      for (const auto& rounds : rank.levels) {
        for (const ChainRoundPlan& r : rounds)
          pack_unit(model, r.units[static_cast<size_t>(w)], shape.mode, &all);
      }
    }
  }
  return all;
}

Result<ChainPlan> plan_chain(const ChainModel& model, ChainMode mode, const cuda::ChainLimits& limits) {
  std::optional<ChainPlan> best;
  int32_t least = INT32_MAX;
  const int32_t asked = std::min(limits.ranks, limits.max_ranks);
  for (int32_t ranks = 1; ranks <= limits.max_ranks; ranks *= 2) {
    if (asked > 0 && ranks != asked) continue;
    for (int32_t warps = limits.warps; warps >= std::min(4, limits.warps); warps /= 2) {
      std::optional<ChainPlan> plan = fit(model, mode, limits, {ranks, warps}, &least);
      if (!plan) continue;
      // A larger cluster has to be worth its SMs.
      if (!best || plan->micros < 0.95 * best->micros) best = std::move(plan);
    }
  }
  if (!best)
    return unsupported("a chain of these ops takes " + std::to_string(least) +
                       " bytes of shared memory, a block has " + std::to_string(limits.shared_bytes));
  best->weights =
      pack_weights(model, divide_products(model, best->shape.ranks, best->shape.warps), best->shape);
  return std::move(*best);
}

}  // namespace dpi::backend
