// Moves packed rows from block to block: to a flight's own block, whose addresses a captured graph has, or to
// run some rows of a chunk by themselves.
#include <cstring>

#include "runtime/request/resolve.hpp"

namespace dpi {

namespace {

/// One part of both blocks: elements of `size` bytes, n_of them a row.
void copy_part(const std::byte* from, std::byte* to, int64_t first, int64_t rows, int64_t row_bytes) {
  if (rows > 0 && row_bytes > 0)
    std::memcpy(to, from + first * row_bytes, static_cast<size_t>(rows * row_bytes));
}

void copy_bags(const InputMap::Sequence& from, const std::byte* block, int64_t first, int64_t rows,
               bool weighted, const InputMap::Sequence& to, std::byte* copy) {
  const auto* offsets = reinterpret_cast<const int32_t*>(block + from.offsets) + first;
  auto* copied = reinterpret_cast<int32_t*>(copy + to.offsets);
  for (int64_t r = 0; r <= rows; ++r) copied[r] = offsets[r] - offsets[0];
  copy_part(block + from.ids, copy + to.ids, offsets[0], copied[rows], sizeof(int32_t));
  if (weighted) copy_part(block + from.weights, copy + to.weights, offsets[0], copied[rows], sizeof(float));
}

}  // namespace

void copy_packed(const ResolveSchema& schema, const InputMap& from, const std::byte* block,
                 const ResolvedRows& rows, const RowRange& range, const InputMap& to, std::byte* copy,
                 ResolvedRows* out) {
  const PerSpace<int64_t> first{range.begin, rows.has_map ? range.shared_begin : range.begin};
  const PerSpace<int64_t> n{range.rows(),
                            rows.has_map ? range.shared_end - range.shared_begin : range.rows()};
  out->rows = n;
  out->has_map = rows.has_map;
  out->raw_keys = rows.raw_keys;
  if (rows.has_map) {
    const auto* map = reinterpret_cast<const int32_t*>(block + from.row_map) + range.begin;
    auto* copied = reinterpret_cast<int32_t*>(copy + to.row_map);
    for (int64_t r = 0; r < n.item; ++r) copied[r] = map[r] - static_cast<int32_t>(range.shared_begin);
  }
  for (const RowSpace space : kRequestSpaces) {
    copy_part(block + from.ids[space], copy + to.ids[space], first[space], n[space],
              schema.n_ids[space] * static_cast<int64_t>(sizeof(int32_t)));
    copy_part(block + from.dense[space], copy + to.dense[space], first[space], n[space],
              schema.n_floats[space] * static_cast<int64_t>(sizeof(float)));
  }
  for (size_t k = 0; k < schema.sequences.size(); ++k) {
    const FeatureSpec& f = schema.features[static_cast<size_t>(schema.sequences[k])].spec;
    copy_bags(from.sequences[k], block, first[f.space], n[f.space], f.weighted, to.sequences[k], copy);
  }
  copy_part(block + from.raw_keys, copy + to.raw_keys, 0, rows.raw_keys, sizeof(int64_t));
}

}  // namespace dpi
