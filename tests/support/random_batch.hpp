// Random valid requests for any model, whole or with a shared part. For tests of the runtime.
#pragma once

#include <random>
#include <vector>

#include "runtime/request/request.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi::test {

/// A Batch and the arrays behind it. Bags of sequence features have 0 to 5 ids; one id per bag elsewhere.
class RandomBatch {
 public:
  /// groups > 0: that many shared rows, the item rows spread over them; 0: every row carries everything.
  RandomBatch(const ResolveSchema& schema, int64_t rows, int64_t groups, unsigned seed) : random_(seed) {
    fill(schema, rows, groups > 0 ? 1 : 0, item_, &batch.item);
    if (groups == 0) return;
    fill(schema, groups, 2, shared_, &batch.shared);
    for (int64_t g = 0; g <= groups; ++g) shared_offsets_.push_back(rows * g / groups);  // some may be empty
    batch.shared_offsets = shared_offsets_.data();
  }
  RandomBatch(const RandomBatch&) = delete;
  RandomBatch& operator=(const RandomBatch&) = delete;

  Batch batch;

 private:
  struct Arrays {
    std::vector<int64_t> ids, offsets{0};
    std::vector<float> dense, weights;
  };

  /// part: 0 whole rows, 1 their item features, 2 their shared features.
  void fill(const ResolveSchema& schema, int64_t rows, int part, Arrays& a, BatchPart* out) {
    for (int64_t r = 0; r < rows; ++r) {
      for (const auto& f : schema.features) {
        if (part != 0 && f.shared != (part == 2)) continue;
        if (f.spec.is_slot()) {
          add_bag(f, a);
        } else {
          for (int64_t k = 0; k < f.spec.dim; ++k)
            a.dense.push_back(std::uniform_real_distribution<float>(-1, 1)(random_));
        }
      }
    }
    out->rows = rows;
    out->dense = a.dense.empty() ? nullptr : a.dense.data();
    out->ids = a.ids.empty() ? nullptr : a.ids.data();
    out->offsets = a.offsets.data();
    out->weights = a.weights.empty() ? nullptr : a.weights.data();
    out->nnz = static_cast<int64_t>(a.ids.size());
  }

  void add_bag(const ResolveSchema::Feature& f, Arrays& a) {
    int64_t n = 1;
    if (f.spec.kind == FeatureKind::kSequence) {
      n = std::uniform_int_distribution<int64_t>(f.spec.missing == Missing::kError ? 1 : 0, 5)(random_);
    }
    for (int64_t i = 0; i < n; ++i) {
      int64_t id = std::uniform_int_distribution<int64_t>(0, f.spec.vocab_size - 1)(random_);
      if (f.spec.has_missing_id && id == f.spec.missing_id) id = (id + 1) % f.spec.vocab_size;
      a.ids.push_back(id);
      a.weights.push_back(f.spec.weighted ? std::uniform_real_distribution<float>(0, 2)(random_) : 1.0f);
    }
    a.offsets.push_back(static_cast<int64_t>(a.ids.size()));
  }

  std::mt19937 random_;
  Arrays item_, shared_;
  std::vector<int64_t> shared_offsets_;
};

}  // namespace dpi::test
