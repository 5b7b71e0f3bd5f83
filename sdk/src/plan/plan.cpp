#include "plan/plan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi {

namespace {

constexpr size_t kMaxFusedOps = 20000;  // beyond it the passes' searches cost more than they can give

Result<Plan> merge(Plan p, const PlanOptions& options) {
  if ((options.skip & kSkipMerge) != 0) return p;
  return plan::merge_dense(std::move(p));
}

/// Layers over one input become one product; then what shared rows give of it is multiplied apart from the
/// rest, and those products become one again.
Result<Plan> join_layers(Plan p, const PlanOptions& options) {
  DPI_ASSIGN_OR_RETURN(p, merge(std::move(p), options));
  if (!options.fold || (options.skip & kSkipHoist) != 0) return p;
  DPI_ASSIGN_OR_RETURN(p, plan::hoist_positions(std::move(p)));
  DPI_ASSIGN_OR_RETURN(p, plan::hoist_shared(std::move(p)));
  return merge(std::move(p), options);
}

Result<Plan> optimise(Plan p, const PlanOptions& options) {
  if (p.ops.size() > kMaxFusedOps) {
    p.notes.push_back("fold and fuse: off, " + std::to_string(p.ops.size()) + " ops are too many");
    return p;
  }
  if (options.fold || options.fuse) {
    DPI_ASSIGN_OR_RETURN(p, plan::simplify(std::move(p)));
  }
  if (options.fuse) {
    DPI_ASSIGN_OR_RETURN(p, plan::recognise_fm(std::move(p)));
    DPI_ASSIGN_OR_RETURN(p, plan::recognise_cross_v1(std::move(p)));
    DPI_ASSIGN_OR_RETURN(p, plan::recognise_co_action(std::move(p)));
    if ((options.skip & kSkipAttention) == 0) {
      DPI_ASSIGN_OR_RETURN(p, plan::recognise_attention(std::move(p)));
    }
    DPI_ASSIGN_OR_RETURN(p, plan::recognise_pairs(std::move(p)));
    if ((options.skip & kSkipCin) == 0) {
      DPI_ASSIGN_OR_RETURN(p, plan::recognise_cin(std::move(p), options.fold));
    }
    if ((options.skip & kSkipMixture) == 0) {
      DPI_ASSIGN_OR_RETURN(p, plan::recognise_mixture(std::move(p)));
    }
  }
  if (options.fold) {
    DPI_ASSIGN_OR_RETURN(p, plan::fold_affine(std::move(p)));
  }
  if (options.fold && options.fuse && (options.skip & kSkipHoist) == 0) {
    DPI_ASSIGN_OR_RETURN(p, plan::hoist_history(std::move(p)));
    DPI_ASSIGN_OR_RETURN(p, plan::split_fm(std::move(p)));
    DPI_ASSIGN_OR_RETURN(p, plan::turn_dot(std::move(p)));
  }
  if (options.fuse && (options.skip & kSkipTail) == 0) {
    DPI_ASSIGN_OR_RETURN(
        p, plan::fuse_tail(std::move(p), options.fold, options.fold && (options.skip & kSkipHoist) == 0));
  }
  if (options.fold && options.fuse) {
    DPI_ASSIGN_OR_RETURN(p, plan::fold_cin(std::move(p)));
    DPI_ASSIGN_OR_RETURN(p, plan::fold_numeric(std::move(p)));
  }
  if (options.fold) {
    DPI_ASSIGN_OR_RETURN(p, plan::fold_target(std::move(p)));
  }
  if (options.fuse) {
    DPI_ASSIGN_OR_RETURN(p, plan::fuse_dense(std::move(p)));
    DPI_ASSIGN_OR_RETURN(p, join_layers(std::move(p), options));
    if ((options.skip & kSkipAttention) == 0) {
      DPI_ASSIGN_OR_RETURN(p, plan::count_positions(std::move(p)));
    }
    if ((options.skip & kSkipElementwise) == 0) {
      DPI_ASSIGN_OR_RETURN(p, plan::fuse_elementwise(std::move(p)));
    }
    if ((options.skip & kSkipLookup) == 0) {
      DPI_ASSIGN_OR_RETURN(p, plan::fuse_lookup(std::move(p), options.column_align));
    }
  }
  return p;
}

}  // namespace

bool parse_skip(std::string_view text, uint32_t* passes) {
  static constexpr std::pair<std::string_view, uint32_t> kWords[] = {
      {"lookup", kSkipLookup}, {"elementwise", kSkipElementwise},
      {"merge", kSkipMerge},   {"tail", kSkipTail},
      {"hoist", kSkipHoist},   {"attention", kSkipAttention},
      {"cin", kSkipCin},       {"mixture", kSkipMixture}};
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    const auto* const at =
        std::find_if(std::begin(kWords), std::end(kWords), [&](const auto& w) { return w.first == word; });
    if (at == std::end(kWords)) return false;
    *passes |= at->second;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

Result<Plan> make_plan(const Graph& graph, const PlanOptions& options) {
  if (options.max_streams < 1 || options.column_align < 1) {
    return invalid_argument("plan options: max_streams and column_align must be 1 or more");
  }
  if (options.activation == kernels::DType::kI8) {
    return invalid_argument("plan options: activation is i8, expected f32, f16 or bf16");
  }
  Plan p = plan::lower(graph);
  DPI_ASSIGN_OR_RETURN(p, plan::cleanup(std::move(p)));
  plan::set_limit(p);
  DPI_ASSIGN_OR_RETURN(p, plan::mark_tiered(std::move(p), options));
  DPI_ASSIGN_OR_RETURN(p, optimise(std::move(p), options));
  p = plan::place_outputs(std::move(p));
  DPI_ASSIGN_OR_RETURN(p, plan::cleanup(std::move(p)));
  p = plan::place_tiered(std::move(p));
  p = plan::narrow_activations(std::move(p), options.activation);
  DPI_ASSIGN_OR_RETURN(p, plan::schedule(std::move(p), options));
  for (PlanOp& op : p.ops) op.bind_pointers();
  return p;
}

}  // namespace dpi
