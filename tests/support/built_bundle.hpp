/// A bundle in memory made of what a ModelBuilder was told: models with forms that no file of the tree has.
#pragma once

#include <algorithm>
#include <cstring>
#include <set>

#include "bundle/bundle.hpp"
#include "support/model_builder.hpp"

namespace dpi::test {

class BuiltBundle final : public Bundle {
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
  Status read_table_scale(size_t, std::vector<float>*) override { return absent(); }
  Result<std::vector<float>> read_param(const std::string& name) override { return builder_.read(name); }
  Result<std::vector<int64_t>> read_i64(const std::string&) override { return absent(); }
  Result<std::vector<uint64_t>> read_u64(const std::string&) override { return absent(); }
  Result<std::vector<uint8_t>> read_u8(const std::string&) override { return absent(); }
  Result<GoldenRows> read_golden() override { return absent(); }
  Result<GoldenRaw> read_golden_raw() override { return absent(); }
  Status verify_all(const std::function<void(uint64_t, uint64_t)>&) override { return absent(); }
  uint64_t unread_bytes() const override { return 0; }
  Status verify_rest(const std::function<Status(uint64_t)>&) override { return {}; }

 private:
  static Status absent() { return internal_error("a built bundle has no such data"); }

  ModelBuilder& builder_;
};

}  // namespace dpi::test
