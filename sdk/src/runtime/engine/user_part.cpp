#include "runtime/engine/user_part.hpp"

#include <algorithm>

namespace dpi {

namespace {

constexpr int64_t kAlign = 64;

const PlanValue& value(const Plan& plan, int32_t v) { return plan.values[static_cast<size_t>(v)]; }

/// The value whose bytes v lies in.
int32_t root_of(const Plan& plan, int32_t v) {
  return value(plan, v).storage == Storage::kAlias ? value(plan, v).base : v;
}

bool is_of_user(const Plan& plan, const PlanOp& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(), [](int32_t v) { return v >= 0; }) &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](int32_t v) { return v < 0 || value(plan, v).space == RowSpace::kShared; });
}

}  // namespace

UserPart user_part(const Plan& plan) {
  UserPart part;
  std::vector<char> read(plan.values.size(), 0);  // by root: an op that is not the user's reads it
  for (const PlanOp& op : plan.ops) {
    if (is_of_user(plan, op)) continue;
    for (const int32_t v : op.inputs)
      if (v >= 0) read[static_cast<size_t>(root_of(plan, v))] = 1;
  }
  std::vector<UserPart::Op> ops(plan.ops.size());
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    ops[i].of_user = is_of_user(plan, op);
    if (!ops[i].of_user) continue;
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (op.outputs[o] < 0) continue;
      const PlanValue& v = value(plan, op.outputs[o]);
      if (read[static_cast<size_t>(root_of(plan, op.outputs[o]))] == 0) continue;
      // Heads are item rows, so v lies in the arena. What lies between rows of a value is as its op left it;
      // between those of columns it is the base's.
      const int64_t n = v.storage == Storage::kArena ? std::max(v.row_stride, v.dims.size()) : v.dims.size();
      const int64_t bytes = n * kernels::dtype_bytes(v.dtype);
      ops[i].kept.push_back({static_cast<int32_t>(o), part.bytes, bytes});
      part.bytes += (bytes + kAlign - 1) / kAlign * kAlign;
    }
  }
  if (part.bytes > 0) part.ops = std::move(ops);
  return part;
}

}  // namespace dpi
