// Input and Const: where values come from.
#include "graph/op_table.hpp"

namespace dpi::graph_build {

Result<Dims> infer_input(OpContext& c) {
  std::optional<std::string> named;
  if (!c.op().feature.empty()) named = c.op().feature;
  DPI_ASSIGN_OR_RETURN(const std::string feature, c.text("feature", named));
  const auto it = c.state().feature_by_name.find(feature);
  if (it == c.state().feature_by_name.end()) return c.bad("feature '" + feature + "' is not in the schema");
  c.node().feature = it->second;
  const FeatureSpec& f = c.state().graph.features[it->second];
  if (f.is_slot()) return Dims{};
  return append({}, f.kind == FeatureKind::kDense ? f.dim : 1);
}

Result<Dims> infer_const(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims dims, c.param_shape("value"));
  DPI_RETURN_IF_ERROR(c.use_param("value"));
  return dims;
}

}  // namespace dpi::graph_build
