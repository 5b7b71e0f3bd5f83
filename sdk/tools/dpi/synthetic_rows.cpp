#include "synthetic_rows.hpp"

#include <algorithm>
#include <random>

namespace dpi::tool {

namespace {
constexpr int64_t kMaxBag = 16;
}

SyntheticRows make_rows(const LoadedModel& model, int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  SyntheticRows r;
  r.rows = rows;
  r.dense.resize(static_cast<size_t>(rows) * static_cast<size_t>(model.info().dense_dim));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& v : r.dense) v = uniform(random);
  r.offsets.push_back(0);
  for (int64_t row = 0; row < rows; ++row) {
    for (const dpi_feature_info& f : model.features()) {  // slots are numbered in the order of the features
      if (f.slot < 0) continue;
      const int64_t longest = f.max_len > 0 ? std::min(f.max_len, kMaxBag) : kMaxBag;
      int64_t n = f.kind == DPI_FEATURE_SEQUENCE
                      ? 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(longest))
                      : 1;
      for (; n > 0; --n)  // without a vocabulary ids are keys: any will do, most are absent
        r.ids.push_back(f.vocab_size > 0
                            ? static_cast<int64_t>(random() % static_cast<uint64_t>(f.vocab_size))
                            : static_cast<int64_t>(random()));
      r.offsets.push_back(static_cast<int64_t>(r.ids.size()));
    }
  }
  return r;
}

dpi_batch SyntheticRows::batch() const {
  dpi_batch b{};
  b.struct_size = sizeof b;
  b.rows = rows;
  b.dense = dense.empty() ? nullptr : dense.data();
  if (offsets.size() > 1) {
    b.ids = ids.data();
    b.offsets = offsets.data();
    b.nnz = static_cast<int64_t>(ids.size());
  }
  return b;
}

}  // namespace dpi::tool
