// Small manifests for graph tests, written as JSON, and parameters that come from a map.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace dpi::test {

/// Parameters by name with shapes; element i of each is i. Counts reads, and can be told to lie about the
/// data.
class MapParams : public ParamSource {
 public:
  explicit MapParams(std::map<std::string, std::vector<int64_t>> shapes) : shapes_(std::move(shapes)) {}
  Result<std::vector<int64_t>> shape(const std::string& name) override {
    const auto it = shapes_.find(name);
    if (it == shapes_.end()) return bad_model("/params/" + name + " does not exist");
    return it->second;
  }
  Result<std::vector<float>> read(const std::string& name) override {
    ++reads;
    int64_t n = lie;
    DPI_ASSIGN_OR_RETURN(const auto dims, shape(name));
    int64_t size = 1;
    for (const int64_t d : dims) size *= d;
    n += size;
    std::vector<float> data(static_cast<size_t>(n));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    return data;
  }
  int reads = 0;
  int64_t lie = 0;  // added to the number of floats that read returns

 private:
  std::map<std::string, std::vector<int64_t>> shapes_;
};

/// "features", "tables", "ops", "heads" as in FORMAT.md; only the keys that graph building looks at.
Manifest manifest_of(const std::string& json);

}  // namespace dpi::test
