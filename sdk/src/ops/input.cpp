// Input: the ids or floats of a feature. Executed by no backend: the plan binds it to the request's packed
// input.
#include "ops/op_context.hpp"
#include "ops/ops.hpp"

namespace dpi {
namespace ops {

Result<Dims> infer_input(OpContext& c) {
  std::optional<std::string> named;
  if (!c.op().feature.empty()) named = c.op().feature;
  DPI_ASSIGN_OR_RETURN(const std::string feature, c.text("feature", named));
  const FeatureSpec* f = c.model().feature(feature, &c.node().feature);
  if (f == nullptr) return c.bad("feature '" + feature + "' is not in the schema");
  if (f->is_slot()) return Dims{};
  return append({}, f->kind == FeatureKind::kDense ? f->dim : 1);
}

}  // namespace ops

}  // namespace dpi
