// The passes' working form is the Plan itself: a list of ops that a pass may append to and mark dead. Helpers
// that every pass uses. Not for later stages: they read plan.hpp only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ops/dims.hpp"
#include "plan/plan.hpp"

namespace dpi::plan {

/// Who makes and who reads each value. Valid until an op is added, changed or marked dead.
struct Index {
  std::vector<int32_t> producer;            // op, -1 = input, constant or none
  std::vector<std::vector<int32_t>> users;  // ops, one entry per operand that reads the value
  std::vector<int32_t> head_uses;           // heads that name the value (as value or logit)

  /// Read by one operand of one op and by no head.
  bool single_use(int32_t value) const {
    return users[static_cast<size_t>(value)].size() == 1 && head_uses[static_cast<size_t>(value)] == 0;
  }
};
Index index_of(const Plan& plan);

/// The op that makes v; null for inputs, constants, -1 and values newer than the index.
const PlanOp* producer_of(const Plan& plan, const Index& index, int32_t v);
/// The same if it is of this kind, else null.
const PlanOp* producer_of(const Plan& plan, const Index& index, int32_t v, OpKind kind);
/// The op of this kind that alone reads v, once; null if there is another reader or a head.
const PlanOp* only_user(const Plan& plan, const Index& index, int32_t v, OpKind kind);

inline bool is_dead(const PlanOp& op) { return op.kind == OpKind::kInput; }
void kill(PlanOp& op);

/// New values, params and ops; the index of what was added. Names need not be unique.
int32_t add_value(Plan& plan, std::string name, const Dims& dims, RowSpace space);
int32_t add_param(Plan& plan, std::string name, const Dims& dims, std::vector<float> data);

/// How large a plan may become: 4 times the weights of the graph, once for each op that names them, + 16 MiB.
/// Values may be far larger than weights (a View repeats a number 2^24 times), so a pass that writes
/// something per element of a value asks before it does.
void set_limit(Plan& plan);
/// Floats that params and coefficients may still have.
inline int64_t room(const Plan& plan) { return plan.most_floats - plan.floats; }
/// The plan's note that a pass leaves this op as it is, for want of room; once per op.
void note_no_room(Plan& plan, const std::string& op);
/// False, with that note, when there is no room for so many floats.
bool has_room(Plan& plan, int64_t floats, const std::string& op);

using ops::dims_of;
using ops::dims_text;

inline const PlanValue& value_of(const Plan& plan, int32_t v) { return plan.values[static_cast<size_t>(v)]; }
inline const PlanParam& param_of(const Plan& plan, int32_t p) { return plan.params[static_cast<size_t>(p)]; }

/// The only element of a constant value of one element; nothing otherwise.
bool scalar_const(const Plan& plan, int32_t value, double* out);
/// Floats of a constant value, or null.
const std::vector<float>* const_data(const Plan& plan, int32_t value);

/// Columns [begin, end) of a base buffer (an arena, output or logit value).
struct Region {
  int32_t base = -1;
  int64_t begin = 0;
  int64_t end = 0;
};
/// Where a value lies; base -1 for inputs and constants.
Region region_of(const Plan& plan, int32_t value);
std::vector<Region> reads_of(const Plan& plan, const PlanOp& op);
/// MultiLookup writes the columns of its fields only; every other op all of its outputs.
std::vector<Region> writes_of(const Plan& plan, const PlanOp& op);

/// Edges between ops: a reader comes after every writer of bytes it reads. Lists are ascending and without
/// repetition.
struct Dag {
  std::vector<std::vector<int32_t>> preds;
  std::vector<std::vector<int32_t>> succs;
};
Dag dag_of(const Plan& plan);

/// Drops dead ops, ops that no head needs, and values, params and tables that nothing names; sorts
/// topologically, keeping the given order where it can. kInternal when the ops form a cycle.
Result<Plan> cleanup(Plan plan);

}  // namespace dpi::plan
