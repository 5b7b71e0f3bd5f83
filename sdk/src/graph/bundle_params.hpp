// The parameters of a graph, read from its bundle.
#pragma once

#include "graph/graph.hpp"

namespace dpi {

class Bundle;

class BundleParams final : public ParamSource {
 public:
  /// The bundle must outlive this object.
  explicit BundleParams(Bundle& bundle) : bundle_(bundle) {}
  Result<std::vector<int64_t>> shape(const std::string& name) override;
  Result<std::vector<float>> read(const std::string& name) override;

 private:
  Bundle& bundle_;
};

}  // namespace dpi
