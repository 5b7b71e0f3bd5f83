#include "store/external/stored_tables.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/text.hpp"
#include "bundle/byte_source.hpp"
#include "store/tiered/arena.hpp"

namespace dpi {

namespace {

constexpr size_t kFetchAtOnce = 1024;

/// Hash of a table's parts: rows, scales, offsets, keys. The rows' own hash where there is nothing else.
Result<std::string> content_of(const Bundle& bundle, const TableSpec& t) {
  std::vector<ContentHash> parts = {bundle.find(t.data)->extent.hash};
  if (!t.scale.empty()) parts.push_back(bundle.find(t.scale)->extent.hash);
  if (!t.offset.empty()) parts.push_back(bundle.find(t.offset)->extent.hash);
  if (t.key_set >= 0) {
    const KeySetSpec& set = bundle.manifest().key_sets[static_cast<size_t>(t.key_set)];
    parts.push_back(bundle.find(set.data)->extent.hash);
  }
  if (parts.size() == 1) return hex_bytes(parts[0]);
  DPI_ASSIGN_OR_RETURN(TreeHash hash, TreeHash::create(TreeHash::kData));
  for (const ContentHash& part : parts) hash.add(part);
  return hex_bytes(hash.finish());
}

/// The rows of a table with their keys, block by block as the bundle is read.
class Blocks {
 public:
  Blocks(Bundle& bundle, size_t index)
      : bundle_(bundle), index_(index), spec_(bundle.manifest().tables[index]) {}

  using Sink =
      std::function<Status(int64_t first, std::span<const int64_t> keys, std::span<const std::byte> rows)>;
  Status each(const Sink& sink) {
    const bool keyed = spec_.key_set >= 0;
    if (keyed) DPI_RETURN_IF_ERROR(check_keys());
    if (spec_.dtype == kernels::DType::kI8) DPI_RETURN_IF_ERROR(bundle_.read_table_scale(index_, &scale_));
    const int64_t stored = spec_.rows - (keyed ? 1 : 0);
    return bundle_.read_table(index_,
                              [&](int64_t first, int64_t n, std::span<const std::byte> rows) -> Status {
                                n = std::min(n, stored - first);
                                if (n <= 0) return {};
                                DPI_RETURN_IF_ERROR(take_keys(keyed, first, n));
                                return sink(first, keys_, whole(first, n, rows));
                              });
  }

 private:
  const KeySetSpec& set() const { return bundle_.manifest().key_sets[static_cast<size_t>(spec_.key_set)]; }
  /// Their digest; they are read again beside the rows.
  Status check_keys() {
    if (bundle_.file() == nullptr) return unsupported(bundle_.name() + ": keys are read from a file");
    return bundle_.read_keys(static_cast<size_t>(spec_.key_set),
                             [](int64_t, std::span<const int64_t>) { return Status(); });
  }
  Status take_keys(bool keyed, int64_t first, int64_t n) {
    keys_.resize(static_cast<size_t>(n));
    if (!keyed) {
      std::iota(keys_.begin(), keys_.end(), first);
      return {};
    }
    const uint64_t at =
        bundle_.find(set().data)->extent.offset + static_cast<uint64_t>(first) * sizeof(int64_t);
    return bundle_.file()->read(at, keys_.data(), keys_.size() * sizeof(int64_t));
  }
  std::span<const std::byte> whole(int64_t first, int64_t n, std::span<const std::byte> rows) {
    const auto dim = static_cast<size_t>(kernels::row_bytes_of(spec_.dtype, spec_.dim));
    const auto count = static_cast<size_t>(n);
    if (spec_.dtype != kernels::DType::kI8) return rows.first(count * dim);
    const auto at = static_cast<size_t>(tiered::scale_at(static_cast<int32_t>(spec_.dim)));
    rows_.assign(count * (at + sizeof(float)), std::byte{0});
    for (size_t r = 0; r < count; ++r) {
      std::byte* const row = rows_.data() + r * (at + sizeof(float));
      std::memcpy(row, rows.data() + r * dim, dim);
      std::memcpy(row + at, &scale_[static_cast<size_t>(first) + r], sizeof(float));
    }
    return rows_;
  }

  Bundle& bundle_;
  const size_t index_;
  const TableSpec& spec_;
  std::vector<float> scale_;
  std::vector<int64_t> keys_;
  std::vector<std::byte> rows_;
};

Status other_rows(const TableSpec& t, const dpi_store_stat& there) {
  return bad_model(
      "table '" + t.name + "': the " + std::to_string(there.rows) +
      " rows in the store are not the first ones of the bundle's; drop it there and load it again");
}

/// Refuses a bundle whose rows are older or newer than those that updates have made of the table.
Status check_updated(const Bundle& bundle, size_t index, const dpi_store_stat& there) {
  DPI_ASSIGN_OR_RETURN(const tiered::StoredTable t, stored_table(bundle, index));
  if (t.content == there.content) return {};
  return bad_model("table '" + t.name + "' is content " + std::string(there.content).substr(0, 12) +
                   "... of update " + std::to_string(there.sequence) + ", the bundle has " +
                   t.content.substr(0, 12) +
                   "...; `dpi store update` changes it; rows that were lost are written again by the bundle "
                   "with all deltas that were given (`dpi delta apply` makes it)");
}

/// All keys first, so that the store knows what each of its parts should have.
Result<int64_t> repair_table(Bundle& bundle, size_t index, tiered::PluginSource& store, int32_t table,
                             const RowProgress& progress) {
  DPI_ASSIGN_OR_RETURN(const dpi_store_loss loss, store.count(table));
  if (loss.what[0] == '\0') return 0;
  DPI_RETURN_IF_ERROR(store.begin_repair(table));
  for (const bool count : {true, false}) {
    DPI_RETURN_IF_ERROR(Blocks(bundle, index)
                            .each([&](int64_t first, std::span<const int64_t> keys,
                                      std::span<const std::byte> rows) -> Status {
                              if (count) rows = {};
                              DPI_RETURN_IF_ERROR(store.repair(table, keys, rows));
                              return progress(first + static_cast<int64_t>(keys.size()));
                            }));
  }
  DPI_RETURN_IF_ERROR(store.end_repair(table));
  DPI_ASSIGN_OR_RETURN(const dpi_store_loss after, store.count(table));
  return after.rows - loss.rows;
}

/// Keys [first, first + n) of a block: what the store has of them against the bundle's rows.
Status compare_rows(const TableSpec& t, tiered::PluginSource& store, int32_t table,
                    std::span<const int64_t> keys, std::span<const std::byte> rows) {
  const size_t bytes = rows.size() / keys.size();
  std::vector<std::byte> got(bytes * kFetchAtOnce);
  for (size_t at = 0; at < keys.size(); at += kFetchAtOnce) {
    const std::span<const int64_t> some = keys.subspan(at, std::min(kFetchAtOnce, keys.size() - at));
    std::vector<std::byte*> to;
    for (size_t i = 0; i < some.size(); ++i) to.push_back(got.data() + i * bytes);
    std::vector<uint64_t> found((some.size() + 63) / 64, 0);
    DPI_RETURN_IF_ERROR(store.fetch({table, some, to.data(), found.data(), 0}));
    for (size_t i = 0; i < some.size(); ++i) {
      const bool there = (found[i / 64] >> (i % 64) & 1) != 0;
      if (there && std::memcmp(to[i], rows.data() + (at + i) * bytes, bytes) == 0) continue;
      return bad_model("table '" + t.name + "': key " + std::to_string(some[i]) +
                       (there ? " has another row in the store" : " is not in the store"));
    }
  }
  return {};
}

}  // namespace

Result<tiered::StoredTable> stored_table(const Bundle& bundle, size_t index) {
  const TableSpec& t = bundle.manifest().tables[index];
  if (t.external)
    return unsupported("table '" + t.name + "' is external: the bundle has no rows of it to store");
  tiered::StoredTable s;
  s.name = t.name;
  s.dim = static_cast<int32_t>(t.dim);
  s.dtype = static_cast<int32_t>(t.dtype);
  s.keyed = t.key_set >= 0;
  s.rows = t.rows - (s.keyed ? 1 : 0);
  s.row_bytes = tiered::row_bytes({t.name, t.rows, s.dim, t.dtype});
  DPI_ASSIGN_OR_RETURN(s.content, content_of(bundle, t));
  return s;
}

Result<int64_t> write_table(Bundle& bundle, size_t index, tiered::PluginSource& store, int32_t table,
                            const RowProgress& progress) {
  const TableSpec& spec = bundle.manifest().tables[index];
  DPI_ASSIGN_OR_RETURN(const dpi_store_stat there, store.stat(table));
  const bool updated = there.sequence > 0 || there.updating != 0;
  if (updated) DPI_RETURN_IF_ERROR(check_updated(bundle, index, there));
  uint64_t digest = 0;
  int64_t wrote = 0;
  const Status written =
      Blocks(bundle, index)
          .each([&](int64_t first, std::span<const int64_t> keys, std::span<const std::byte> rows) -> Status {
            const auto end = first + static_cast<int64_t>(keys.size());
            if (updated) return progress(end);  // it came in another order than a load's
            digest = XXH3_64bits_withSeed(keys.data(), keys.size_bytes(), digest);
            digest = XXH3_64bits_withSeed(rows.data(), rows.size(), digest);
            if (end <= there.rows) {
              if (end == there.rows && digest != there.digest) return other_rows(spec, there);
            } else if (first < there.rows) {
              return other_rows(spec, there);
            } else {
              DPI_RETURN_IF_ERROR(store.write(table, keys, rows, digest));
              wrote += static_cast<int64_t>(keys.size());
            }
            return progress(end);
          });
  DPI_RETURN_IF_ERROR(written);
  DPI_ASSIGN_OR_RETURN(const int64_t again, repair_table(bundle, index, store, table, progress));
  if (!updated && there.complete == 0) DPI_RETURN_IF_ERROR(store.complete(table));
  return wrote + again;
}

Status compare_table(Bundle& bundle, size_t index, tiered::PluginSource& store, int32_t table,
                     const RowProgress& progress) {
  const TableSpec& spec = bundle.manifest().tables[index];
  return Blocks(bundle, index)
      .each([&](int64_t first, std::span<const int64_t> keys, std::span<const std::byte> rows) -> Status {
        DPI_RETURN_IF_ERROR(compare_rows(spec, store, table, keys, rows));
        return progress(first + static_cast<int64_t>(keys.size()));
      });
}

}  // namespace dpi
