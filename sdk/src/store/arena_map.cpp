#include "store/arena_map.hpp"

#include <bit>

#include "base/checked.hpp"

namespace dpi {

namespace {

constexpr int64_t kArenaLimit = int64_t{1} << 46;

int64_t padded_stride(int64_t bytes) {
  if (bytes <= 32) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  return bytes <= 64 ? 64 : round_up(bytes, 32);
}

/// Places `bytes` at the end of the arena, 64-byte aligned; -1 when it does not fit.
int64_t place(ArenaMap* l, int64_t count, int64_t size) {
  const auto need = checked_mul(count, size);
  const auto end = need ? checked_add(static_cast<int64_t>(l->bytes), *need) : std::nullopt;
  if (!end || *end > kArenaLimit) return -1;
  const auto at = static_cast<int64_t>(l->bytes);
  l->bytes = static_cast<uint64_t>(round_up(*end, 64));
  return at;
}

bool can_ride(const std::vector<StoreTable>& tables, size_t rider) {
  const int32_t carrier = tables[rider].ride_with;
  if (carrier < 0 || static_cast<size_t>(carrier) >= tables.size() || static_cast<size_t>(carrier) == rider)
    return false;
  return tables[carrier].rows == tables[rider].rows && tables[carrier].ride_with < 0 &&
         tables[rider].dtype == kernels::DType::kF32 && tables[carrier].dtype != kernels::DType::kI8;
}

}  // namespace

Result<ArenaMap> make_arena_map(const std::vector<StoreTable>& tables, bool widen) {
  ArenaMap l;
  l.tables.resize(tables.size());
  std::vector<int64_t> used(tables.size());  // payload of a carrier's row so far, riders included
  for (size_t t = 0; t < tables.size(); ++t) {
    auto& to = l.tables[t];
    to.row_bytes = tables[t].dim * kernels::dtype_bytes(tables[t].dtype);
    to.stride = padded_stride(to.row_bytes);
    used[t] = to.row_bytes;
  }
  std::vector<bool> rides(tables.size(), false);
  for (size_t t = 0; t < tables.size(); ++t) {
    if (!can_ride(tables, t)) continue;
    const auto carrier = static_cast<size_t>(tables[t].ride_with);
    auto& host = l.tables[carrier];
    const int64_t at = round_up(used[carrier], 4);
    const int64_t end = at + l.tables[t].row_bytes;
    if (end > host.stride && !(widen && end <= 64)) continue;
    host.stride = end > host.stride ? 64 : host.stride;
    host.shares_rows = true;
    used[carrier] = end;
    rides[t] = true;
    l.tables[t].shares_rows = true;
    l.tables[t].offset = at;  // within the row, until the carrier is placed
  }
  bool fits = true;
  for (size_t t = 0; t < tables.size(); ++t) {
    auto& to = l.tables[t];
    const uint64_t before = l.bytes;
    if (tables[t].tiered) continue;  // its rows lie elsewhere
    if (!rides[t]) to.offset = place(&l, tables[t].rows, to.stride);
    fits = fits && to.offset >= 0;
    if (tables[t].dtype == kernels::DType::kI8) {
      to.scale_offset = place(&l, tables[t].rows, sizeof(float));
      fits = fits && to.scale_offset >= 0;
    }
    if (tables[t].needs_nonzero) {
      to.nonzero_offset = place(&l, (tables[t].rows + 63) / 64, sizeof(uint64_t));
      fits = fits && to.nonzero_offset >= 0;
    }
    to.bytes = l.bytes - before;
  }
  if (!fits) return Status(Code::kOutOfMemory, "the tables need more than 64 TiB");
  for (size_t t = 0; t < tables.size(); ++t) {
    if (!rides[t]) continue;
    const auto& carrier = l.tables[tables[t].ride_with];
    l.tables[t].offset += carrier.offset;
    l.tables[t].stride = carrier.stride;
  }
  return l;
}

}  // namespace dpi
