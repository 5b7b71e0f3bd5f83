#include "sdk/tools/dpi/commands/synthetic_rows.hpp"

#include <algorithm>
#include <random>

namespace dpi::tool {

namespace {

constexpr int64_t kMaxBag = 16;

using Random = std::mt19937_64;

void draw_bag(Random& random, const dpi_feature_info& f, std::vector<int64_t>* ids) {
  const int64_t longest = f.max_len > 0 ? std::min(f.max_len, kMaxBag) : kMaxBag;
  int64_t n = f.kind == DPI_FEATURE_SEQUENCE
                  ? 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(longest))
                  : 1;
  for (; n > 0; --n)  // without a vocabulary ids are keys: any will do, most are absent
    ids->push_back(f.vocab_size > 0 ? static_cast<int64_t>(random() % static_cast<uint64_t>(f.vocab_size))
                                    : static_cast<int64_t>(random()));
}

/// One row's values, by feature.
struct Values {
  std::vector<std::vector<int64_t>> ids;
  std::vector<std::vector<float>> floats;
};

/// Draws the features that are shared, or those that are not.
void draw(Random& random, const std::vector<dpi_feature_info>& features, bool shared, Values* v) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t i = 0; i < features.size(); ++i) {
    const dpi_feature_info& f = features[i];
    if ((f.shared != 0) != shared) continue;
    v->ids[i].clear();
    v->floats[i].clear();
    if (f.slot >= 0) draw_bag(random, f, &v->ids[i]);
    for (int64_t k = 0; f.slot < 0 && k < f.dim; ++k) v->floats[i].push_back(uniform(random));
  }
}

enum class Which { kAll, kItem, kShared };

void append(SyntheticPart* to, const std::vector<dpi_feature_info>& features, const Values& v, Which which) {
  for (size_t i = 0; i < features.size(); ++i) {
    if (which != Which::kAll && (features[i].shared != 0) != (which == Which::kShared)) continue;
    to->dense.insert(to->dense.end(), v.floats[i].begin(), v.floats[i].end());
    if (features[i].slot < 0) continue;
    to->ids.insert(to->ids.end(), v.ids[i].begin(), v.ids[i].end());
    to->offsets.push_back(static_cast<int64_t>(to->ids.size()));
  }
  ++to->rows;
}

template <class T>
const T* data_or_null(const std::vector<T>& v) {
  return v.empty() ? nullptr : v.data();
}

}  // namespace

SyntheticRows make_rows(const LoadedModel& model, int64_t rows, uint64_t seed) {
  Random random(seed);
  SyntheticRows r;
  r.item.rows = rows;
  r.item.dense.resize(static_cast<size_t>(rows) * static_cast<size_t>(model.info().dense_dim));
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& v : r.item.dense) v = uniform(random);
  for (int64_t row = 0; row < rows; ++row) {
    for (const dpi_feature_info& f : model.features()) {  // slots are numbered in the order of the features
      if (f.slot < 0) continue;
      draw_bag(random, f, &r.item.ids);
      r.item.offsets.push_back(static_cast<int64_t>(r.item.ids.size()));
    }
  }
  return r;
}

UserRows make_user_rows(const LoadedModel& model, int64_t rows, int64_t users, uint64_t seed) {
  Random random(seed);
  const std::vector<dpi_feature_info>& features = model.features();
  Values v;
  v.ids.resize(features.size());
  v.floats.resize(features.size());
  UserRows both;
  both.shared.shared_offsets.push_back(0);
  for (int64_t user = 0; user < users; ++user) {
    draw(random, features, true, &v);
    append(&both.shared.shared, features, v, Which::kShared);
    for (int64_t left = rows / users + (user < rows % users ? 1 : 0); left > 0; --left) {
      draw(random, features, false, &v);
      append(&both.shared.item, features, v, Which::kItem);
      append(&both.expanded.item, features, v, Which::kAll);
    }
    both.shared.shared_offsets.push_back(both.shared.item.rows);
  }
  return both;
}

namespace {

int64_t batches_of(int64_t pool, int64_t rows) { return std::max<int64_t>(1, pool / rows); }

}  // namespace

std::vector<SyntheticRows> make_pool(const LoadedModel& model, int64_t rows, int64_t pool, uint64_t seed) {
  std::vector<SyntheticRows> out;
  for (int64_t i = batches_of(pool, rows); i > 0; --i) out.push_back(make_rows(model, rows, seed++));
  return out;
}

std::vector<UserRows> make_user_pool(const LoadedModel& model, int64_t rows, int64_t users, int64_t pool,
                                     uint64_t seed) {
  std::vector<UserRows> out;
  for (int64_t i = batches_of(pool, rows); i > 0; --i)
    out.push_back(make_user_rows(model, rows, users, seed++));
  return out;
}

dpi_batch SyntheticRows::batch() const {
  dpi_batch b{};
  b.struct_size = sizeof b;
  b.rows = item.rows;
  b.dense = data_or_null(item.dense);
  if (item.offsets.size() > 1) {
    b.ids = item.ids.data();
    b.offsets = item.offsets.data();
    b.nnz = static_cast<int64_t>(item.ids.size());
  }
  if (shared_offsets.empty()) return b;
  b.shared_rows = shared.rows;
  b.shared_offsets = shared_offsets.data();
  b.shared_dense = data_or_null(shared.dense);
  if (shared.offsets.size() > 1) {
    b.shared_ids = shared.ids.data();
    b.shared_bag_offsets = shared.offsets.data();
    b.shared_nnz = static_cast<int64_t>(shared.ids.size());
  }
  return b;
}

}  // namespace dpi::tool
