#include "plan/plan.hpp"

#include <utility>

#include "plan/passes.hpp"

namespace dpi {

void PlanOp::bind_pointers() {
  if (auto* a = std::get_if<kernels::ViewAttrs>(&attrs)) {
    a->indices = indices.empty() ? nullptr : indices.data();
    a->n_indices = static_cast<int64_t>(indices.size());
  } else if (auto* d = std::get_if<kernels::DenseAttrs>(&attrs)) {
    d->segments = segments.data();
    d->n_segments = static_cast<int32_t>(segments.size());
  } else if (auto* m = std::get_if<kernels::MultiLookupAttrs>(&attrs)) {
    m->fields = lookup.fields.data();
    m->scalars = lookup.scalars.data();
    m->numerics = lookup.numerics.data();
    m->n_fields = static_cast<int32_t>(lookup.fields.size());
    m->n_scalars = static_cast<int32_t>(lookup.scalars.size());
    m->n_numerics = static_cast<int32_t>(lookup.numerics.size());
  }
}

Result<Plan> make_plan(const Graph& graph, const PlanOptions& options) {
  if (options.max_streams < 1 || options.column_align < 1) {
    return invalid_argument("plan options: max_streams and column_align must be 1 or more");
  }
  Plan p = plan::lower(graph);
  DPI_ASSIGN_OR_RETURN(p, plan::cleanup(std::move(p)));
  p = plan::place_outputs(std::move(p));
  DPI_ASSIGN_OR_RETURN(p, plan::cleanup(std::move(p)));
  DPI_ASSIGN_OR_RETURN(p, plan::schedule(std::move(p), options));
  for (PlanOp& op : p.ops) op.bind_pointers();
  return p;
}

}  // namespace dpi
