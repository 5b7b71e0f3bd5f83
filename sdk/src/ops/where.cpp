// Where: one of two values, element by element.
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"

namespace dpi {
namespace ops {

Result<Dims> infer_where(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims cond, c.floats(0));
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(1));
  DPI_ASSIGN_OR_RETURN(const Dims y, c.floats(2));
  const auto values = broadcast(x, y);
  const auto dims = values ? broadcast(cond, *values) : values;
  if (!dims)
    return c.bad("cond is " + text_of(cond) + ", x is " + text_of(x) + ", y is " + text_of(y) +
                 ", expected dims that broadcast");
  return *dims;
}

Status check_where(const OpChecker& c) {
  constexpr const char* kNames[] = {"cond", "x", "y"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    DPI_RETURN_IF_ERROR(c.value(kNames[i], c.op().input(i), 1));
    DPI_RETURN_IF_ERROR(c.require(broadcasts_to(c.in(i), c.out(0)), kNames[i], text_of(c.in(i)),
                                  "dims that broadcast to " + text_of(c.out(0))));
  }
  return ok_status();
}

}  // namespace ops

kernels::WhereArgs where_args(const OwnedOp& op, const dpi_op_call& call) {
  return {input_tensor(op, call, 0), input_tensor(op, call, 1), input_tensor(op, call, 2),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
