#include "graph/bundle_params.hpp"

#include "bundle/bundle.hpp"

namespace dpi {

Result<std::vector<int64_t>> BundleParams::shape(const std::string& name) {
  const DataSetInfo* info = bundle_.find("/params/" + name);
  const std::string place = bundle_.name() + ":/params/" + name;
  if (info == nullptr) return bad_model(place + ": there is no such data set");
  if (info->type != DataSetInfo::Type::kF32) return bad_model(place + ": expected f32");
  return info->shape;
}

Result<std::vector<float>> BundleParams::read(const std::string& name) { return bundle_.read_param(name); }

}  // namespace dpi
