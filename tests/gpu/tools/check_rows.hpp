// Random valid rows of any model for gpu_check, from its schema text: one-hot ids, bags with empty ones,
// weights where the feature takes them, floats in [-1, 1], and a shared part where the model has shared
// features.
#pragma once

#include <random>
#include <vector>

#include "client.hpp"

namespace dpi::gpu {

class CheckRows {
 public:
  CheckRows(const dpi_model* model, int64_t rows, uint64_t seed) : random_(seed), rows_(rows) {
    const json schema = text_of(dpi_model_schema_json, model);
    heads_ = schema.at("heads").size();
    const bool split = schema.at("shared").at("slots") > 0 || schema.at("shared").at("dense_columns") > 0;
    if (split && rows > 1) {
      for (int64_t at = 0; at < rows; at += 1 + static_cast<int64_t>(random_() % 5))
        shared_offsets_.push_back(at);
      shared_offsets_.push_back(rows);
    }
    fill(schema, &item_, rows, split && rows > 1 ? "item" : "");
    if (!shared_offsets_.empty()) fill(schema, &shared_, shared_rows(), "shared");
  }

  int64_t rows() const { return rows_; }
  size_t heads() const { return heads_; }

  dpi_batch batch() const {
    dpi_batch b{};
    b.struct_size = sizeof b;
    b.rows = rows_;
    b.dense = pointer(item_.dense);
    b.ids = pointer(item_.ids);
    b.offsets = item_.offsets.data();
    b.weights = item_.weighted ? pointer(item_.weights) : nullptr;
    b.nnz = static_cast<int64_t>(item_.ids.size());
    if (shared_offsets_.empty()) return b;
    b.shared_rows = shared_rows();
    b.shared_offsets = shared_offsets_.data();
    b.shared_dense = pointer(shared_.dense);
    b.shared_ids = pointer(shared_.ids);
    b.shared_bag_offsets = shared_.offsets.data();
    b.shared_weights = shared_.weighted ? pointer(shared_.weights) : nullptr;
    b.shared_nnz = static_cast<int64_t>(shared_.ids.size());
    return b;
  }

 private:
  struct Part {
    std::vector<int64_t> ids, offsets;
    std::vector<float> dense, weights;
    bool weighted = false;
  };

  template <class T>
  static const T* pointer(const std::vector<T>& v) {
    static const T kNothing{};
    return v.empty() ? &kNothing : v.data();
  }

  int64_t shared_rows() const { return static_cast<int64_t>(shared_offsets_.size()) - 1; }

  /// part: "" takes every feature, else those of that space.
  void fill(const json& schema, Part* out, int64_t rows, const std::string& part) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    out->offsets.push_back(0);
    for (int64_t row = 0; row < rows; ++row) {
      for (const json& f : schema.at("features")) {
        if (!part.empty() && f.at("space") != part) continue;
        if (!f.contains("slot")) {
          for (int64_t k = f.value("dim", int64_t{1}); k > 0; --k) out->dense.push_back(uniform(random_));
          continue;
        }
        add_bag(f, out);
      }
    }
  }

  void add_bag(const json& f, Part* out) {
    std::uniform_real_distribution<float> weight(0.1f, 2.0f);
    const bool weighted = f.value("weighted", false);
    out->weighted = out->weighted || weighted;
    int64_t n = 1;
    if (f.at("kind") == "sequence") {
      const int64_t most = f.value("max_len", int64_t{0}) > 0 ? f.at("max_len").get<int64_t>() + 2 : 9;
      n = static_cast<int64_t>(random_() % static_cast<uint64_t>(most + 1));
      if (n == 0 && f.at("missing") == "error") n = 1;
    }
    const uint64_t vocab = f.at("vocab_size");
    for (; n > 0; --n) {
      uint64_t id = random_() % vocab;
      if (f.contains("missing_id") && id == f.at("missing_id") && f.at("missing") == "error")
        id = (id + 1) % vocab;
      out->ids.push_back(static_cast<int64_t>(id));
      out->weights.push_back(weighted ? weight(random_) : 1.0f);
    }
    out->offsets.push_back(static_cast<int64_t>(out->ids.size()));
  }

  std::mt19937_64 random_;
  int64_t rows_;
  size_t heads_ = 1;
  Part item_, shared_;
  std::vector<int64_t> shared_offsets_;
};

}  // namespace dpi::gpu
