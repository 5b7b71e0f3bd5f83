#include "runtime/engine/op_description.hpp"

#include <variant>

namespace dpi {

namespace {

dpi_value_desc describe_value(const Plan& plan, int32_t index, const RowStride& row_stride) {
  dpi_value_desc d{};
  if (index < 0) return d;
  const PlanValue& v = plan.values[index];
  d.dims = v.dims;
  d.is_bags = v.is_bags ? 1 : 0;
  d.is_constant = v.space == RowSpace::kConstant ? 1 : 0;
  d.row_stride = row_stride(v);
  d.dtype = v.dtype;
  return d;
}

}  // namespace

void describe_op(const Plan& plan, const PlanOp& op, const RowStride& row_stride, int64_t max_rows,
                 OpDescription* out) {
  for (const int32_t v : op.inputs) out->inputs.push_back(describe_value(plan, v, row_stride));
  for (const int32_t v : op.outputs) out->outputs.push_back(describe_value(plan, v, row_stride));
  for (const int32_t p : op.params) {
    out->params.emplace_back();
    if (p >= 0) out->params.back() = {plan.params[p].data.data(), plan.params[p].dims};
  }
  for (const int32_t t : op.tables) {
    out->tables.push_back({plan.tables[t].rows, plan.tables[t].dim, plan.tables[t].dtype});
  }
  dpi_op_desc& desc = out->desc;
  desc.struct_size = sizeof desc;
  desc.kind = op.kind;
  desc.name = op.name.c_str();
  desc.attrs = std::visit([](const auto& a) { return static_cast<const void*>(&a); }, op.attrs);
  desc.inputs = out->inputs.data();
  desc.outputs = out->outputs.data();
  desc.params = out->params.data();
  desc.tables = out->tables.data();
  desc.n_inputs = static_cast<int32_t>(out->inputs.size());
  desc.n_outputs = static_cast<int32_t>(out->outputs.size());
  desc.n_params = static_cast<int32_t>(out->params.size());
  desc.n_tables = static_cast<int32_t>(out->tables.size());
  desc.max_rows = max_rows;
}

SmallBatchDescription::SmallBatchDescription(const Plan& plan, const RowStride& row_stride, int64_t max_rows)
    : descriptions_(plan.ops.size()) {
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    describe_op(plan, plan.ops[i], row_stride, max_rows, &descriptions_[i]);
    ops_.push_back(descriptions_[i].desc);
    inputs_.push_back(plan.ops[i].inputs.data());
    outputs_.push_back(plan.ops[i].outputs.data());
  }
  for (const PlanValue& v : plan.values) {
    const bool kept = v.storage == Storage::kOutput || v.storage == Storage::kLogit;
    values_.push_back(
        {v.storage == Storage::kAlias ? v.base : -1, static_cast<int32_t>(v.column), kept ? 1 : 0});
  }
  desc_.struct_size = sizeof desc_;
  desc_.n_ops = static_cast<int32_t>(ops_.size());
  desc_.ops = ops_.data();
  desc_.input_values = inputs_.data();
  desc_.output_values = outputs_.data();
  desc_.values = values_.data();
  desc_.n_values = static_cast<int32_t>(values_.size());
}

}  // namespace dpi
