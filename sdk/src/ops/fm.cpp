// Fm: 0.5 (|sum e|^2 - sum |e|^2) over the fields' vectors.
#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

Status check_fm(const OpChecker& c) {
  const auto& a = c.op().as<kernels::FmAttrs>();
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.require(a.fields >= 0 && a.dim >= 0 && c.in(0).size() == a.fields * a.dim, "x",
                                text_of(c.in(0)), number(a.fields) + " x " + number(a.dim) + " elements"));
  return c.require(c.out(0).size() == 1, "the output", text_of(c.out(0)), "1 element");
}

std::string fm_text(const OpText& t) {
  const auto& f = t.as<kernels::FmAttrs>();
  return std::to_string(f.fields) + " x " + std::to_string(f.dim);
}

}  // namespace ops

kernels::FmArgs fm_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::FmAttrs>(), input_tensor(op, call, 0), output_tensor(op, call, 0)};
}

}  // namespace dpi
