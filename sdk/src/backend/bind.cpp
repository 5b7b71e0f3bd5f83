#include "backend/bind.hpp"

#include <utility>

namespace dpi::backend {
namespace {

using kernels::Operand;
using kernels::OpKind;
using kernels::Param;
using kernels::Tensor;

template <class T>
std::vector<T> copied(const T* data, int64_t n) {
  return n > 0 ? std::vector<T>(data, data + n) : std::vector<T>();
}

// The attribute struct of a kind, by value.
OpAttrs attrs_by_kind(const dpi_op_desc& d) {
  switch (d.kind) {
    case OpKind::kEmbed:
      return attrs_of<kernels::EmbedAttrs>(d);
    case OpKind::kMask:
      return attrs_of<kernels::MaskAttrs>(d);
    case OpKind::kLinear:
      return attrs_of<kernels::LinearAttrs>(d);
    case OpKind::kMatMul:
      return attrs_of<kernels::MatMulAttrs>(d);
    case OpKind::kBinary:
      return attrs_of<kernels::BinaryAttrs>(d);
    case OpKind::kUnary:
      return attrs_of<kernels::UnaryAttrs>(d);
    case OpKind::kLayerNorm:
      return attrs_of<kernels::LayerNormAttrs>(d);
    case OpKind::kSoftmax:
      return attrs_of<kernels::SoftmaxAttrs>(d);
    case OpKind::kReduce:
      return attrs_of<kernels::ReduceAttrs>(d);
    case OpKind::kConcat:
      return attrs_of<kernels::ConcatAttrs>(d);
    case OpKind::kView:
      return attrs_of<kernels::ViewAttrs>(d);
    case OpKind::kRecurrent:
      return attrs_of<kernels::RecurrentAttrs>(d);
    case OpKind::kMultiLookup:
      return attrs_of<kernels::MultiLookupAttrs>(d);
    case OpKind::kDense:
      return attrs_of<kernels::DenseAttrs>(d);
    case OpKind::kElementwise:
      return attrs_of<kernels::ElementwiseAttrs>(d);
    case OpKind::kCrossV1:
    case OpKind::kCrossV1Closed:
      return attrs_of<kernels::CrossV1Attrs>(d);
    case OpKind::kFm:
      return attrs_of<kernels::FmAttrs>(d);
    case OpKind::kTail:
      return attrs_of<kernels::TailAttrs>(d);
    default:
      return {};
  }
}

// Input and Const are bound by the plan and never reach a backend; BroadcastRows has no attributes.
Status check_desc(const dpi_op_desc& d) {
  const auto kind = static_cast<int32_t>(d.kind);
  if (kind < 0 || kind >= static_cast<int32_t>(OpKind::kCount)) {
    return unsupported("op kind " + std::to_string(kind) + " is not known");
  }
  if (d.kind == OpKind::kInput || d.kind == OpKind::kConst) {
    return unsupported(std::string(op_name(d.kind)) + " is not executed by a backend");
  }
  if (d.attrs == nullptr && d.kind != OpKind::kBroadcastRows) return invalid_argument("attrs is null");
  if (d.n_inputs < 0 || d.n_outputs < 0 || d.n_params < 0 || d.n_tables < 0) {
    return invalid_argument("a count of operands is negative");
  }
  return ok_status();
}

// Copies the arrays behind the pointers in op.attrs and redirects them.
void own_arrays(OwnedOp& op) {
  if (auto* a = std::get_if<kernels::ViewAttrs>(&op.attrs)) {
    op.indices = copied(a->indices, a->n_indices);
    a->indices = op.indices.data();
  } else if (auto* dense = std::get_if<kernels::DenseAttrs>(&op.attrs)) {
    op.segments = copied(dense->segments, dense->n_segments);
    dense->segments = op.segments.data();
  } else if (auto* lookup = std::get_if<kernels::MultiLookupAttrs>(&op.attrs)) {
    op.fields = copied(lookup->fields, lookup->n_fields);
    op.scalars = copied(lookup->scalars, lookup->n_scalars);
    op.numerics = copied(lookup->numerics, lookup->n_numerics);
    lookup->fields = op.fields.data();
    lookup->scalars = op.scalars.data();
    lookup->numerics = op.numerics.data();
  }
}

void own_params(OwnedOp& op, const dpi_op_desc& d) {
  op.params = copied(d.params, d.n_params);
  if (d.kind == OpKind::kTail && op.params.size() < op.inputs.size())
    op.params.resize(op.inputs.size());  // absent weights
  op.param_data.resize(op.params.size());
  for (size_t i = 0; i < op.params.size(); ++i) {
    Param& p = op.params[i];
    if (p.data == nullptr) continue;
    op.param_data[i] = copied(p.data, p.dims.size());
    op.param_data[i].reserve(1);  // a param of no elements is still present
    p.data = op.param_data[i].data();
  }
}

Tensor input(const OwnedOp& op, const dpi_op_call& call, size_t i) {
  return i < op.inputs.size() ? call.inputs[i].tensor : Tensor{};
}

Tensor output(const OwnedOp& op, const dpi_op_call& call, size_t i) {
  return i < op.outputs.size() ? call.outputs[i] : Tensor{};
}

}  // namespace

const dpi_value_desc& OwnedOp::input(size_t i) const {
  static const dpi_value_desc kAbsent{};
  return i < inputs.size() ? inputs[i] : kAbsent;
}

const dpi_value_desc& OwnedOp::output(size_t i) const {
  static const dpi_value_desc kAbsent{};
  return i < outputs.size() ? outputs[i] : kAbsent;
}

Param OwnedOp::param(size_t i) const { return i < params.size() ? params[i] : Param{}; }

void OwnedOp::drop_param(size_t i) {
  if (i >= params.size()) return;
  std::vector<float>().swap(param_data[i]);
  params[i].data = nullptr;
}

Result<OwnedOp> own_op(const dpi_op_desc& desc) {
  DPI_RETURN_IF_ERROR(check_desc(desc));
  OwnedOp op;
  op.kind = desc.kind;
  op.name = desc.name != nullptr ? desc.name : "";
  op.attrs = attrs_by_kind(desc);
  op.inputs = copied(desc.inputs, desc.n_inputs);
  op.outputs = copied(desc.outputs, desc.n_outputs);
  op.tables = copied(desc.tables, desc.n_tables);
  op.max_rows = desc.max_rows;
  own_arrays(op);
  own_params(op, desc);
  return op;
}

kernels::EmbedArgs embed_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::EmbedAttrs>(), call.inputs[0].bags, call.tables[0], output(op, call, 0)};
}

kernels::MaskArgs mask_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::MaskAttrs>(), call.inputs[0].bags, call.inputs[0].tensor, output(op, call, 0)};
}

kernels::LinearArgs linear_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::LinearAttrs>(), input(op, call, 0), op.param(0), op.param(1), output(op, call, 0)};
}

kernels::MatMulArgs matmul_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::MatMulAttrs>(), input(op, call, 0), input(op, call, 1), output(op, call, 0)};
}

kernels::BinaryArgs binary_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::BinaryAttrs>(), input(op, call, 0), input(op, call, 1), output(op, call, 0)};
}

kernels::UnaryArgs unary_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::UnaryAttrs>(), input(op, call, 0), op.param(0), op.param(1), op.param(2),
          output(op, call, 0)};
}

kernels::LayerNormArgs layer_norm_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::LayerNormAttrs>(), input(op, call, 0), op.param(0), op.param(1),
          output(op, call, 0)};
}

kernels::SoftmaxArgs softmax_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::SoftmaxAttrs>(), input(op, call, 0), input(op, call, 1), output(op, call, 0)};
}

kernels::ReduceArgs reduce_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ReduceAttrs>(), input(op, call, 0), input(op, call, 1), output(op, call, 0)};
}

kernels::ConcatArgs concat_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ConcatAttrs>(), call.inputs, static_cast<int64_t>(op.inputs.size()),
          output(op, call, 0)};
}

kernels::ViewArgs view_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ViewAttrs>(), input(op, call, 0), output(op, call, 0)};
}

kernels::RecurrentArgs recurrent_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::RecurrentAttrs>(),
          input(op, call, 0),
          input(op, call, 1),
          input(op, call, 2),
          op.param(0),
          op.param(1),
          op.param(2),
          op.param(3),
          call.scratch,
          output(op, call, 0)};
}

kernels::BroadcastRowsArgs broadcast_rows_args(const OwnedOp& op, const dpi_op_call& call) {
  return {input(op, call, 0), call.row_map, output(op, call, 0)};
}

kernels::MultiLookupArgs multi_lookup_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::MultiLookupAttrs>(),
          call.inputs,
          call.tables,
          op.param(0),
          op.param(1),
          op.param(2),
          call.rows,
          output(op, call, 0),
          output(op, call, 1)};
}

kernels::DenseArgs dense_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::DenseAttrs>(),
          input(op, call, 0),
          op.param(0),
          op.param(1),
          op.param(2),
          op.param(3),
          op.param(4),
          input(op, call, 1),
          input(op, call, 2),
          nullptr,
          call.scratch,
          output(op, call, 0)};
}

kernels::ElementwiseArgs elementwise_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ElementwiseAttrs>(), call.inputs, op.params.data(), output(op, call, 0)};
}

kernels::CrossV1Args cross_v1_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::CrossV1Attrs>(), input(op, call, 0), op.param(0), op.param(1), output(op, call, 0)};
}

kernels::CrossV1ClosedArgs cross_v1_closed_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::CrossV1Attrs>(), input(op, call, 0), op.param(0), op.param(1), output(op, call, 0)};
}

kernels::FmArgs fm_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::FmAttrs>(), input(op, call, 0), output(op, call, 0)};
}

kernels::TailArgs tail_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::TailAttrs>(),
          call.inputs,
          op.params.data(),
          static_cast<int64_t>(op.inputs.size()),
          call.rows,
          output(op, call, 0),
          output(op, call, 1)};
}

}  // namespace dpi::backend
