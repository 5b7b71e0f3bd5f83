#include "store/resident_store.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include <dpi/kernels/row_decode.hpp>

#include "backend/abi/backend_status.hpp"
#include "store/arena_map.hpp"
#include "store/host_memory.hpp"
#include "store/row_stream.hpp"
#include "store/spread_rows.hpp"

namespace dpi {

namespace {

constexpr int64_t kStagingBytes = int64_t{4} << 20;

std::string mib(uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

class ResidentStore final : public TableStore {
 public:
  ResidentStore(const dpi_backend_api* api, dpi_backend_device* device, uint64_t limit, TableSharing sharing)
      : api_(api), device_(device), limit_(limit), sharing_(std::move(sharing)), stream_(api, device) {}
  ~ResidentStore() override { stream_.close(); }  // before the blocks that it copies to

  Result<StoreForecast> plan(std::vector<StoreTable> tables) override;
  Status ingest(int32_t table, int64_t first_row, int64_t n_rows, std::span<const std::byte> rows) override;
  std::span<std::byte> room(int32_t table) override;
  Status ingest_scale(int32_t table, std::span<const float> scale) override;
  Status seal() override;
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override;
  bool needs_ids() const override { return false; }
  TableShare share(int32_t table) const override;
  bool has_rows(int32_t table) const override;
  HeldRows holds(int32_t table) const override;
  kernels::TableView view(int32_t table) const;

 private:
  /// A block of rows, the same number as in map_.
  struct Block {
    std::shared_ptr<TableBlock> memory;
    bool given = false;  // complete, of another model: rows that come are compared with it
  };

  Status check_budget(uint64_t bytes) const;
  uint64_t own_bytes() const;
  void note_same_rows();
  bool is_in_same_block(size_t table) const;
  Status copy_held(size_t table);
  Status allocate();
  Status make_block(size_t block);
  Status leave_given(size_t table, const std::string& why);
  Status copy_block(const std::byte* from, std::byte* to, uint64_t bytes);
  Result<int64_t> first_difference(size_t table, int64_t first, int64_t n, const std::byte* rows);
  Result<bool> same_bytes(const std::byte* ours, const void* theirs, size_t bytes);
  Status put_rows(size_t table, int64_t first, int64_t n, const std::byte* rows);
  Status copy_rows(size_t table, int64_t first, int64_t n, const std::byte* rows);
  Status upload_rows(size_t table, int64_t first, int64_t n, const std::byte* rows);
  Status copy_blocks(size_t table, std::byte* to, int64_t n, const std::byte* rows);
  void note_nonzero(size_t table, int64_t first, int64_t n, const std::byte* rows);
  Block& block_of(size_t table) { return blocks_[static_cast<size_t>(map_.tables[table].block)]; }
  std::byte* base_of(size_t table) const {
    return blocks_[static_cast<size_t>(map_.tables[table].block)].memory->base();
  }
  bool host() const { return (caps_.flags & DPI_BACKEND_HOST_MEMORY) != 0; }
  std::string name_of(int32_t table) const { return "table '" + tables_[table].name + "'"; }

  const dpi_backend_api* api_;
  dpi_backend_device* device_;
  uint64_t limit_;
  TableSharing sharing_;
  RowStream stream_;
  dpi_backend_caps caps_{};
  std::vector<StoreTable> tables_;
  ArenaMap map_;
  TableRange range_;
  std::vector<Block> blocks_;
  std::vector<bool> same_;                      // by block: given, and known to hold these rows
  std::vector<HeldRows> held_;                  // by table: to be copied from there, until seal
  std::vector<bool> shared_;                    // by block, after seal: others may read it
  std::vector<int64_t> ingested_;               // rows that have come, per table
  std::vector<std::vector<float>> scales_;      // kI8, until seal on a device; for nonzero bits
  std::vector<std::vector<uint64_t>> nonzero_;  // until seal
  std::vector<std::byte> staging_;
};

Status ResidentStore::check_budget(uint64_t bytes) const {
  const uint64_t available = host() ? host_memory_available() : caps_.memory_free;
  const uint64_t budget = limit_ != 0 ? limit_ : available;
  if (budget == 0 || bytes <= budget) return {};
  return {Code::kOutOfMemory, "the tables need " + mib(bytes) + ", but " +
                                  (limit_ != 0 ? "option memory_limit allows " : "there is only ") +
                                  mib(budget) + " of " + (host() ? "host" : "device") +
                                  " memory; nothing was loaded"};
}

Result<StoreForecast> ResidentStore::plan(std::vector<StoreTable> tables) {
  dpi_backend_error err{};
  caps_.struct_size = sizeof caps_;
  DPI_RETURN_IF_ERROR(backend_status(api_->caps(device_, &caps_, &err), err, "backend"));
  tables_ = std::move(tables);
  for (const StoreTable& t : tables_)
    if (t.tiered) return internal_error("table '" + t.name + "' is tiered, and this store holds plain ones");
  DPI_ASSIGN_OR_RETURN(map_, make_arena_map(tables_, !host(), sharing_.range.least()));
  range_ = sharing_.range;
  DPI_RETURN_IF_ERROR(check_budget(limit_ != 0 ? map_.bytes - sharing_.claims.given_bytes() : own_bytes()));
  note_same_rows();
  ingested_.assign(tables_.size(), 0);
  scales_.resize(tables_.size());
  nonzero_.resize(tables_.size());
  StoreForecast f;
  for (const ArenaMap::Block& b : map_.blocks) f.range_bytes += b.in_range ? b.bytes : 0;
  (host() ? f.host_bytes : f.device_bytes) = map_.bytes - f.range_bytes;
  for (const auto& t : map_.tables) {
    f.table_bytes.push_back(t.bytes);
    f.in_range.push_back(map_.blocks[static_cast<size_t>(t.block)].in_range);
  }
  return f;
}

/// That this load takes of its device, or of host memory in its place.
uint64_t ResidentStore::own_bytes() const {
  uint64_t bytes = 0;
  for (size_t b = 0; b < map_.blocks.size(); ++b) {
    if (sharing_.claims.given(b) != nullptr) continue;
    const ArenaMap::Block& block = map_.blocks[b];
    bytes += block.in_range ? range_.bytes_on(caps_.device_index, block.bytes) : block.bytes;
  }
  return bytes;
}

/// A block that was given is the one that each of its tables is known to lie in. What is known of a table in
/// another block is copied.
void ResidentStore::note_same_rows() {
  same_.assign(map_.blocks.size(), false);
  for (size_t b = 0; b < same_.size(); ++b) same_[b] = sharing_.claims.given(b) != nullptr;
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].tiered || tables_[t].rows == 0) continue;
    const auto b = static_cast<size_t>(map_.tables[t].block);
    if (same_[b] && tables_[t].same.memory != sharing_.claims.given(b)) same_[b] = false;
  }
  held_.assign(tables_.size(), {});
  for (size_t t = 0; t < tables_.size(); ++t) {
    StoreTable& spec = tables_[t];
    HeldRows held = std::exchange(spec.same, {});
    const bool fits = held.rows != nullptr && !spec.tiered && spec.rows > 0 && held.count == spec.rows &&
                      held.row_bytes == map_.tables[t].row_bytes && !held.content.empty() &&
                      held.content == spec.content;
    if (fits && !is_in_same_block(t)) held_[t] = std::move(held);
  }
}

bool ResidentStore::is_in_same_block(size_t table) const {
  return tables_[table].rows > 0 && same_[static_cast<size_t>(map_.tables[table].block)];
}

bool ResidentStore::has_rows(int32_t table) const {
  const auto t = static_cast<size_t>(table);
  return is_in_same_block(t) || (t < held_.size() && held_[t].memory != nullptr);
}

HeldRows ResidentStore::holds(int32_t table) const {
  const auto t = static_cast<size_t>(table);
  const ArenaMap::Table& at = map_.tables[t];
  const auto b = static_cast<size_t>(at.block);
  if (b >= shared_.size() || !shared_[b] || tables_[t].tiered) return {};
  const std::byte* const base = blocks_[b].memory->base();
  HeldRows held;
  held.memory = blocks_[b].memory;
  held.bytes = map_.blocks[b].bytes;
  held.rows = base + at.offset;
  held.scale = at.scale_offset >= 0 ? base + at.scale_offset : nullptr;
  held.stride = at.stride;
  held.count = tables_[t].rows;
  held.row_bytes = at.row_bytes;
  held.content = tables_[t].content;
  return held;
}

/// As if they came by.
Status ResidentStore::copy_held(size_t table) {
  const HeldRows held = std::exchange(held_[table], {});
  const auto index = static_cast<int32_t>(table);
  const auto fetch = [&](const std::byte* from, std::byte* to, size_t bytes) -> Status {
    dpi_backend_error err{};
    if (!host()) return backend_status(api_->download(device_, to, from, bytes, &err), err, name_of(index));
    std::memcpy(to, from, bytes);
    return {};
  };
  if (held.scale != nullptr) {
    std::vector<float> scale(static_cast<size_t>(held.count));
    DPI_RETURN_IF_ERROR(
        fetch(held.scale, reinterpret_cast<std::byte*>(scale.data()), scale.size() * sizeof(float)));
    DPI_RETURN_IF_ERROR(ingest_scale(index, scale));
  }
  const int64_t most = std::max<int64_t>(1, kStagingBytes / held.stride);
  std::vector<std::byte> rows;
  const auto row = static_cast<size_t>(held.row_bytes), stride = static_cast<size_t>(held.stride);
  for (int64_t first = 0; first < held.count; first += most) {
    const auto n = static_cast<size_t>(std::min(most, held.count - first));
    rows.resize((n - 1) * stride + row);
    DPI_RETURN_IF_ERROR(fetch(held.rows + first * held.stride, rows.data(), rows.size()));
    for (size_t r = 1; r < n && row != stride; ++r)
      std::memmove(rows.data() + r * row, rows.data() + r * stride, row);
    DPI_RETURN_IF_ERROR(ingest(index, first, static_cast<int64_t>(n), std::span(rows).first(n * row)));
  }
  return {};
}

Status ResidentStore::allocate() {
  if (!blocks_.empty()) return {};
  blocks_.resize(map_.blocks.size());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    blocks_[b].memory = sharing_.claims.given(b);
    blocks_[b].given = blocks_[b].memory != nullptr;
    if (!blocks_[b].given) DPI_RETURN_IF_ERROR(make_block(b));
  }
  return {};
}

Status ResidentStore::make_block(size_t block) {
  const ArenaMap::Block& at = map_.blocks[block];
  auto made = at.in_range ? TableBlock::allocate_range(api_, device_, sharing_.owner, range_, at.bytes)
                          : TableBlock::allocate(api_, device_, sharing_.owner, at.bytes);
  DPI_ASSIGN_OR_RETURN(blocks_[block].memory, std::move(made));
  blocks_[block].given = false;
  return {};
}

Status ResidentStore::ingest(int32_t table, int64_t first, int64_t n, std::span<const std::byte> rows) {
  DPI_RETURN_IF_ERROR(allocate());
  const auto& at = map_.tables[table];
  if (first != ingested_[table] || n < 0 || n > tables_[table].rows - first) {
    return internal_error(name_of(table) + ": rows [" + std::to_string(first) + ", +" + std::to_string(n) +
                          ") came out of order; " + std::to_string(ingested_[table]) + " of " +
                          std::to_string(tables_[table].rows) + " are there");
  }
  if (rows.size() != static_cast<size_t>(n * at.row_bytes)) {
    return internal_error(name_of(table) + ": " + std::to_string(rows.size()) + " bytes for " +
                          std::to_string(n) + " rows");
  }
  const auto t = static_cast<size_t>(table);
  const bool scaled = tables_[t].dtype == kernels::DType::kI8;
  if (tables_[t].needs_nonzero && scaled && scales_[t].empty())
    return internal_error(name_of(table) + ": scales come before rows");
  if (tables_[t].needs_nonzero) note_nonzero(t, first, n, rows.data());
  ingested_[t] += n;
  sharing_.claims.alive();
  return put_rows(t, first, n, rows.data());
}

std::span<std::byte> ResidentStore::room(int32_t table) {
  const auto t = static_cast<size_t>(table);
  const ArenaMap::Table& at = map_.tables[t];
  if (!host() || at.stride != at.row_bytes || tables_[t].rows == 0) return {};
  if (!allocate().ok() || block_of(t).given) return {};  // ingest says what failed
  return {base_of(t) + at.offset, static_cast<size_t>(tables_[t].rows * at.row_bytes)};
}

Status ResidentStore::put_rows(size_t table, int64_t first, int64_t n, const std::byte* rows) {
  if (block_of(table).given) {
    DPI_ASSIGN_OR_RETURN(const int64_t other, first_difference(table, first, n, rows));
    if (other < 0) return {};
    DPI_RETURN_IF_ERROR(leave_given(table, "row " + std::to_string(other)));
  }
  return host() ? copy_rows(table, first, n, rows) : upload_rows(table, first, n, rows);
}

/// Of rows of a given block and those that came, -1 when there is none.
Result<int64_t> ResidentStore::first_difference(size_t table, int64_t first, int64_t n,
                                                const std::byte* rows) {
  const auto& at = map_.tables[table];
  const auto row_bytes = static_cast<size_t>(at.row_bytes), stride = static_cast<size_t>(at.stride);
  const int64_t block = host() ? n : std::max<int64_t>(1, kStagingBytes / at.stride);
  dpi_backend_error err{};
  for (int64_t done = 0; done < n;) {
    const int64_t now = std::min(block, n - done);
    const std::byte* there = base_of(table) + at.offset + (first + done) * at.stride;
    if (!host()) {
      staging_.resize(static_cast<size_t>(now - 1) * stride + row_bytes);
      DPI_RETURN_IF_ERROR(
          backend_status(api_->download(device_, staging_.data(), there, staging_.size(), &err), err,
                         name_of(static_cast<int32_t>(table))));
      there = staging_.data();
    }
    for (int64_t r = 0; r < now; ++r, ++done) {
      if (std::memcmp(there + static_cast<size_t>(r) * stride, rows + static_cast<size_t>(done) * row_bytes,
                      row_bytes) != 0)
        return first + done;
    }
  }
  return int64_t{-1};
}

Result<bool> ResidentStore::same_bytes(const std::byte* ours, const void* theirs, size_t bytes) {
  if (!host()) {
    dpi_backend_error err{};
    staging_.resize(bytes);
    DPI_RETURN_IF_ERROR(
        backend_status(api_->download(device_, staging_.data(), ours, bytes, &err), err, "comparing tables"));
    ours = staging_.data();
  }
  return std::memcmp(ours, theirs, bytes) == 0;
}

/// A block of this model's own, with what has come so far: all of that is in the one that was given. Others
/// who look for these tables find the new one, once it is complete.
Status ResidentStore::leave_given(size_t table, const std::string& why) {
  const auto b = static_cast<size_t>(map_.tables[table].block);
  DPI_RETURN_IF_ERROR(check_budget(limit_ != 0 ? map_.bytes : map_.blocks[b].bytes));
  const std::shared_ptr<TableBlock> before = blocks_[b].memory;
  DPI_RETURN_IF_ERROR(make_block(b));
  if (sharing_.warn)
    sharing_.warn(name_of(static_cast<int32_t>(table)) +
                  " is not shared: a model that is loaded says the same hash of it, and " + why +
                  " differs; one of the two bundles is not what it says (dpi verify)");
  return copy_block(before->base(), blocks_[b].memory->base(), map_.blocks[b].bytes);
}

Status ResidentStore::copy_block(const std::byte* from, std::byte* to, uint64_t bytes) {
  if (host()) {
    std::memcpy(to, from, bytes);
    return {};
  }
  dpi_backend_error err{};
  for (uint64_t at = 0; at < bytes; at += staging_.size()) {
    staging_.resize(static_cast<size_t>(std::min<uint64_t>(kStagingBytes, bytes - at)));
    DPI_RETURN_IF_ERROR(backend_status(
        api_->download(device_, staging_.data(), from + at, staging_.size(), &err), err, "copying tables"));
    DPI_RETURN_IF_ERROR(backend_status(api_->upload(device_, to + at, staging_.data(), staging_.size(), &err),
                                       err, "copying tables"));
  }
  return {};
}

Status ResidentStore::copy_rows(size_t table, int64_t first, int64_t n, const std::byte* rows) {
  const auto& at = map_.tables[table];
  std::byte* to = base_of(table) + at.offset + first * at.stride;
  if (at.stride == at.row_bytes) {
    if (to != rows) std::memcpy(to, rows, static_cast<size_t>(n * at.row_bytes));
    return {};
  }
  spread_rows(to, static_cast<size_t>(at.stride), rows, static_cast<size_t>(at.row_bytes), n,
              !at.shares_rows);
  return {};
}

/// Through pinned buffers where the backend can place rows, else by plain copies.
Status ResidentStore::upload_rows(size_t table, int64_t first, int64_t n, const std::byte* rows) {
  const auto& at = map_.tables[table];
  std::byte* to = base_of(table) + at.offset + first * at.stride;
  if (api_->place_rows == nullptr || at.row_bytes > static_cast<int64_t>(RowStream::kBufferBytes))
    return copy_blocks(table, to, n, rows);
  Status sent = stream_.send(to, static_cast<size_t>(at.stride), rows, static_cast<size_t>(at.row_bytes), n);
  return sent.ok() ? sent : std::move(sent).within(name_of(static_cast<int32_t>(table)));
}

Status ResidentStore::copy_blocks(size_t table, std::byte* to, int64_t n, const std::byte* rows) {
  const auto& at = map_.tables[table];
  const int64_t block = std::max<int64_t>(1, kStagingBytes / at.stride);
  dpi_backend_error err{};
  for (int64_t done = 0; done < n;) {
    const int64_t now = std::min(block, n - done);
    // A block starts at this table's own bytes of its first row and ends with those of its last row.
    const auto bytes = static_cast<size_t>((now - 1) * at.stride + at.row_bytes);
    std::byte* dst = to + done * at.stride;
    staging_.assign(bytes, std::byte{0});
    if (at.shares_rows) {  // rows hold another table's bytes: change only ours
      DPI_RETURN_IF_ERROR(backend_status(api_->download(device_, staging_.data(), dst, bytes, &err), err,
                                         name_of(static_cast<int32_t>(table))));
    }
    for (int64_t r = 0; r < now; ++r) {
      std::memcpy(staging_.data() + r * at.stride, rows + (done + r) * at.row_bytes,
                  static_cast<size_t>(at.row_bytes));
    }
    DPI_RETURN_IF_ERROR(backend_status(api_->upload(device_, dst, staging_.data(), bytes, &err), err,
                                       name_of(static_cast<int32_t>(table))));
    done += now;
  }
  return {};
}

void ResidentStore::note_nonzero(size_t table, int64_t first, int64_t n, const std::byte* rows) {
  auto& bits = nonzero_[table];
  bits.resize(static_cast<size_t>((tables_[table].rows + 63) / 64));
  kernels::TableView v;
  v.base = rows;
  v.rows = n;
  v.dim = tables_[table].dim;
  v.dtype = tables_[table].dtype;
  v.row_bytes = map_.tables[table].row_bytes;
  v.scale = scales_[table].empty() ? nullptr : scales_[table].data() + first;
  v.scale_stride = 1;
  for (int64_t r = 0; r < n; ++r) {
    if (kernels::row_is_nonzero(v, r))
      bits[static_cast<size_t>((first + r) / 64)] |= uint64_t{1} << ((first + r) % 64);
  }
}

Status ResidentStore::ingest_scale(int32_t table, std::span<const float> scale) {
  DPI_RETURN_IF_ERROR(allocate());
  if (tables_[table].dtype != kernels::DType::kI8 ||
      scale.size() != static_cast<size_t>(tables_[table].rows)) {
    return internal_error(name_of(table) + ": unexpected scales");
  }
  const auto t = static_cast<size_t>(table);
  scales_[t].assign(scale.begin(), scale.end());
  if (block_of(t).given) {
    DPI_ASSIGN_OR_RETURN(const bool same, same_bytes(base_of(t) + map_.tables[t].scale_offset, scale.data(),
                                                     scale.size_bytes()));
    if (same) return {};
    DPI_RETURN_IF_ERROR(leave_given(t, "a scale"));
  }
  dpi_backend_error err{};
  std::byte* to = base_of(t) + map_.tables[t].scale_offset;
  return backend_status(api_->upload(device_, to, scale.data(), scale.size_bytes(), &err), err,
                        name_of(table));
}

Status ResidentStore::seal() {
  DPI_RETURN_IF_ERROR(allocate());
  for (size_t t = 0; t < held_.size(); ++t)
    if (held_[t].memory != nullptr) DPI_RETURN_IF_ERROR(copy_held(t));
  DPI_RETURN_IF_ERROR(stream_.drain());
  stream_.close();
  dpi_backend_error err{};
  for (size_t t = 0; t < tables_.size(); ++t) {
    const auto index = static_cast<int32_t>(t);
    if (is_in_same_block(t)) continue;
    if (ingested_[t] != tables_[t].rows) {
      return internal_error(name_of(index) + ": " + std::to_string(ingested_[t]) + " of " +
                            std::to_string(tables_[t].rows) + " rows came");
    }
    if (tables_[t].dtype == kernels::DType::kI8 && scales_[t].empty())
      return internal_error(name_of(index) + ": no scales came");
    if (!tables_[t].needs_nonzero || block_of(t).given) continue;  // of equal rows the bits are equal
    std::byte* to = base_of(t) + map_.tables[t].nonzero_offset;
    const size_t bytes = nonzero_[t].size() * sizeof(uint64_t);
    DPI_RETURN_IF_ERROR(
        backend_status(api_->upload(device_, to, nonzero_[t].data(), bytes, &err), err, name_of(index)));
  }
  std::vector<std::vector<float>>().swap(scales_);
  std::vector<std::vector<uint64_t>>().swap(nonzero_);
  std::vector<std::byte>().swap(staging_);
  std::vector<HeldRows>().swap(held_);
  for (size_t b = 0; b < blocks_.size(); ++b) {
    shared_.push_back(sharing_.claims.may_share(b));
    if (!blocks_[b].given) sharing_.claims.publish(b, blocks_[b].memory);
  }
  sharing_ = {};  // with its references
  return {};
}

TableShare ResidentStore::share(int32_t table) const {
  const auto b = static_cast<size_t>(map_.tables[static_cast<size_t>(table)].block);
  if (b >= shared_.size() || !shared_[b] || tables_[static_cast<size_t>(table)].tiered) return {};
  return {blocks_[b].memory.use_count()};
}

/// Rows never move: a lease is nothing.
class ResidentReader final : public StoreReader {
 public:
  explicit ResidentReader(const ResidentStore& store) : store_(store) {}
  Result<Readiness> acquire(const StoreRequest&) override { return Readiness::kReady; }
  void release() override {}
  kernels::TableView view(int32_t table) const override { return store_.view(table); }
  uint64_t addresses() const override { return 1; }

 private:
  const ResidentStore& store_;
};

Result<std::unique_ptr<StoreReader>> ResidentStore::open_reader(const ReaderLimits&) {
  return std::unique_ptr<StoreReader>(std::make_unique<ResidentReader>(*this));
}

kernels::TableView ResidentStore::view(int32_t table) const {
  const auto& at = map_.tables[table];
  kernels::TableView v;
  std::byte* const base = base_of(static_cast<size_t>(table));
  v.base = base + at.offset;
  v.rows = tables_[table].rows;
  v.dim = tables_[table].dim;
  v.dtype = tables_[table].dtype;
  v.row_bytes = at.stride;
  if (at.scale_offset >= 0) {
    v.scale = reinterpret_cast<const float*>(base + at.scale_offset);
    v.scale_stride = 1;
  }
  if (at.nonzero_offset >= 0) v.nonzero = reinterpret_cast<const uint64_t*>(base + at.nonzero_offset);
  return v;
}

}  // namespace

std::unique_ptr<TableStore> make_resident_store(const dpi_backend_api* api, dpi_backend_device* device,
                                                uint64_t memory_limit, TableSharing sharing) {
  return std::make_unique<ResidentStore>(api, device, memory_limit, std::move(sharing));
}

}  // namespace dpi
