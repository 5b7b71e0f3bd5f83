// Bundles in memory that state a hash of each table, true or not. For tests of who believes it.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/bare_bundle.hpp"
#include "support/model_builder.hpp"

namespace dpi::test {

inline constexpr int64_t kRows = 3000, kDim = 8, kFields = 3, kBlock = 512;

/// Wide and deep: linear weights of the same ids become scalars that ride with the vectors.
struct WideDeep {
  ModelBuilder b{"wide_deep"};
  explicit WideDeep(int64_t rows = kRows) {
    std::vector<std::string> vectors, weights;
    for (int64_t i = 0; i < kFields; ++i) {
      const std::string ids = b.categorical("c" + std::to_string(i), i == 0 ? rows : kRows);
      vectors.push_back(b.embed(ids, i == 0 ? rows : kRows, kDim));
      weights.push_back(b.embed(ids, i == 0 ? rows : kRows, 1));
    }
    std::string y = b.unary("relu", b.linear(b.concat(vectors), kFields * kDim, 16));
    const std::string wide = b.reduce("sum", b.concat(weights), -1, true);
    const std::string logit = b.binary("add", b.linear(y, 16, 1), wide);
    b.head("ctr", b.unary("sigmoid", logit), logit);
  }
};

/// A dense layer of one output right over the vectors: their products with its weights become scalars that
/// ride with the vectors.
struct DenseScalars {
  ModelBuilder b{"dense_scalars"};
  DenseScalars() {
    std::vector<std::string> vectors;
    for (int64_t i = 0; i < kFields; ++i)
      vectors.push_back(b.embed(b.categorical("c" + std::to_string(i), kRows), kRows, kDim));
    const std::string x = b.concat(vectors);
    const std::string deep = b.linear(b.unary("relu", b.linear(x, kFields * kDim, 16)), 16, 1);
    const std::string logit = b.binary("add", deep, b.linear(x, kFields * kDim, 1));
    b.head("ctr", b.unary("sigmoid", logit), logit);
  }
};

/// A bundle that states a hash of each table, true or not.
class StatedBundle : public BareBundle {
 public:
  StatedBundle(ModelBuilder& builder, float dense)
      : tables(builder.tables()), builder_(builder), dense_(dense) {
    manifest_ = builder.manifest();
    name_ = "stated";
    std::map<std::string, std::vector<int64_t>> params;
    for (const OpSpec& op : manifest_.ops) {
      for (const auto& [role, name] : op.params) params[name] = builder.shape(name).value();
    }
    for (const auto& [name, shape] : params)
      data_sets_.push_back({"/params/" + name, DataSetInfo::Type::kF32, shape, {}});
    for (TableSpec& t : manifest_.tables) t.data = "/tables/" + t.name;
    state();
  }
  /// Hashes of what the tables are now.
  void state() {
    std::erase_if(data_sets_, [](const DataSetInfo& d) { return d.path.starts_with("/tables/"); });
    for (size_t t = 0; t < tables.size(); ++t) {
      uint64_t sum = 1469598103934665603u;
      for (const std::byte c : std::as_bytes(std::span(tables[t])))
        sum = (sum ^ static_cast<uint64_t>(c)) * 1099511628211u;
      DataSetInfo d{manifest_.tables[t].data,
                    DataSetInfo::Type::kF32,
                    {manifest_.tables[t].rows, manifest_.tables[t].dim},
                    {}};
      d.extent.length = tables[t].size() * sizeof(float);
      std::memcpy(d.extent.hash.data(), &sum, sizeof sum);
      data_sets_.push_back(d);
    }
    std::sort(data_sets_.begin(), data_sets_.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
  }

  Status read_table(size_t index, const BlockSink& fn) override {
    const int64_t rows = manifest_.tables[index].rows, dim = manifest_.tables[index].dim;
    for (int64_t first = 0; first < rows; first += kBlock) {
      if (before_block) DPI_RETURN_IF_ERROR(before_block(index, first));
      const int64_t n = std::min(kBlock, rows - first);
      DPI_RETURN_IF_ERROR(
          fn(first, n,
             std::as_bytes(std::span(tables[index])
                               .subspan(static_cast<size_t>(first * dim), static_cast<size_t>(n * dim)))));
    }
    return {};
  }
  Result<std::vector<float>> read_param(const std::string& name) override {
    DPI_ASSIGN_OR_RETURN(std::vector<float> v, builder_.read(name));
    for (float& x : v) x *= dense_;
    return v;
  }

  std::vector<std::vector<float>> tables;
  std::function<Status(size_t table, int64_t first)> before_block;

 private:
  ModelBuilder& builder_;
  float dense_;
};

}  // namespace dpi::test
