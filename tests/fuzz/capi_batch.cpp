#include "fuzz/capi_batch.hpp"

#include <algorithm>

#include "fuzz/capi_state.hpp"

namespace dpi::fuzz {

template <class T>
T* OddBatch::keep(size_t n) {
  blocks_.push_back(std::make_unique<unsigned char[]>(n * sizeof(T)));
  return reinterpret_cast<T*>(blocks_.back().get());
}

float* OddBatch::floats(size_t n) {
  auto* out = keep<float>(n);
  for (size_t i = 0; i < n; ++i) {
    out[i] = odd_ && small(8) == 0 ? in_.number() : static_cast<float>(small(33) - 16) / 8.0f;
  }
  return out;
}

void OddBatch::part(int64_t rows, int64_t slots, int64_t columns, const float** dense, const int64_t** ids,
                    const int64_t** offsets, const float** weights, int64_t* nnz) {
  const auto bags = static_cast<size_t>(rows * slots);
  *dense = floats(static_cast<size_t>(rows * columns));
  size_t n = bags;
  if (in_.below(2) == 1) {
    auto* at = keep<int64_t>(bags + 1);
    for (size_t b = 0; b < bags; ++b) at[b + 1] = at[b] + (odd_ && small(8) == 0 ? small(7) : 1);
    n = static_cast<size_t>(at[bags]);
    if (in_.one_in(16)) at[in_.below(bags + 1)] = in_.integer();
    *offsets = at;
  }
  auto* id = keep<int64_t>(n);
  for (size_t i = 0; i < n; ++i) id[i] = odd_ && small(8) == 0 ? in_.integer() : small(3);
  *ids = id;
  if (in_.one_in(4)) {
    auto* w = floats(n);
    if (!odd_) std::fill_n(w, n, 1.0f);
    *weights = w;
  }
  *nnz = static_cast<int64_t>(n);
}

void OddBatch::shared(const dpi_model_info& info) {
  const auto n = static_cast<int64_t>(in_.below(4));
  batch_.shared_rows = n;
  auto* at = keep<int64_t>(static_cast<size_t>(n + 1));
  for (int64_t s = 0; s < n; ++s)
    at[s + 1] = s + 1 == n ? batch_.rows : std::min(at[s] + small(3), batch_.rows);
  if (in_.one_in(16)) at[in_.below(static_cast<size_t>(n + 1))] = in_.integer();
  batch_.shared_offsets = at;
  part(n, info.num_shared_slots, info.shared_dense_dim, &batch_.shared_dense, &batch_.shared_ids,
       &batch_.shared_bag_offsets, &batch_.shared_weights, &batch_.shared_nnz);
}

/// One thing that a caller may get wrong without any array being shorter than what is said about it.
void OddBatch::spoil() {
  switch (in_.below(12)) {
    case 0:
      batch_.dense = nullptr;
      break;
    case 1:
      batch_.ids = nullptr;
      break;
    case 2:
      batch_.offsets = nullptr;
      break;
    case 3:
      batch_.rows = -1;
      break;
    case 4:  // no array fits: they are not to be read
      batch_.rows = in_.of({int64_t{1} << 31, int64_t{1} << 40, INT64_MAX, int64_t{1} << 62});
      batch_.dense = nullptr, batch_.ids = nullptr, batch_.offsets = nullptr, batch_.weights = nullptr;
      break;
    case 5:
      batch_.nnz = in_.below(2) == 0 ? -1 : batch_.nnz / 2;
      break;
    case 6:
      batch_.layout = 2;
      break;
    case 7:
      batch_.memory = 1;
      break;
    case 8:
      batch_.flags = 1u << in_.below(32);
      break;
    case 9:
      batch_.dense_stride = -1;
      break;
    case 10:
      batch_.shared_rows = in_.integer() < 0 ? -1 : 0;
      break;
    default:
      batch_.weights = nullptr;
  }
}

OddBatch::OddBatch(Input* in, const dpi_model* model) : in_(*in), values_(1u + in->u8()) {
  odd_ = in->one_in(3);
  const dpi_model_info info = info_of(model);
  batch_.struct_size = odd_struct_size(in, sizeof batch_);
  batch_.rows = static_cast<int64_t>(in_.below(20));
  batch_.layout = static_cast<int32_t>(in_.below(2));
  const bool split = info.num_shared_slots + info.shared_dense_dim > 0 && in_.below(2) == 0;
  part(batch_.rows, split ? info.num_item_slots : info.num_slots,
       split ? info.item_dense_dim : info.dense_dim, &batch_.dense, &batch_.ids, &batch_.offsets,
       &batch_.weights, &batch_.nnz);
  if (split) shared(info);
  if (in_.one_in(8)) spoil();
}

}  // namespace dpi::fuzz
