#include "store/spread/peer_copies.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/abi/backend_status.hpp"

namespace dpi {

using kernels::CacheChange;
using kernels::kCacheWays;
using kernels::RowCache;

namespace {

constexpr uint64_t kAlign = 256;
constexpr uint32_t kMostSets = (uint32_t{1} << 27) - 1;  // row_cache.hpp
constexpr int32_t kChanges = 4096;                       // of one turn
constexpr const char* kWhat = "copies of rows of other devices";

uint64_t aligned(uint64_t n) { return (n + kAlign - 1) / kAlign * kAlign; }

/// Its description, tags, and lines that begin as the rows do in their memory.
uint64_t cache_bytes(uint64_t sets, int64_t stride) {
  const uint64_t lines = sets * kCacheWays;
  return sets == 0 ? 0
                   : 2 * kAlign + aligned(lines * sizeof(uint32_t)) +
                         aligned(lines * static_cast<uint64_t>(stride));
}

struct Share {
  const TableRange& range;
  int32_t own;
};

/// The keys of one table that are rows which other devices have.
struct Cursor {
  size_t table = 0;
  const RangeTable* rows = nullptr;
  HotKeyWalk walk;
  uint64_t taken = 0;  // lines

  /// Reads that a copy of the row at hand saves, per byte.
  double worth() const {
    return static_cast<double>(walk.key().count) / static_cast<double>(rows->stride + int64_t{4});
  }
  Result<bool> next(const Share& share) {
    for (;;) {
      DPI_ASSIGN_OR_RETURN(const bool more, walk.next());
      if (!more) return false;
      const int64_t row = walk.key().key;
      if (row >= 0 && row < rows->count && !is_own_row(share.range, share.own, *rows, row)) return true;
    }
  }
};

}  // namespace

bool is_own_row(const TableRange& range, int32_t own, const RangeTable& table, int64_t row) {
  if (range.kind != DPI_RANGE_PEERS || own < 0) return false;
  const backend::Spread s = range.spread(table.bytes);
  return s.owner(static_cast<uint64_t>(row * table.stride) / s.unit) == static_cast<uint64_t>(own);
}

bool may_have_copies(const StoreTable& table, const ArenaMap::Table& at) {
  return table.dtype != kernels::DType::kI8 && at.stride % 4 == 0;
}

PeerCopyBytes most_copy_bytes(const std::vector<StoreTable>& tables, const ArenaMap& map, uint64_t budget) {
  PeerCopyBytes all;
  for (size_t t = 0; t < tables.size(); ++t) {
    const ArenaMap::Table& at = map.tables[t];
    const ArenaMap::Block& block = map.blocks[static_cast<size_t>(at.block)];
    if (tables[t].tiered || !block.in_range || at.offset != 0 || !may_have_copies(tables[t], at)) continue;
    const uint64_t sets = 2 * (static_cast<uint64_t>(tables[t].rows + kCacheWays - 1) / kCacheWays);
    all.device += cache_bytes(sets, at.stride);
    all.host += sets * kCacheWays * sizeof(uint32_t);
  }
  all.device = std::min(all.device + (all.device > 0 ? kAlign : 0), budget);
  all.host = std::min(all.host, all.device);
  return all;
}

/// One table's copies, a turn at a time.
class PeerCopies::Filler {
 public:
  Filler(const dpi_backend_api& api, dpi_backend_device* device) : api_(api), device_(device) {}
  ~Filler() {
    if (stream_ != nullptr) api_.stream_destroy(device_, stream_);
    if (staged_ != nullptr) api_.free(device_, staged_, DPI_MEMORY_STAGING);
  }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;

  Status open() {
    void* staged = nullptr;
    dpi_backend_error err{};
    int32_t code = api_.alloc(device_, kChanges * sizeof(CacheChange), DPI_MEMORY_STAGING, &staged, &err);
    staged_ = static_cast<CacheChange*>(staged);
    if (code == 0) code = api_.stream_create(device_, 0, &stream_, &err);
    return backend_status(code, err, kWhat);
  }

  /// Hottest first, as long as lines are empty. Of a full set's rows the coldest stay where they are.
  Status fill(const RangeTable& t, Cursor cursor, const Share& share, Cache* c) {
    while (c->copied < c->lines.size()) {
      DPI_ASSIGN_OR_RETURN(const bool more, cursor.next(share));
      if (!more) break;
      const auto row = static_cast<int32_t>(cursor.walk.key().key);
      const uint32_t line = c->lines.take_empty(row);
      if (line == device_cache::Lines::kNone) continue;
      staged_[n_++] = {line, static_cast<uint32_t>(row) + 1};
      ++c->copied;
      if (n_ == kChanges) DPI_RETURN_IF_ERROR(turn(t, *c));
    }
    return turn(t, *c);
  }

 private:
  /// The rows, then the tags: one stream, and nobody reads yet.
  Status turn(const RangeTable& t, const Cache& c) {
    if (n_ == 0) return {};
    dpi_backend_error err{};
    int32_t code = api_.cache_rows(stream_, c.rows, t.rows, static_cast<size_t>(t.stride), staged_, n_, &err);
    if (code == 0) code = api_.cache_tags(stream_, c.tags, staged_, n_, &err);
    if (code == 0) code = api_.stream_synchronize(stream_, &err);
    n_ = 0;
    return backend_status(code, err, kWhat);
  }

  const dpi_backend_api& api_;
  dpi_backend_device* device_;
  dpi_backend_stream* stream_ = nullptr;
  CacheChange* staged_ = nullptr;
  int32_t n_ = 0;
};

Result<std::unique_ptr<PeerCopies>> PeerCopies::make(const dpi_backend_api& api, dpi_backend_device* device,
                                                     const TableRange& range, int32_t own,
                                                     std::vector<RangeTable> tables,
                                                     const PeerCopyOptions& options) {
  std::unique_ptr<PeerCopies> made(new PeerCopies(api, device, std::move(tables)));
  if (options.bytes == 0) return made;
  if (api.cache_rows == nullptr)
    return unsupported(std::string("option 'store.peer_copy_bytes': backend '") + api.name +
                       "' has no kernels that copy rows");
  DPI_RETURN_IF_ERROR(made->choose(range, own, options));
  if (made->bytes_ == 0) return made;
  DPI_RETURN_IF_ERROR(made->take_memory());
  Filler filler(api, device);
  DPI_RETURN_IF_ERROR(filler.open());
  const Share share{range, own};
  for (size_t t = 0; t < made->tables_.size(); ++t) {
    const RangeTable& table = made->tables_[t];
    if (made->caches_[t].sets == 0) continue;
    const Cursor all{t, &table, HotKeyWalk(*options.hot, static_cast<size_t>(table.in_list))};
    DPI_RETURN_IF_ERROR(filler.fill(table, all, share, &made->caches_[t]));
  }
  return made;
}

/// How many sets each table gets: rows compete by what they save per byte, and a set is paid for when its
/// first row comes.
Status PeerCopies::choose(const TableRange& range, int32_t own, const PeerCopyOptions& options) {
  const Share share{range, own};
  bool any = false;
  const auto colder = [](const Cursor& a, const Cursor& b) { return a.worth() < b.worth(); };
  std::vector<Cursor> heap;
  const auto push_next = [&](Cursor c) -> Status {
    DPI_ASSIGN_OR_RETURN(const bool more, c.next(share));
    if (!more) return {};
    any = true;
    heap.push_back(std::move(c));
    std::push_heap(heap.begin(), heap.end(), colder);
    return {};
  };
  for (size_t t = 0; t < tables_.size(); ++t) {
    const RangeTable& table = tables_[t];
    if (!table.copyable || table.in_list < 0) continue;
    DPI_RETURN_IF_ERROR(push_next({t, &table, HotKeyWalk(*options.hot, static_cast<size_t>(table.in_list))}));
  }
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), colder);
    Cursor c = std::move(heap.back());
    heap.pop_back();
    Cache& cache = caches_[c.table];
    if (c.taken == uint64_t{cache.sets} * kCacheWays) {
      const uint64_t more = cache_bytes(cache.sets + 1, c.rows->stride) -
                            cache_bytes(cache.sets, c.rows->stride) + (bytes_ == 0 ? kAlign : 0);
      if (bytes_ + more > options.bytes || cache.sets == kMostSets)
        continue;  // a table of narrower rows may still have room
      bytes_ += more;
      ++cache.sets;
    }
    ++c.taken;
    DPI_RETURN_IF_ERROR(push_next(std::move(c)));
  }
  spread_sets(options.bytes);
  if (any && bytes_ == 0)
    return {Code::kOutOfMemory, "option 'store.peer_copy_bytes' is " + std::to_string(options.bytes) +
                                    ", which is less than 16 rows of any table take"};
  return {};
}

/// Where the lists end before the bytes do: sets that are half full, so that hardly a row finds its own
/// taken.
void PeerCopies::spread_sets(uint64_t budget) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    Cache& c = caches_[t];
    const uint64_t more =
        cache_bytes(2 * uint64_t{c.sets}, tables_[t].stride) - cache_bytes(c.sets, tables_[t].stride);
    if (c.sets > kMostSets / 2 || bytes_ + more > budget) continue;
    c.sets *= 2;
    bytes_ += more;
  }
}

Status PeerCopies::take_memory() {
  dpi_backend_error err{};
  const int32_t code = api_.alloc(device_, bytes_, DPI_MEMORY_TABLE, &block_, &err);
  DPI_RETURN_IF_ERROR(backend_status(code, err, kWhat));
  auto* at = static_cast<std::byte*>(block_);
  at += (kAlign - reinterpret_cast<uintptr_t>(at) % kAlign) % kAlign;
  for (size_t t = 0; t < tables_.size(); ++t) {
    Cache& c = caches_[t];
    if (c.sets == 0) continue;
    const uint64_t tags = uint64_t{c.sets} * kCacheWays * sizeof(uint32_t);
    c.on_device = reinterpret_cast<const RowCache*>(at);
    c.tags = reinterpret_cast<uint32_t*>(at + kAlign);
    // What may be read in whole words there may be here.
    c.rows = at + kAlign + aligned(tags) + reinterpret_cast<uintptr_t>(tables_[t].rows) % kAlign;
    at += cache_bytes(c.sets, tables_[t].stride);
    DPI_RETURN_IF_ERROR(describe(t));
  }
  return {};
}

/// No tag is set yet.
Status PeerCopies::describe(size_t table) {
  Cache& c = caches_[table];
  c.lines = device_cache::Lines(c.sets);
  RowCache of_table;
  of_table.tags = c.tags;
  of_table.delta = reinterpret_cast<uintptr_t>(c.rows) - reinterpret_cast<uintptr_t>(tables_[table].rows);
  of_table.sets = c.sets;
  dpi_backend_error err{};
  int32_t code = api_.upload(device_, const_cast<RowCache*>(c.on_device), &of_table, sizeof of_table, &err);
  const std::vector<uint32_t> none(std::min<size_t>(static_cast<size_t>(c.lines.size()), size_t{1} << 18), 0);
  for (int64_t line = 0; code == 0 && line < c.lines.size(); line += static_cast<int64_t>(none.size())) {
    const auto n = std::min<int64_t>(static_cast<int64_t>(none.size()), c.lines.size() - line);
    code = api_.upload(device_, c.tags + line, none.data(), static_cast<size_t>(n) * sizeof(uint32_t), &err);
  }
  return backend_status(code, err, kWhat);
}

PeerCopies::~PeerCopies() {
  if (block_ != nullptr) api_.free(device_, block_, DPI_MEMORY_TABLE);
}

}  // namespace dpi
