#include "runtime/execute/input_ranges.hpp"

#include <algorithm>
#include <cstring>

namespace dpi {

namespace {

constexpr int64_t kWord = 4;  // ids, offsets and floats

void zero_rows(std::byte* block, int64_t at, int64_t width, int64_t from, int64_t to) {
  if (width > 0 && to > from) {
    std::memset(block + at + from * width * kWord, 0, static_cast<size_t>((to - from) * width * kWord));
  }
}

/// Rows [from, to) get the places of row 0: any other might be given to another row while this chunk is under
/// way.
void repeat_first(std::byte* block, int64_t at, int64_t width, int64_t from, int64_t to) {
  const auto bytes = static_cast<size_t>(width * kWord);
  for (int64_t r = from; r < to && bytes > 0; ++r)
    std::memcpy(block + at + r * width * kWord, block + at, bytes);
}

}  // namespace

void list_input_ranges(const ResolveSchema& schema, const InputMap& map, const ResolvedRows& rows,
                       std::vector<dpi_fetch_range>* ranges) {
  ranges->clear();
  const auto add = [&](int64_t offset, int64_t bytes, int64_t count_at = -1) {
    if (bytes > 0) ranges->push_back({offset, bytes, count_at});
  };
  // row map, dense and ids of the items lie side by side in a block laid out for this bucket
  const int64_t start = rows.has_map ? map.row_map : map.dense.item;
  add(start, map.ids.item + rows.rows.item * schema.n_ids.item * kWord - start);
  add(map.dense.shared, rows.rows.shared * schema.n_floats.shared * kWord);
  add(map.ids.shared, rows.rows.shared * schema.n_ids.shared * kWord);
  for (size_t i = 0; i < map.sequences.size(); ++i) {
    const auto& q = map.sequences[i];
    const auto& f = schema.features[static_cast<size_t>(schema.sequences[i])];
    const int64_t n = rows.rows[f.spec.space];
    const int64_t count_at = q.offsets + n * kWord;
    add(q.offsets, (n + 1) * kWord);
    add(q.ids, q.max_nnz * kWord, count_at);
    if (f.spec.weighted) add(q.weights, q.max_nnz * kWord, count_at);
  }
  for (const RowSpace space : kRequestSpaces)
    add(map.places[space], rows.rows[space] * schema.n_places[space] * kWord);
  for (size_t i = 0; i < map.bag_places.size(); ++i) {
    if (map.bag_places[i] < 0) continue;
    const auto& q = map.sequences[static_cast<size_t>(schema.placements[i].sequence)];
    const auto& f = schema.features[static_cast<size_t>(schema.placements[i].feature)];
    add(map.bag_places[i], q.max_nnz * kWord, q.offsets + rows.rows[f.spec.space] * kWord);
  }
}

int64_t range_bytes(const dpi_fetch_range& range, const std::byte* block) {
  if (range.count_at < 0) return range.bytes;
  int32_t count = 0;
  std::memcpy(&count, block + range.count_at, sizeof count);
  return std::clamp<int64_t>(count * kWord, 0, range.bytes);
}

void pad_rows(const ResolveSchema& schema, const InputMap& map, const ResolvedRows& rows,
              const ResolvedRows& padded, std::byte* block) {
  if (rows.has_map) zero_rows(block, map.row_map, 1, rows.rows.item, padded.rows.item);
  for (const RowSpace space : kRequestSpaces) {
    const int64_t from = rows.rows[space], to = padded.rows[space];
    zero_rows(block, map.dense[space], schema.n_floats[space], from, to);
    zero_rows(block, map.ids[space], schema.n_ids[space], from, to);
    repeat_first(block, map.places[space], schema.n_places[space], from, to);
  }
  for (size_t i = 0; i < map.sequences.size(); ++i) {
    const auto& f = schema.features[static_cast<size_t>(schema.sequences[i])];
    auto* offsets = reinterpret_cast<int32_t*>(block + map.sequences[i].offsets);
    const int64_t from = rows.rows[f.spec.space], to = padded.rows[f.spec.space];
    std::fill(offsets + from + 1, offsets + to + 1, offsets[from]);
  }
}

}  // namespace dpi
