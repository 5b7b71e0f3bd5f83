// Activations in 16 bits: a buffer between lookup, Dense and element-wise ops is halved when every op that
// writes or reads any part of it can, and no decision is made by it. Runs after the head values have their
// places, which stay float32.
#include <algorithm>

#include "ops/table.hpp"
#include "plan/analysis/decisions.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

constexpr int64_t kRowBytes =
    16;  // row strides are multiples of it: what tensor cores and wide loads ask for
constexpr int64_t kLeastElements = 8;  // scalars and short vectors stay as they are

// Do the kernels of the op take 16 bits in any input, and write them in output `at`?
bool reads_narrow(const PlanOp& op) {
  const Narrow narrow = form_of(op.kind).narrow;
  return narrow == Narrow::kInputs || narrow == Narrow::kBoth;
}

bool writes_narrow(const PlanOp& op, size_t at) {
  const Narrow narrow = form_of(op.kind).narrow;
  return at == 0 && (narrow == Narrow::kOutput || narrow == Narrow::kBoth);
}

class Narrowing {
 public:
  Narrowing(Plan& plan, kernels::DType type) : p_(plan), type_(type), why_(plan.values.size()) {}

  void run() {
    for (const PlanOp& op : p_.ops) {
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        if (!reads_narrow(op)) keep(op.inputs[i], op);
      }
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        if (!writes_narrow(op, i)) keep(op.outputs[i], op);
      }
    }
    const std::vector<char> ahead = ahead_of_decisions(p_, index_of(p_));
    for (size_t v = 0; v < ahead.size(); ++v) {
      if (ahead[v] != 0) keep(static_cast<int32_t>(v), "a decision");
    }
    int64_t narrowed = 0;
    int64_t kept = 0;
    std::string first;
    for (size_t v = 0; v < p_.values.size(); ++v) {
      const PlanValue& value = p_.values[v];
      if (value.storage != Storage::kArena || value.is_bags || value.dims.size() < kLeastElements) continue;
      if (why_[v].empty()) {
        narrow(p_.values[v]);
        ++narrowed;
      } else {
        if (kept++ == 0) first = "'" + value.name + "' is touched by " + why_[v];
      }
    }
    for (PlanValue& value : p_.values) {
      if (value.storage != Storage::kAlias) continue;
      value.dtype = value_of(p_, value.base).dtype;
      value.row_stride = value_of(p_, value.base).row_stride;
    }
    p_.notes.push_back(std::string("precision: ") + name_of(type_) + " in " + std::to_string(narrowed) +
                       " values, f32 in " + std::to_string(kept) + (kept > 0 ? ": " + first : std::string()));
  }

 private:
  // `op` takes 32 bits only: the buffer in which `v` lies stays.
  void keep(int32_t v, const PlanOp& op) {
    if (v >= 0) keep(v, std::string(op_name(op.kind)) + " '" + op.name + "'");
  }

  void keep(int32_t v, const std::string& by) {
    const PlanValue& value = value_of(p_, v);
    const int32_t base = value.storage == Storage::kAlias ? value.base : v;
    std::string& why = why_[static_cast<size_t>(base)];
    if (why.empty()) why = by;
  }

  void narrow(PlanValue& value) const {
    const int64_t step = kRowBytes / kernels::dtype_bytes(type_);
    value.dtype = type_;
    value.row_stride = (std::max(value.row_stride, value.dims.size()) + step - 1) / step * step;
  }

  Plan& p_;
  kernels::DType type_;
  std::vector<std::string> why_;  // by value: which op keeps it at 32 bits; empty = none
};

}  // namespace

Plan narrow_activations(Plan plan, kernels::DType type) {
  if (type != kernels::DType::kF32) Narrowing(plan, type).run();
  return plan;
}

}  // namespace dpi::plan
