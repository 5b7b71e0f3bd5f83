// Const: a parameter as a value, the same for all rows. Executed by no backend: the plan binds it to the
// weight.
#include "ops/op_context.hpp"
#include "ops/ops.hpp"

namespace dpi {
namespace ops {

Result<Dims> infer_const(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims dims, c.param_shape("value"));
  DPI_RETURN_IF_ERROR(c.use_param("value"));
  return dims;
}

}  // namespace ops

}  // namespace dpi
