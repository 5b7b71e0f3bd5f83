/// A bundle in memory made of what a ModelBuilder was told: models with forms that no file of the tree has.
#pragma once

#include <algorithm>
#include <cstring>
#include <set>

#include "support/bare_bundle.hpp"
#include "support/model_builder.hpp"

namespace dpi::test {

class BuiltBundle final : public BareBundle {
 public:
  /// `builder` must outlive the bundle.
  explicit BuiltBundle(ModelBuilder& builder) : builder_(builder) {
    manifest_ = builder.manifest();
    name_ = manifest_.name;
    std::set<std::string> names;
    for (const OpSpec& op : manifest_.ops) {
      for (const auto& [role, name] : op.params) names.insert(name);
    }
    for (const std::string& name : names)  // sorted, as find expects them
      data_sets_.push_back({"/params/" + name, DataSetInfo::Type::kF32, builder.shape(name).value(), {}});
  }

  Status read_table(size_t index, const BlockSink& fn) override {
    return fn(0, manifest_.tables[index].rows, std::as_bytes(std::span(builder_.tables()[index])));
  }
  Result<std::vector<float>> read_param(const std::string& name) override { return builder_.read(name); }

 private:
  ModelBuilder& builder_;
};

}  // namespace dpi::test
