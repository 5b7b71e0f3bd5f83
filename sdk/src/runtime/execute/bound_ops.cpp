#include "runtime/execute/bound_ops.hpp"

namespace dpi {

BoundOps::BoundOps(const Engine& engine, const FlightMemory& memory) : engine_(engine), memory_(memory) {
  const Plan& plan = engine_.plan();
  operands_.resize(plan.ops.size());
  calls_.resize(plan.ops.size());
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    Operands& b = operands_[i];
    b.inputs.resize(op.inputs.size());
    b.outputs.resize(op.outputs.size());
    b.tables.resize(op.tables.size());
    b.space = RowSpace::kItem;
    for (const int32_t v : op.outputs) {
      if (v >= 0) b.space = plan.values[v].space;
    }
    calls_[i].inputs = b.inputs.data();
    calls_[i].outputs = b.outputs.data();
    calls_[i].tables = b.tables.data();
    calls_[i].scratch = memory_.scratch[op.stream];
    calls_[i].faults = memory_.faults;
    const auto add_lookup = [&](int32_t table, int32_t input) {
      lookups_.push_back({op.tables[table], {}});
      lookup_sources_.push_back({static_cast<int32_t>(i), input, plan.values[op.inputs[input]].feature});
    };
    if (op.kind == OpKind::kEmbed) add_lookup(0, 0);
    for (const auto& f : op.fields) add_lookup(f.table, f.input);
    for (const auto& f : op.scalars) add_lookup(f.table, f.input);
  }
}

kernels::Tensor BoundOps::tensor_of(int32_t index, const ResolvedRows& rows, float* out,
                                    float* logits) const {
  const PlanValue& v = engine_.plan().values[index];
  kernels::Tensor t;
  t.dims = v.dims;
  t.row_stride = engine_.row_stride(v);
  t.dtype = v.dtype;
  t.rows = rows.of(v.space);
  switch (v.storage) {
    case Storage::kArena:
      t.data = reinterpret_cast<float*>(memory_.arena + memory_.plan->offset[index]);
      break;
    case Storage::kAlias:
      t.data = reinterpret_cast<float*>(memory_.arena + memory_.plan->offset[v.base] +
                                        v.column * kernels::dtype_bytes(v.dtype));
      break;
    case Storage::kConst:
      t.data = engine_.const_data(v.param);
      break;
    case Storage::kOutput:
      t.data = out + v.column;
      break;
    case Storage::kLogit:
      t.data = logits + v.column;
      break;
    case Storage::kInput:
      break;  // from the packed block
  }
  return t;
}

void BoundOps::bind_op(size_t i, const InputMap& map, const ResolvedRows& rows, float* out, float* logits) {
  const Plan& plan = engine_.plan();
  const PlanOp& op = plan.ops[i];
  Operands& b = operands_[i];
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const int32_t v = op.inputs[k];
    if (v < 0) continue;
    if (plan.values[v].storage == Storage::kInput) {
      b.inputs[k] = input_operand(engine_.schema(), map, plan.values[v].feature, rows, memory_.input);
    } else {
      b.inputs[k].tensor = tensor_of(v, rows, out, logits);
    }
  }
  for (size_t k = 0; k < op.outputs.size(); ++k) {
    if (op.outputs[k] >= 0) b.outputs[k] = tensor_of(op.outputs[k], rows, out, logits);
  }
  calls_[i].rows = rows.of(b.space);
  calls_[i].row_map = rows.has_map ? reinterpret_cast<const int32_t*>(memory_.input + map.row_map) : nullptr;
}

void BoundOps::bind(const InputMap& map, const ResolvedRows& rows, float* out, float* logits) {
  for (size_t i = 0; i < operands_.size(); ++i) bind_op(i, map, rows, out, logits);
}

Status BoundOps::prepare_tables(const InputMap& map, const ResolvedRows& rows, uint64_t deadline_ns) {
  if (lookups_.empty()) return {};
  for (size_t i = 0; i < lookups_.size(); ++i) {
    const Source& s = lookup_sources_[i];
    lookups_[i].ids = memory_.input == memory_.staging
                          ? operands_[s.op].inputs[s.input].bags
                          : input_operand(engine_.schema(), map, s.feature, rows, memory_.staging).bags;
  }
  auto ready = engine_.store().prepare({lookups_, deadline_ns});
  if (!ready.ok()) return std::move(ready).status();
  if (ready.value() == Readiness::kLate)
    return {Code::kTimeout, "embedding rows did not arrive before the deadline"};
  const uint64_t version = engine_.store().version();
  if (views_taken_ && version == seen_version_) return {};
  for (size_t i = 0; i < operands_.size(); ++i) {
    const auto& tables = engine_.plan().ops[i].tables;
    for (size_t t = 0; t < tables.size(); ++t) operands_[i].tables[t] = engine_.store().view(tables[t]);
  }
  seen_version_ = version;
  views_taken_ = true;
  return {};
}

}  // namespace dpi
