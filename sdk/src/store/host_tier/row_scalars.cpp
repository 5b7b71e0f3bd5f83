#include "store/host_tier/row_scalars.hpp"

#include <cstring>

#include <dpi/kernels/row_decode.hpp>

namespace dpi {

int64_t RowScalars::add(const std::vector<DerivedColumn>& columns) {
  const int64_t at = tiered::scalars_at(row_) + static_cast<int64_t>(columns_.size() * sizeof(float));
  columns_.insert(columns_.end(), columns.begin(), columns.end());
  return at;
}

void RowScalars::fill(std::byte* row) const {
  kernels::TableView view;
  view.base = row;
  view.rows = 1;
  view.dim = row_.dim;
  view.dtype = row_.dtype;
  view.scale = reinterpret_cast<const float*>(row + tiered::scale_at(row_.dim));
  view.scale_stride = 1;
  std::byte* to = row + tiered::scalars_at(row_);
  for (const DerivedColumn& column : columns_) {
    double sum = 0;
    for (const RowTerm& t : column)
      sum += t.value(row_.dim, [&view](int64_t k) { return kernels::decode_at(view, 0, k); });
    const auto rounded = static_cast<float>(sum);
    std::memcpy(to, &rounded, sizeof rounded);
    to += sizeof rounded;
  }
}

void join_scales(int32_t dim, std::span<const std::byte> rows, std::span<const float> scales,
                 std::vector<std::byte>* whole) {
  const auto width = static_cast<size_t>(dim), at = static_cast<size_t>(tiered::scale_at(dim));
  const size_t bytes = at + sizeof(float);
  whole->assign(scales.size() * bytes, std::byte{0});
  for (size_t r = 0; r < scales.size(); ++r) {
    std::memcpy(whole->data() + r * bytes, rows.data() + r * width, width);
    std::memcpy(whole->data() + r * bytes + at, &scales[r], sizeof(float));
  }
}

std::vector<tiered::TierTable> tier_tables(const std::vector<StoreTable>& tables) {
  std::vector<tiered::TierTable> rows;
  for (size_t i = 0; i < tables.size(); ++i) {
    const StoreTable& t = tables[i];
    if (!t.tiered || !t.columns.empty()) continue;
    rows.push_back({t.name, t.rows, t.dim, t.dtype, t.any_key, 0});
    for (const StoreTable& rider : tables) {
      if (rider.tiered && rider.ride_with == static_cast<int32_t>(i)) rows.back().scalars += rider.dim;
    }
  }
  return rows;
}

}  // namespace dpi
