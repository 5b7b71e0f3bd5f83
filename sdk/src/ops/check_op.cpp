#include "ops/check_op.hpp"

#include "ops/op_checker.hpp"
#include "ops/table.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace {

using kernels::DType;
using ops::number;
using ops::OpChecker;

// Every output that is present must be a value with a sound row stride.
Status check_outputs(const OpChecker& c) {
  const OwnedOp& op = c.op();
  DPI_RETURN_IF_ERROR(c.require(!op.outputs.empty(), "the number of outputs", "0", "1 or more"));
  for (const dpi_value_desc& v : op.outputs) {
    if (!is_absent(v)) DPI_RETURN_IF_ERROR(c.value("an output", v, 1));
  }
  return c.require(form_of(op.kind).outputs.may_lack(0) || !is_absent(op.output(0)), "the output", "absent",
                   "a value");
}

// Which operands may have 16-bit elements where the backend takes such.
bool may_be_narrow(OpKind kind, bool is_output, size_t i) {
  const Narrow narrow = form_of(kind).narrow;
  if (is_output) return i == 0 && (narrow == Narrow::kOutput || narrow == Narrow::kBoth);
  return narrow == Narrow::kInputs || narrow == Narrow::kBoth;
}

std::string type_text(DType t) {
  return static_cast<uint32_t>(t) <= static_cast<uint32_t>(DType::kFp8)
             ? kernels::name_of(t)
             : "type " + number(static_cast<int64_t>(t));
}

Status check_types(const OpChecker& c, const std::vector<dpi_value_desc>& values, bool is_output,
                   bool narrow) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_absent(values[i]) || values[i].is_bags != 0 || values[i].dtype == DType::kF32) continue;
    const bool takes = narrow && may_be_narrow(c.op().kind, is_output, i);
    const bool fits = takes && (values[i].dtype == DType::kF16 || values[i].dtype == DType::kBF16);
    const std::string what =
        std::string("the element type of ") + (is_output ? "output " : "input ") + std::to_string(i);
    if (!fits) return c.fail(what, type_text(values[i].dtype), takes ? "f32, f16 or bf16" : "f32");
  }
  return ok_status();
}

// nullptr when the operand is as it was described, else what is wrong with it.
const char* wrong_tensor(const dpi_value_desc& v, const kernels::Tensor& t) {
  if (t.data == nullptr) return "has no data";
  if (!(t.dims == v.dims)) return "has other dims than prepared";
  if (t.row_stride != v.row_stride) return "has another row stride than prepared";
  if (t.dtype != v.dtype) return "has another element type than prepared";
  return nullptr;
}

const char* wrong_input(const dpi_value_desc& v, const kernels::Operand& o) {
  if (v.is_bags == 0) return wrong_tensor(v, o.tensor);
  return o.bags.ids == nullptr && o.bags.offsets == nullptr ? "has no ids" : nullptr;
}

}  // namespace

Status check_op(const OwnedOp& op, bool narrow) {
  const OpChecker c(op);
  DPI_RETURN_IF_ERROR(check_types(c, op.inputs, false, narrow));
  DPI_RETURN_IF_ERROR(check_types(c, op.outputs, true, narrow));
  DPI_RETURN_IF_ERROR(check_outputs(c));
  return form_of(op.kind).check(c);
}

Status check_call(const OwnedOp& op, const dpi_op_call& call) {
  const OpChecker c(op);
  if (call.rows < 0) return c.fail("rows", number(call.rows), "0 or more");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (is_absent(op.inputs[i])) continue;
    const char* wrong = wrong_input(op.inputs[i], call.inputs[i]);
    if (wrong != nullptr)
      return internal_error("op '" + op.name + "': input " + number(static_cast<int64_t>(i)) + " " + wrong);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (is_absent(op.outputs[i])) continue;
    const char* wrong = wrong_tensor(op.outputs[i], call.outputs[i]);
    if (call.outputs[i].data == nullptr && op.kind == OpKind::kTail) continue;  // logits nobody wants
    if (wrong != nullptr)
      return internal_error("op '" + op.name + "': output " + number(static_cast<int64_t>(i)) + " " + wrong);
  }
  return ok_status();
}

}  // namespace dpi
