// BroadcastRows: shared rows repeated for the item rows of their user. Inserted by build_graph where row
// spaces meet.
#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"

namespace dpi {
namespace ops {

Status check_broadcast_rows(const OpChecker& c) {
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  return c.dims("the output", c.out(0), c.in(0));
}

}  // namespace ops

kernels::BroadcastRowsArgs broadcast_rows_args(const OwnedOp& op, const dpi_op_call& call) {
  return {input_tensor(op, call, 0), call.row_map, output_tensor(op, call, 0)};
}

}  // namespace dpi
