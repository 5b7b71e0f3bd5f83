#include "plan/analysis/ir.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace dpi::plan {

Index index_of(const Plan& plan) {
  Index ix;
  ix.producer.assign(plan.values.size(), -1);
  ix.users.resize(plan.values.size());
  ix.head_uses.assign(plan.values.size(), 0);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    if (is_dead(op)) continue;
    for (int32_t v : op.inputs) {
      if (v >= 0) ix.users[static_cast<size_t>(v)].push_back(static_cast<int32_t>(i));
    }
    for (int32_t v : op.outputs) {
      if (v >= 0) ix.producer[static_cast<size_t>(v)] = static_cast<int32_t>(i);
    }
  }
  for (const PlanHead& h : plan.heads) {
    if (h.value >= 0) ++ix.head_uses[static_cast<size_t>(h.value)];
    if (h.logit >= 0) ++ix.head_uses[static_cast<size_t>(h.logit)];
  }
  return ix;
}

const PlanOp* producer_of(const Plan& plan, const Index& index, int32_t v) {
  const int32_t i =
      static_cast<size_t>(v) < index.producer.size() ? index.producer[static_cast<size_t>(v)] : -1;
  return i < 0 ? nullptr : &plan.ops[static_cast<size_t>(i)];
}

const PlanOp* producer_of(const Plan& plan, const Index& index, int32_t v, OpKind kind) {
  const PlanOp* op = producer_of(plan, index, v);
  return op != nullptr && op->kind == kind ? op : nullptr;
}

const PlanOp* only_user(const Plan& plan, const Index& index, int32_t v, OpKind kind) {
  if (!index.single_use(v)) return nullptr;
  const PlanOp& op = plan.ops[static_cast<size_t>(index.users[static_cast<size_t>(v)][0])];
  return op.kind == kind ? &op : nullptr;
}

void kill(PlanOp& op) {
  op.kind = OpKind::kInput;
  op.inputs.clear();
  op.outputs.clear();
  op.params.clear();
  op.tables.clear();
}

int32_t add_value(Plan& plan, std::string name, const Dims& dims, RowSpace space) {
  PlanValue v;
  v.name = std::move(name);
  v.dims = dims;
  v.space = space;
  v.row_stride = dims.size();
  plan.values.push_back(std::move(v));
  return static_cast<int32_t>(plan.values.size() - 1);
}

int32_t add_param(Plan& plan, std::string name, const Dims& dims, std::vector<float> data) {
  plan.floats += dims.size();
  plan.params.push_back({std::move(name), dims, std::move(data)});
  return static_cast<int32_t>(plan.params.size() - 1);
}

namespace {

constexpr int64_t kTimesGraph = 4, kSpareFloats = 4 << 20;

int64_t param_floats(const Plan& plan) {
  int64_t n = 0;
  for (const PlanParam& p : plan.params) n += p.dims.size();
  return n;
}

}  // namespace

void set_limit(Plan& plan) {
  plan.floats = param_floats(plan);
  int64_t named = 0;
  for (const PlanOp& op : plan.ops) {
    for (const int32_t p : op.params) named += p < 0 ? 0 : param_of(plan, p).dims.size();
  }
  plan.most_floats = kTimesGraph * std::max(named, plan.floats) + kSpareFloats;
}

void note_no_room(Plan& plan, const std::string& op) {
  std::string note = "memory: '" + op + "' stays, what a pass would make of it takes too much";
  if (std::find(plan.notes.begin(), plan.notes.end(), note) == plan.notes.end())
    plan.notes.push_back(std::move(note));
}

bool has_room(Plan& plan, int64_t floats, const std::string& op) {
  if (floats <= room(plan)) return true;
  note_no_room(plan, op);
  return false;
}

const std::vector<float>* const_data(const Plan& plan, int32_t value) {
  const PlanValue& v = value_of(plan, value);
  return v.storage == Storage::kConst ? &param_of(plan, v.param).data : nullptr;
}

bool scalar_const(const Plan& plan, int32_t value, double* out) {
  const std::vector<float>* data = const_data(plan, value);
  if (!data || data->size() != 1) return false;
  *out = (*data)[0];
  return true;
}

Region region_of(const Plan& plan, int32_t value) {
  const PlanValue& v = value_of(plan, value);
  switch (v.storage) {
    case Storage::kInput:
    case Storage::kConst:
      return {};
    case Storage::kAlias:
      return {v.base, v.column, v.column + v.dims.size()};
    default:
      return {value, 0, v.dims.size()};
  }
}

std::vector<Region> reads_of(const Plan& plan, const PlanOp& op) {
  std::vector<Region> out;
  for (int32_t v : op.inputs) {
    if (v < 0) continue;
    if (const Region r = region_of(plan, v); r.base >= 0) out.push_back(r);
  }
  return out;
}

namespace {

/// Columns that a MultiLookup's fields write into its matrix, joined where they touch.
std::vector<Region> lookup_columns(const Plan& plan, const PlanOp& op, const Region& out) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const kernels::LookupField& f : op.fields) {
    const PlanTable& t = plan.tables[static_cast<size_t>(op.tables[static_cast<size_t>(f.table)])];
    if (f.out_col >= 0) spans.emplace_back(f.out_col, f.out_col + t.dim);
  }
  for (const kernels::NumericField& f : op.numerics) {
    if (f.out_col >= 0) spans.emplace_back(f.out_col, f.out_col + f.dim);
  }
  std::sort(spans.begin(), spans.end());
  std::vector<Region> regions;
  for (const auto& [begin, end] : spans) {
    if (!regions.empty() && regions.back().end == out.begin + begin) {
      regions.back().end = out.begin + end;
    } else {
      regions.push_back({out.base, out.begin + begin, out.begin + end});
    }
  }
  return regions;
}

}  // namespace

std::vector<Region> writes_of(const Plan& plan, const PlanOp& op) {
  std::vector<Region> regions;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (op.outputs[i] < 0) continue;
    const Region r = region_of(plan, op.outputs[i]);
    if (r.base < 0) continue;
    if (op.kind == OpKind::kMultiLookup && i == 0) {
      for (const Region& c : lookup_columns(plan, op, r)) regions.push_back(c);
    } else {
      regions.push_back(r);
    }
  }
  return regions;
}

Dag dag_of(const Plan& plan) {
  struct Write {
    int64_t begin, end;
    int32_t op;
  };
  std::vector<std::vector<Write>> writers(plan.values.size());
  const size_t n = plan.ops.size();
  for (size_t i = 0; i < n; ++i) {
    for (const Region& r : writes_of(plan, plan.ops[i])) {
      writers[static_cast<size_t>(r.base)].push_back({r.begin, r.end, static_cast<int32_t>(i)});
    }
  }
  Dag dag;
  dag.preds.resize(n);
  dag.succs.resize(n);
  for (size_t i = 0; i < n; ++i) {
    std::vector<int32_t>& preds = dag.preds[i];
    for (const Region& r : reads_of(plan, plan.ops[i])) {
      for (const Write& w : writers[static_cast<size_t>(r.base)]) {
        if (w.begin < r.end && r.begin < w.end && w.op != static_cast<int32_t>(i)) preds.push_back(w.op);
      }
    }
    std::sort(preds.begin(), preds.end());
    preds.erase(std::unique(preds.begin(), preds.end()), preds.end());
    for (int32_t p : preds) dag.succs[static_cast<size_t>(p)].push_back(static_cast<int32_t>(i));
  }
  return dag;
}

}  // namespace dpi::plan
