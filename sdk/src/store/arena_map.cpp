#include "store/arena_map.hpp"

#include <bit>
#include <cstddef>

#include "base/checked.hpp"
#include "base/huge_page.hpp"

namespace dpi {

namespace {

constexpr int64_t kArenaLimit = int64_t{1} << 46;

/// Rows of RowForm::whole are there to be small: next to nothing is added to them.
int64_t padded_stride(kernels::DType type, int64_t bytes) {
  if (kernels::row_form(type).whole) return round_up(bytes, 4);
  if (bytes <= 32) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  return bytes <= 64 ? 64 : round_up(bytes, 32);
}

/// Places `bytes` at the end of a block, 64-byte aligned; -1 when it does not fit.
int64_t place(ArenaMap::Block* b, int64_t count, int64_t size) {
  const auto need = checked_mul(count, size);
  const auto end = need ? checked_add(static_cast<int64_t>(b->bytes), *need) : std::nullopt;
  if (!end || *end > kArenaLimit) return -1;
  const auto at = static_cast<int64_t>(b->bytes);
  b->bytes = static_cast<uint64_t>(round_up(*end, 64));
  return at;
}

bool can_ride(const std::vector<StoreTable>& tables, size_t rider) {
  const int32_t carrier = tables[rider].ride_with;
  if (carrier < 0 || static_cast<size_t>(carrier) >= tables.size() || static_cast<size_t>(carrier) == rider)
    return false;
  return tables[carrier].rows == tables[rider].rows && tables[carrier].ride_with < 0 &&
         tables[rider].dtype == kernels::DType::kF32 && tables[carrier].dtype != kernels::DType::kI8;
}

bool has_rows_here(const StoreTable& t) { return !t.tiered && t.rows > 0; }

/// Rows, scales and bits of a table; false when they do not fit.
bool place_table(const StoreTable& table, bool rides, ArenaMap* l, ArenaMap::Table* to) {
  ArenaMap::Block& b = l->blocks[static_cast<size_t>(to->block)];
  const uint64_t before = b.bytes;
  bool fits = true;
  const int64_t rows = table.rows + b.spare;
  if (!rides) to->offset = place(&b, rows, to->stride);
  fits = fits && to->offset >= 0;
  if (table.dtype == kernels::DType::kI8) {
    to->scale_offset = place(&b, rows, sizeof(float));
    fits = fits && to->scale_offset >= 0;
  }
  if (table.needs_nonzero) {
    to->nonzero_offset = place(&b, (table.rows + 63) / 64, sizeof(uint64_t));
    fits = fits && to->nonzero_offset >= 0;
  }
  to->bytes = b.bytes - before;
  return fits;
}

/// Strides, and who rides: offsets of riders are within the row, until their carriers are placed.
std::vector<bool> lay_out_rows(const std::vector<StoreTable>& tables, bool widen, ArenaMap* l) {
  std::vector<int64_t> used(tables.size());  // payload of a carrier's row so far, riders included
  for (size_t t = 0; t < tables.size(); ++t) {
    auto& to = l->tables[t];
    to.row_bytes = kernels::row_bytes_of(tables[t].dtype, tables[t].dim);
    to.stride = padded_stride(tables[t].dtype, to.row_bytes);
    used[t] = to.row_bytes;
  }
  std::vector<bool> rides(tables.size(), false);
  for (size_t t = 0; t < tables.size(); ++t) {
    if (!can_ride(tables, t)) continue;
    const auto carrier = static_cast<size_t>(tables[t].ride_with);
    auto& host = l->tables[carrier];
    const int64_t at = round_up(used[carrier], 4);
    const int64_t end = at + l->tables[t].row_bytes;
    const bool grows = kernels::row_form(tables[carrier].dtype).whole;
    if (end > host.stride && !grows && !(widen && end <= 64)) continue;
    host.stride = end <= host.stride ? host.stride : grows ? round_up(end, 4) : 64;
    host.shares_rows = true;
    used[carrier] = end;
    rides[t] = true;
    l->tables[t].shares_rows = true;
    l->tables[t].offset = at;
  }
  return rides;
}

/// Blocks of their own for large tables that may be shared or lie in a range, with all who ride there.
void choose_blocks(const std::vector<StoreTable>& tables, const std::vector<bool>& rides,
                   uint64_t range_least, ArenaMap* l) {
  const auto in_range = [&](size_t t) {
    return range_least > 0 && has_rows_here(tables[t]) &&
           static_cast<uint64_t>(tables[t].rows) >= range_least / static_cast<uint64_t>(l->tables[t].stride);
  };
  std::vector<bool> open(tables.size());
  for (size_t t = 0; t < tables.size(); ++t) open[t] = has_rows_here(tables[t]) && !tables[t].content.empty();
  for (size_t t = 0; t < tables.size(); ++t) {
    if (rides[t] && tables[t].content.empty()) open[static_cast<size_t>(tables[t].ride_with)] = false;
  }
  l->blocks.emplace_back().may_share = true;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (rides[t]) continue;
    const bool ranged = in_range(t), alone = tables[t].spare > 0;
    if (!ranged && (!open[t] || (!alone && tables[t].rows < ArenaMap::kOwnBlock / l->tables[t].stride)))
      continue;
    l->tables[t].block = static_cast<int32_t>(l->blocks.size());
    ArenaMap::Block b;
    b.is_there = tables[t].version != nullptr;
    b.may_share = !b.is_there;
    b.in_range = ranged;
    b.spare = ranged ? 0 : tables[t].spare;
    l->blocks.push_back(b);
  }
  for (size_t t = 0; t < tables.size(); ++t) {
    if (rides[t]) l->tables[t].block = l->tables[static_cast<size_t>(tables[t].ride_with)].block;
    if (has_rows_here(tables[t]) && tables[t].content.empty())
      l->blocks[static_cast<size_t>(l->tables[t].block)].may_share = false;
  }
}

}  // namespace

Result<ArenaMap> make_arena_map(const std::vector<StoreTable>& tables, bool widen, uint64_t range_least) {
  ArenaMap l;
  l.tables.resize(tables.size());
  const std::vector<bool> rides = lay_out_rows(tables, widen, &l);
  choose_blocks(tables, rides, range_least, &l);
  bool fits = true;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (tables[t].tiered) continue;  // its rows lie elsewhere
    fits = place_table(tables[t], rides[t], &l, &l.tables[t]) && fits;
  }
  for (size_t b = 0; b < l.blocks.size() && fits; ++b) {
    if (b > 0)
      l.blocks[b].bytes =
          static_cast<uint64_t>(round_up(static_cast<int64_t>(l.blocks[b].bytes), int64_t{kHugePage}));
    l.bytes += l.blocks[b].bytes;
    if (l.blocks[b].is_there) l.there_bytes += l.blocks[b].bytes;
    fits = l.bytes <= static_cast<uint64_t>(kArenaLimit);
  }
  if (!fits) return Status(Code::kOutOfMemory, "the tables need more than 64 TiB");
  l.blocks[0].may_share = l.blocks[0].may_share && l.blocks[0].bytes > 0;
  for (size_t t = 0; t < tables.size(); ++t) {
    if (!rides[t]) continue;
    const auto& carrier = l.tables[static_cast<size_t>(tables[t].ride_with)];
    l.tables[t].offset += carrier.offset;
    l.tables[t].stride = carrier.stride;
  }
  return l;
}

kernels::TableView view_of(const StoreTable& table, const ArenaMap::Table& at, const std::byte* base) {
  kernels::TableView v;
  v.base = base + at.offset;
  v.rows = table.rows;
  v.dim = table.dim;
  v.dtype = table.dtype;
  v.row_bytes = at.stride;
  if (at.scale_offset >= 0) {
    v.scale = reinterpret_cast<const float*>(base + at.scale_offset);
    v.scale_stride = 1;
  }
  if (at.nonzero_offset >= 0) v.nonzero = reinterpret_cast<const uint64_t*>(base + at.nonzero_offset);
  return v;
}

std::string block_content(const ArenaMap& map, const std::vector<StoreTable>& tables, size_t block) {
  std::string out;  // not how many bytes: what lies behind the rows is nobody's
  for (size_t t = 0; t < tables.size(); ++t) {
    const ArenaMap::Table& at = map.tables[t];
    if (!has_rows_here(tables[t]) || at.block != static_cast<int32_t>(block)) continue;
    const int64_t numbers[] = {tables[t].rows,
                               tables[t].dim,
                               static_cast<int64_t>(tables[t].dtype),
                               at.offset,
                               at.stride,
                               at.scale_offset,
                               at.nonzero_offset,
                               static_cast<int64_t>(tables[t].content.size())};
    for (const int64_t n : numbers) out += ' ' + std::to_string(n);
    out += ':' + tables[t].content;
  }
  return out;
}

}  // namespace dpi
