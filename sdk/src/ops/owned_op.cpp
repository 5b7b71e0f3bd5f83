#include "ops/owned_op.hpp"

#include "ops/table.hpp"

namespace dpi {
namespace {

using kernels::Param;

template <class T>
std::vector<T> copied(const T* data, int64_t n) {
  return n > 0 ? std::vector<T>(data, data + n) : std::vector<T>();
}

template <class T, class Count>
void point_at(const std::vector<T>& data, const T** pointer, Count* count) {
  *pointer = data.data();
  *count = static_cast<Count>(data.size());
}

Status check_desc(const dpi_op_desc& d) {
  const auto kind = static_cast<int32_t>(d.kind);
  if (kind < 0 || kind >= static_cast<int32_t>(OpKind::kCount)) {
    return unsupported("op kind " + std::to_string(kind) + " is not known");
  }
  if (!is_executed(d.kind)) {
    return unsupported(std::string(op_name(d.kind)) + " is not executed by a backend");
  }
  if (d.attrs == nullptr && !form_of(d.kind).bare) return invalid_argument("attrs is null");
  if (d.n_inputs < 0 || d.n_outputs < 0 || d.n_params < 0 || d.n_tables < 0) {
    return invalid_argument("a count of operands is negative");
  }
  return ok_status();
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

}  // namespace

void OpArrays::bind(OpAttrs* attrs) const {
  if (auto* view = std::get_if<kernels::ViewAttrs>(attrs)) {
    point_at(indices, &view->indices, &view->n_indices);
  } else if (auto* dense = std::get_if<kernels::DenseAttrs>(attrs)) {
    point_at(segments, &dense->segments, &dense->n_segments);
  } else if (auto* lookup = std::get_if<kernels::MultiLookupAttrs>(attrs)) {
    point_at(fields, &lookup->fields, &lookup->n_fields);
    point_at(scalars, &lookup->scalars, &lookup->n_scalars);
    point_at(numerics, &lookup->numerics, &lookup->n_numerics);
  }
}

void OpArrays::copy_from(const OpAttrs& attrs) {
  if (const auto* view = std::get_if<kernels::ViewAttrs>(&attrs)) {
    indices = copied(view->indices, view->n_indices);
  } else if (const auto* dense = std::get_if<kernels::DenseAttrs>(&attrs)) {
    segments = copied(dense->segments, dense->n_segments);
  } else if (const auto* lookup = std::get_if<kernels::MultiLookupAttrs>(&attrs)) {
    fields = copied(lookup->fields, lookup->n_fields);
    scalars = copied(lookup->scalars, lookup->n_scalars);
    numerics = copied(lookup->numerics, lookup->n_numerics);
  }
}

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

size_t OwnedOp::param_bytes() const {
  size_t n = 0;
  for (const auto& data : param_data) n += data.capacity() * sizeof(float);
  return n;
}

Result<OwnedOp> own_op(const dpi_op_desc& desc) {
  DPI_RETURN_IF_ERROR(check_desc(desc));
  OwnedOp op;
  op.kind = desc.kind;
  op.name = desc.name != nullptr ? desc.name : "";
  op.attrs = form_of(desc.kind).attrs(desc.attrs);
  op.copy_from(op.attrs);
  op.bind(&op.attrs);
  op.inputs = copied(desc.inputs, desc.n_inputs);
  op.outputs = copied(desc.outputs, desc.n_outputs);
  op.tables = copied(desc.tables, desc.n_tables);
  op.max_rows = desc.max_rows;
  own_params(op, desc);
  return op;
}

}  // namespace dpi
