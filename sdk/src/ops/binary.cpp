// Binary: element-wise functions of two values, with broadcasting.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::BinaryKind;

Result<Dims> infer_binary(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const BinaryKind kind, c.choice<BinaryKind>("kind", kBinaryKinds));
  c.node().attrs = kernels::BinaryAttrs{kind};
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  DPI_ASSIGN_OR_RETURN(const Dims y, c.floats(1));
  const auto dims = broadcast(x, y);
  if (!dims) return c.bad("x is " + text_of(x) + ", y is " + text_of(y) + ", expected dims that broadcast");
  return *dims;
}

Status check_binary(const OpChecker& c) {
  const auto kind = static_cast<int32_t>(c.op().as<kernels::BinaryAttrs>().kind);
  DPI_RETURN_IF_ERROR(c.require(kind >= 0 && kind <= static_cast<int32_t>(BinaryKind::kAtan2), "the function",
                                std::to_string(kind), "a kind of binary.hpp"));
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.value("y", c.op().input(1), 1));
  DPI_RETURN_IF_ERROR(c.require(broadcasts_to(c.in(0), c.out(0)), "x", text_of(c.in(0)),
                                "dims that broadcast to " + text_of(c.out(0))));
  DPI_RETURN_IF_ERROR(c.require(broadcasts_to(c.in(1), c.out(0)), "y", text_of(c.in(1)),
                                "dims that broadcast to " + text_of(c.out(0))));
  if (is_absent(c.op().input(2))) return ok_status();
  DPI_RETURN_IF_ERROR(
      c.require(c.out(0).rank == 2, "the output of positions", text_of(c.out(0)), "[positions, columns]"));
  return c.positions(2, c.out(0));
}

std::string binary_graph_text(const OpText& t) {
  return field("kind", binary_name(t.as<kernels::BinaryAttrs>().kind));
}

std::string binary_text(const OpText& t) { return binary_name(t.as<kernels::BinaryAttrs>().kind); }

}  // namespace ops

kernels::BinaryArgs binary_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::BinaryAttrs>(), input_tensor(op, call, 0), input_tensor(op, call, 1),
          output_tensor(op, call, 0), input_tensor(op, call, 2)};
}

}  // namespace dpi
