#include "plan/analysis/definition.hpp"

#include <utility>

#include "ops/owned_op.hpp"
#include "ops/table.hpp"

namespace dpi::plan {

void run_definition(const PlanOp& op, std::span<const kernels::Operand> inputs,
                    std::vector<kernels::Param> params, kernels::Tensor dst) {
  OwnedOp prepared;
  prepared.kind = op.kind;
  prepared.attrs = op.attrs;
  op.bind(&prepared.attrs);
  prepared.inputs.resize(op.inputs.size());
  prepared.outputs.resize(1);
  prepared.params = std::move(params);
  dpi_op_call call{};
  call.rows = 1;
  call.inputs = inputs.data();
  call.outputs = &dst;
  form_of(op.kind).ref(prepared, call);
}

}  // namespace dpi::plan
