#include "support/some_rows.hpp"

#include <algorithm>
#include <random>

#include "support/handles.hpp"

namespace dpi::fuzz {
namespace {

struct Slot {
  int64_t vocab = 1;
  bool bag = false;
};

std::vector<Slot> slots_of(const dpi_model* model, const dpi_model_info& info) {
  std::vector<Slot> slots(static_cast<size_t>(info.num_slots));
  for (int32_t f = 0; f < info.num_features; ++f) {
    const dpi_feature_info feature = feature_of(model, f);
    if (feature.slot < 0) continue;
    expect(feature.slot < info.num_slots, "a feature's slot is one of the model's");
    slots[static_cast<size_t>(feature.slot)] = {feature.vocab_size, feature.kind == DPI_FEATURE_SEQUENCE};
  }
  return slots;
}

}  // namespace

SomeRows::SomeRows(const dpi_model* model, int64_t rows, uint32_t seed) {
  std::minstd_rand random(seed);
  const dpi_model_info info = info_of(model);
  const std::vector<Slot> slots = slots_of(model, info);
  offsets.push_back(0);
  for (int64_t r = 0; r < rows; ++r) {
    for (const Slot& slot : slots) {
      // One bag in eight is empty: a feature that refuses a missing value refuses the row, and little is
      // scored.
      const size_t n = !slot.bag ? 1 : random() % 8 == 0 ? 0 : 1 + random() % 3;
      for (size_t k = 0; k < n; ++k) {
        ids.push_back(
            static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(slot.vocab, 1))));
      }
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
  }
  for (int64_t i = 0; i < rows * info.dense_dim; ++i) {
    dense.push_back(static_cast<float>(random() % 2001) / 500.0f - 2.0f);
  }
  bind(rows);
}

SomeRows::SomeRows(const SomeRows& all, const dpi_model* model, int64_t r) {
  const dpi_model_info info = info_of(model);
  const auto slots = static_cast<size_t>(info.num_slots), columns = static_cast<size_t>(info.dense_dim);
  const size_t row = static_cast<size_t>(r), first = row * slots;
  for (size_t b = first; b <= first + slots; ++b) offsets.push_back(all.offsets[b] - all.offsets[first]);
  ids.assign(all.ids.begin() + all.offsets[first], all.ids.begin() + all.offsets[first + slots]);
  dense.assign(all.dense.begin() + static_cast<ptrdiff_t>(row * columns),
               all.dense.begin() + static_cast<ptrdiff_t>((row + 1) * columns));
  bind(1);
}

void SomeRows::bind(int64_t rows) {
  batch.struct_size = sizeof batch;
  batch.rows = rows;
  batch.ids = ids.empty() ? nullptr : ids.data();
  batch.nnz = static_cast<int64_t>(ids.size());
  batch.offsets = offsets.data();
  batch.dense = dense.empty() ? nullptr : dense.data();
}

}  // namespace dpi::fuzz
