// The plan that a model executes: ops with bound attributes and weights, values with their place in memory,
// an issue order over streams with events, and derived tables. Made from a Graph by pure passes (recognise >
// fold > fuse > branch > schedule > memory), each with a stable text dump; immutable afterwards and shared by
// all contexts of a model.
//
// Reading order: plan.cpp (the passes in turn), passes/lower.cpp (graph -> plan), the other passes, analysis/
// (what they ask of a plan; analysis/check.cpp is the independent checker), print/ (dumps).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "plan/pinned_row.hpp"
#include "plan/row_term.hpp"

namespace dpi {

/// Fusing passes that can be left out one by one, to measure what each brings.
enum SkipPass : uint32_t {
  kSkipLookup = 1,
  kSkipElementwise = 2,
  kSkipMerge = 4,
  kSkipTail = 8,
  kSkipHoist = 16,  // what keeps products and sums on shared rows
  kSkipAttention = 32,
  kSkipCin = 64,       // compressed interactions as one op a layer
  kSkipMixture = 128,  // weighted sums of rows as products
};
/// "lookup,merge" -> bits. False at an unknown word.
bool parse_skip(std::string_view text, uint32_t* passes);

enum class ScheduleMode : int32_t { kBreadthFirst = 0, kDepthFirst = 1, kSingleStream = 2 };

/// Which of the branches that may start is issued first: of the longest remaining path by its cost, by its
/// number of ops (DPIFrame's rule: the module with more operators), or the one with the least cost left (what
/// DPIFrame found best for DeepFM: the FM before the MLP, against its own rule).
enum class StartOrder : int32_t { kCost = 0, kOps = 1, kLight = 2 };

struct PlanOptions {
  bool fold = true;
  bool fuse = true;   // off: primitives one by one, as `ref` defines them
  uint32_t skip = 0;  // SkipPass bits
  ScheduleMode schedule = ScheduleMode::kBreadthFirst;
  StartOrder order = StartOrder::kCost;
  int32_t max_streams = 4;
  kernels::DType activation =
      kernels::DType::kF32;           // kF16, kBF16: of values whose ops can (narrow_activations)
  int32_t column_align = 16;          // row strides of GEMM inputs are rounded up to this many floats
  std::vector<std::string> tiered;    // tables of the bundle whose rows the store moves
  std::vector<std::string> may_tier;  // the same where nothing is against it: others stay, with a note
  bool fold_as_tiered = false;        // folds take every table for one whose rows the store moves
  int64_t light_branch = -1;  // a branch that touches fewer floats per row gets no stream of its own; -1 =
                              // 256 with folds, 0 without
};

/// Where a value lives.
enum class Storage : int32_t {
  kArena = 0,  // bytes of the context's arena, offset by plan_memory
  kInput = 1,  // the request's packed input: feature `feature`
  kConst = 2,  // parameter `param`, one row
  kAlias = 3,  // columns [column, column + size) of value `base` (an arena value); never an alias of an alias
  kOutput = 4,  // head output: column `column` of the scores, row stride = number of heads
  kLogit = 5,   // the same for logits (written only when the caller wants them)
};

struct PlanValue {
  std::string name;
  bool is_bags = false;
  Dims dims;
  RowSpace space = RowSpace::kItem;
  Storage storage = Storage::kArena;
  int64_t row_stride =
      0;  // elements between rows in its buffer (kArena: >= dims.size(); kAlias: the base's; 0: constant)
  int32_t feature = -1;
  int32_t placement = -1;  // kInput: the ids' places in a tiered table, Plan::placements
  int32_t param = -1;
  int32_t base = -1;
  int64_t column = 0;
  kernels::DType dtype = kernels::DType::kF32;  // of its elements; kF16 or kBF16 only in kArena and kAlias
};

/// Weights of the plan: the graph's own and those that folds made. Shared with backends only during
/// op_prepare.
struct PlanParam {
  std::string name;
  Dims dims;
  std::vector<float> data;
};

/// A lookup table of the plan: a table of the bundle, or scalars per row derived from some while they are
/// loaded.
struct PlanTable {
  std::string name;
  int64_t rows = 0;
  int32_t dim = 0;
  kernels::DType dtype = kernels::DType::kF32;
  int32_t source = -1;         // table of the bundle stored as it is; -1 = derived
  bool needs_nonzero = false;  // some op asks for the row-nonzero bits
  int32_t ride_with = -1;      // derived: the PlanTable whose padding may hold it, same rows; -1 = on its own
  bool tiered = false;         // its lookups read places, which the store says per call
  bool alone = false;          // what is derived from its rows is derived from them alone (mark_tiered)
  bool rounded = false;        // its rows are not float32, or will not be once they are loaded
  std::vector<PinnedRow> pinned;  // tiered only

  /// column k of a derived table is the sum of its terms over the rows of bundle tables (all with `rows` rows
  /// or more). One that is tiered rides with the table that all its terms are of, at the places of its rows.
  using Term = RowTerm;
  std::vector<DerivedColumn> columns;  // [dim], derived only
};

/// inputs, outputs, params in the order of the op's row in ops/table.cpp; -1 = absent.
struct PlanOp : OpArrays {
  OpKind kind = OpKind::kInput;
  std::string name;
  std::string module;
  OpAttrs attrs;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  std::vector<int32_t> params;
  std::vector<int32_t> tables;  // PlanTable

  // schedule
  int32_t branch = 0;
  int32_t level = 0;
  int32_t stream = 0;
  std::vector<int32_t> waits;  // events this op's stream waits for before it
  int32_t records = -1;        // event recorded after it, -1 = none

  /// Points attrs at the arrays. Call after the op has reached its final place in memory (and after every
  /// copy).
  void bind_pointers() { bind(&attrs); }
};

/// Ids of a feature that are looked up in a tiered table.
struct Placement {
  int32_t feature = -1;
  int32_t table = -1;  // PlanTable
};

struct PlanHead {
  std::string name;
  std::string activation;
  int32_t value = -1;
  int32_t logit = -1;
};

struct Plan {
  std::string name;
  std::vector<FeatureSpec> features;
  std::vector<PlanTable> tables;
  std::vector<PlanParam> params;
  std::vector<PlanValue> values;
  std::vector<PlanOp> ops;  // issue order
  std::vector<PlanHead> heads;
  std::vector<Placement> placements;
  int32_t n_streams = 1;
  int32_t n_events =
      0;  // records of ops and start_event are numbered 0 .. n_events-1, each recorded once per call
  int32_t start_event =
      -1;  // the runtime records it on stream 0 after copy_in, before the first op; -1 = not needed
  std::vector<int32_t> end_waits;  // events that stream 0 waits for after the last op, before copy_out
  std::vector<std::string> notes;  // what each pass did or refused, one line each
  // While passes run: the floats that params may have, and have. One that would need more does not act.
  int64_t most_floats = 0, floats = 0;
};

/// All passes. The plan's op attrs point into the plan: do not copy ops out of it.
Result<Plan> make_plan(const Graph& graph, const PlanOptions& options);

/// Arena offsets for a context of this capacity. offset[v] is in bytes, -1 for values that are not kArena.
struct MemoryPlan {
  std::vector<int64_t> offset;
  int64_t arena_bytes = 0;
};
Result<MemoryPlan> plan_memory(const Plan& plan, int64_t max_rows, int64_t max_shared_rows,
                               int64_t alignment);

/// Proves, without using anything of the passes, that every edge of the plan is ordered by stream order or an
/// event path and that no bytes are shared by values whose uses are not separated. Returns the first fault
/// found.
Status check_plan(const Plan& plan, const MemoryPlan& memory, int64_t max_rows, int64_t max_shared_rows);

std::string dump_plan(const Plan& plan);
std::string dump_plan_dot(const Plan& plan);

}  // namespace dpi
