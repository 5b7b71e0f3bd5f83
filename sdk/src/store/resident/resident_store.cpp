#include "store/resident/resident_store.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/abi/backend_status.hpp"
#include "base/host_share.hpp"
#include "store/arena_map.hpp"
#include "store/resident/block_bytes.hpp"
#include "store/resident/held_rows.hpp"
#include "store/resident/host_memory.hpp"
#include "store/resident/row_writer.hpp"
#include "store/resident/spare_rows.hpp"
#include "store/spread/range_reads.hpp"

namespace dpi {

namespace {

class ResidentStore final : public TableStore, public TableHandover {
 public:
  ResidentStore(const dpi_backend_api* api, dpi_backend_device* device, uint64_t limit, TableSharing sharing,
                PeerCopyOptions copies)
      : api_(api),
        device_(device),
        limit_(limit),
        sharing_(std::move(sharing)),
        copies_(std::move(copies)),
        writer_(api, device) {}
  ~ResidentStore() override { writer_.close(); }  // before the blocks that it copies to

  Result<StoreForecast> plan(std::vector<StoreTable> tables) override;
  Status ingest(int32_t table, int64_t first_row, int64_t n_rows, std::span<const std::byte> rows) override;
  std::span<std::byte> room(int32_t table) override;
  Status ingest_scale(int32_t table, std::span<const float> scale) override;
  Status seal() override;
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override;
  TableHandover& handover() override { return *this; }
  bool needs_ids() const override { return reads_ != nullptr; }
  std::optional<PeerStats> peer_stats(int32_t table) const override {
    return reads_ != nullptr ? reads_->stats(table) : std::nullopt;
  }
  TableShare share(int32_t table) const override;
  bool has_rows(int32_t table) const override;
  HeldRows holds(int32_t table) const override;
  bool has_before(int32_t table) const override;
  Status ingest_before(int32_t table, int64_t first_row, int64_t n_rows, int64_t from) override;
  Status read_before(int32_t table, int64_t from, int64_t n_rows, std::byte* rows) override;
  Status put_spare(int32_t table, std::span<const std::byte> rows, std::span<const float> scales) override;
  std::span<const MovedRow> spare_rows(int32_t table) const override;
  std::shared_ptr<RowVersion> row_version(int32_t group) const override;
  kernels::TableView view(int32_t table) const;

 private:
  /// A block of rows, the same number as in map_.
  struct Block {
    std::shared_ptr<TableBlock> memory;
    std::shared_ptr<SharedBlock> as_loaded;  // null: of another store, and read as a version says
    bool given = false;  // complete, of another model: rows that come are compared with it
  };

  Status check_budget(uint64_t bytes) const;
  Status take_blocks();
  void note_same_rows();
  bool is_in_same_block(size_t table) const;
  Status copy_held(size_t table);
  Status ingest_held(int32_t table, const HeldRows& held, int64_t first, int64_t n, int64_t from);
  Status allocate();
  Status make_reads();
  Status make_block(size_t block);
  Status leave_given(size_t table, const std::string& why);
  Status put_rows(size_t table, int64_t first, int64_t n, const std::byte* rows);
  void note_nonzero(size_t table, int64_t first, int64_t n, const std::byte* rows);
  void open_row_group(int32_t group);
  HeldMemory memory() const { return {api_, device_, host()}; }
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
  PeerCopyOptions copies_;  // until seal
  RowWriter writer_;
  dpi_backend_caps caps_{};
  std::vector<StoreTable> tables_;
  ArenaMap map_;
  TableRange range_;
  std::vector<Block> blocks_;
  std::vector<bool> same_;                                 // by block: given, and known to hold these rows
  std::vector<HeldRows> held_;                             // by table: to be copied from there, until seal
  std::vector<bool> shared_;                               // by block, after seal: others may read it
  std::vector<std::shared_ptr<RowVersion>> row_versions_;  // by row group, after seal
  std::vector<int64_t> ingested_;                          // rows that have come, per table
  std::vector<std::vector<float>> scales_;                 // kI8, until seal on a device; for nonzero bits
  std::vector<std::vector<uint64_t>> nonzero_;             // until seal
  std::vector<HeldRows> before_;  // by table: rows may be taken from there, until seal
  std::vector<std::byte> staging_, taken_;
  std::unique_ptr<RangeReads> reads_;  // after seal; null where no table lies in a range
};

Status ResidentStore::check_budget(uint64_t bytes) const {
  const uint64_t available = host() ? usable_memory() : caps_.memory_free;
  return check_table_budget(bytes, limit_, available, host());
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
  const uint64_t there = map_.there_bytes + sharing_.claims.given_bytes();
  DPI_RETURN_IF_ERROR(check_budget(
      limit_ != 0 ? map_.bytes - there : sharing_.claims.own_bytes(map_, range_, caps_.device_index)));
  blocks_.assign(map_.blocks.size(), {});
  DPI_RETURN_IF_ERROR(take_blocks());
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

/// Takes another store's blocks for tables that differ from its tables only by a version.
Status ResidentStore::take_blocks() {
  for (size_t t = 0; t < tables_.size(); ++t) {
    const StoreTable& spec = tables_[t];
    if (spec.version == nullptr) continue;
    const ArenaMap::Table& at = map_.tables[t];
    auto memory = std::static_pointer_cast<TableBlock>(spec.before.memory);
    if (!map_.blocks[static_cast<size_t>(at.block)].is_there ||
        spec.before.rows != memory->base() + at.offset || spec.before.stride != at.stride)
      return internal_error("table '" + spec.name + "' does not lie where the version before has it");
    Block& block = blocks_[static_cast<size_t>(at.block)];
    block.memory = std::move(memory);
    if (spec.version->overlay().empty()) block.as_loaded = spec.before.as_loaded;
  }
  return {};
}

/// A block that was given is the one that each of its tables is known to lie in. What is known of a table in
/// another block is copied.
void ResidentStore::note_same_rows() {
  same_.assign(map_.blocks.size(), false);
  for (size_t b = 0; b < same_.size(); ++b) {
    const std::shared_ptr<SharedBlock> given = sharing_.claims.given(b);
    if (given != nullptr) blocks_[b] = {given->block, given, true};
    same_[b] = blocks_[b].memory != nullptr;
  }
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].tiered || tables_[t].rows == 0) continue;
    const auto b = static_cast<size_t>(map_.tables[t].block);
    if (blocks_[b].given && tables_[t].same.memory != blocks_[b].memory) same_[b] = false;
  }
  held_.assign(tables_.size(), {});
  before_.assign(tables_.size(), {});
  for (size_t t = 0; t < tables_.size(); ++t) {
    StoreTable& spec = tables_[t];
    HeldRows held = std::exchange(spec.same, {});
    const bool fits = held.rows != nullptr && !spec.tiered && spec.rows > 0 && held.count == spec.rows &&
                      held.row_bytes == map_.tables[t].row_bytes && !held.content.empty() &&
                      held.content == spec.content;
    if (fits && !is_in_same_block(t)) held_[t] = std::move(held);
    HeldRows before = std::exchange(spec.before, {});
    if (before.rows != nullptr && !spec.tiered && spec.rows > 0 &&
        before.row_bytes == map_.tables[t].row_bytes && before.terms == spec.terms)
      before_[t] = std::move(before);
  }
}

bool ResidentStore::is_in_same_block(size_t table) const {
  return tables_[table].rows > 0 && same_[static_cast<size_t>(map_.tables[table].block)];
}

bool ResidentStore::has_rows(int32_t table) const {
  const auto t = static_cast<size_t>(table);
  return is_in_same_block(t) || (t < held_.size() && held_[t].memory != nullptr);
}

std::span<const MovedRow> ResidentStore::spare_rows(int32_t table) const {
  const StoreTable& spec = tables_[static_cast<size_t>(table)];
  return spec.version != nullptr ? spec.version->fresh() : std::span<const MovedRow>();
}

HeldRows ResidentStore::holds(int32_t table) const {
  const auto t = static_cast<size_t>(table);
  const ArenaMap::Table& at = map_.tables[t];
  const auto b = static_cast<size_t>(at.block);
  if (b >= shared_.size() || (!shared_[b] && !map_.blocks[b].is_there) || tables_[t].tiered) return {};
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
  held.terms = tables_[t].terms;
  held.version = row_version(tables_[t].row_group);
  held.as_loaded = blocks_[b].as_loaded;
  return held;
}

/// Ingests the rows that another store holds, as if they came from the bundle.
Status ResidentStore::copy_held(size_t table) {
  const HeldRows held = std::exchange(held_[table], {});
  const auto index = static_cast<int32_t>(table);
  if (held.scale != nullptr) {
    std::vector<float> scale;
    DPI_RETURN_IF_ERROR(read_held_scale(memory(), held, &scale));
    DPI_RETURN_IF_ERROR(ingest_scale(index, scale));
  }
  const int64_t most = std::max<int64_t>(1, kStagingBytes / held.stride);
  for (int64_t first = 0; first < held.count; first += most)
    DPI_RETURN_IF_ERROR(ingest_held(index, held, first, std::min(most, held.count - first), first));
  return {};
}

bool ResidentStore::has_before(int32_t table) const {
  const auto t = static_cast<size_t>(table);
  return t < before_.size() && before_[t].memory != nullptr;
}

Status ResidentStore::ingest_before(int32_t table, int64_t first, int64_t n, int64_t from) {
  return ingest_held(table, before_[static_cast<size_t>(table)], first, n, from);
}

Status ResidentStore::read_before(int32_t table, int64_t from, int64_t n, std::byte* rows) {
  return read_held(memory(), before_[static_cast<size_t>(table)], from, n, rows, &staging_);
}

Status ResidentStore::ingest_held(int32_t table, const HeldRows& held, int64_t first, int64_t n,
                                  int64_t from) {
  if (from < 0 || n < 0 || n > held.count - from)
    return internal_error(name_of(table) + ": rows [" + std::to_string(from) + ", +" + std::to_string(n) +
                          ") of " + std::to_string(held.count) + " are taken over");
  const auto bytes = static_cast<size_t>(n * held.row_bytes);
  if (const HeldRun run = held_run(held, from, n); host() && held.stride == held.row_bytes && run.rows == n)
    return ingest(table, first, n, {held.rows + run.place * held.stride, bytes});
  taken_.resize(std::max(taken_.size(), bytes));
  DPI_RETURN_IF_ERROR(read_held(memory(), held, from, n, taken_.data(), &staging_));
  return ingest(table, first, n, std::span(taken_).first(bytes));
}

Status ResidentStore::allocate() {
  for (size_t b = 0; b < blocks_.size(); ++b)
    if (blocks_[b].memory == nullptr) DPI_RETURN_IF_ERROR(make_block(b));
  return {};
}

Status ResidentStore::make_block(size_t block) {
  const ArenaMap::Block& b = map_.blocks[block];
  auto made = b.in_range ? TableBlock::allocate_range(api_, device_, sharing_.owner, range_, b.bytes)
                         : TableBlock::allocate(api_, device_, sharing_.owner, b.bytes, b.spare);
  DPI_ASSIGN_OR_RETURN(blocks_[block].memory, std::move(made));
  blocks_[block].as_loaded = std::make_shared<SharedBlock>(blocks_[block].memory);
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
    DPI_ASSIGN_OR_RETURN(const int64_t other, first_difference(memory(), map_.tables[table], base_of(table),
                                                               first, n, rows, &staging_));
    if (other < 0) return {};
    DPI_RETURN_IF_ERROR(leave_given(table, "row " + std::to_string(other)));
  }
  Status put = writer_.put(host(), map_.tables[table], base_of(table), first, n, rows);
  return put.ok() ? put : std::move(put).within(name_of(static_cast<int32_t>(table)));
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
                  " is not shared: another loaded model states the same hash, but " + why +
                  " differs; one of the two bundles does not match its hashes (dpi verify)");
  return copy_block(memory(), before->base(), blocks_[b].memory->base(),
                    std::min(before->bytes(), map_.blocks[b].bytes), &staging_);
}

void ResidentStore::note_nonzero(size_t table, int64_t first, int64_t n, const std::byte* rows) {
  kernels::TableView v;
  v.base = rows;
  v.rows = n;
  v.dim = tables_[table].dim;
  v.dtype = tables_[table].dtype;
  v.row_bytes = map_.tables[table].row_bytes;
  v.scale = scales_[table].empty() ? nullptr : scales_[table].data() + first;
  v.scale_stride = 1;
  nonzero_[table].resize(static_cast<size_t>((tables_[table].rows + 63) / 64));
  mark_nonzero(v, first, &nonzero_[table]);
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
    DPI_ASSIGN_OR_RETURN(const bool same, same_bytes(memory(), base_of(t) + map_.tables[t].scale_offset,
                                                     scale.data(), scale.size_bytes(), &staging_));
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
  DPI_RETURN_IF_ERROR(writer_.drain());
  writer_.close();
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
  std::vector<std::byte>().swap(taken_);
  std::vector<HeldRows>().swap(held_);
  std::vector<HeldRows>().swap(before_);
  DPI_RETURN_IF_ERROR(make_reads());
  for (size_t b = 0; b < blocks_.size(); ++b) {
    shared_.push_back(sharing_.claims.may_share(b));
    if (!blocks_[b].given && blocks_[b].as_loaded != nullptr)
      sharing_.claims.publish(b, blocks_[b].as_loaded);
  }
  int32_t groups = 0;
  for (const StoreTable& t : tables_) groups = std::max(groups, t.row_group + 1);
  for (int32_t g = 0; g < groups; ++g) open_row_group(g);
  sharing_ = {};  // with its references
  return {};
}

/// Prepares reads of tables in ranges, once their rows are ingested.
Status ResidentStore::make_reads() {
  const auto in_range = [](const ArenaMap::Block& b) { return b.in_range; };
  if (std::none_of(map_.blocks.begin(), map_.blocks.end(), in_range)) return {};
  std::vector<const std::byte*> bases;
  for (const Block& b : blocks_) bases.push_back(b.memory->base());
  DPI_ASSIGN_OR_RETURN(reads_, RangeReads::make({api_, device_, caps_.device_index}, range_, tables_, map_,
                                                bases, std::exchange(copies_, {})));
  return {};
}

TableShare ResidentStore::share(int32_t table) const {
  const auto b = static_cast<size_t>(map_.tables[static_cast<size_t>(table)].block);
  if (b >= shared_.size() || !shared_[b] || tables_[static_cast<size_t>(table)].tiered) return {};
  return {blocks_[b].as_loaded.use_count()};
}

/// The version that its tables came with, or else one with all rows at home and spare ones behind.
void ResidentStore::open_row_group(int32_t group) {
  std::vector<SpareRows::Part> parts;
  std::shared_ptr<RowVersion> version;
  int64_t rows = 0;
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].row_group != group) continue;
    const ArenaMap::Table& at = map_.tables[t];
    const Block& b = block_of(t);
    version = tables_[t].version;
    rows = tables_[t].rows;
    SpareRows::add({b.memory, b.as_loaded, at.offset, at.stride, at.scale_offset}, &parts);
  }
  if (version == nullptr) {
    const std::shared_ptr<SpareRows> spare = SpareRows::make(rows, std::move(parts));
    if (spare != nullptr) version = spare->first();
  }
  row_versions_.push_back(std::move(version));
}

std::shared_ptr<RowVersion> ResidentStore::row_version(int32_t group) const {
  const auto g = static_cast<size_t>(group);
  return group >= 0 && g < row_versions_.size() ? row_versions_[g] : nullptr;
}

Status ResidentStore::put_spare(int32_t table, std::span<const std::byte> rows,
                                std::span<const float> scales) {
  DPI_RETURN_IF_ERROR(allocate());
  const auto t = static_cast<size_t>(table);
  const ArenaMap::Table& at = map_.tables[t];
  Status put = writer_.put_moved(host(), at, base_of(t), tables_[t].version->fresh(), rows, scales);
  return put.ok() ? put : std::move(put).within(name_of(table));
}

/// Rows never move: a lease is nothing.
class ResidentReader final : public StoreReader {
 public:
  ResidentReader(const ResidentStore& store, RangeReads* reads) : store_(store) {
    if (reads != nullptr) counter_.emplace(reads);
  }
  Result<Readiness> acquire(const StoreRequest& request) override {
    if (counter_) counter_->count(request);
    return Readiness::kReady;
  }
  void release() override {}
  kernels::TableView view(int32_t table) const override { return store_.view(table); }
  uint64_t addresses() const override { return 1; }

 private:
  const ResidentStore& store_;
  std::optional<RangeReads::Counter> counter_;
};

Result<std::unique_ptr<StoreReader>> ResidentStore::open_reader(const ReaderLimits&) {
  return std::unique_ptr<StoreReader>(std::make_unique<ResidentReader>(*this, reads_.get()));
}

kernels::TableView ResidentStore::view(int32_t table) const {
  const auto t = static_cast<size_t>(table);
  kernels::TableView v = view_of(tables_[t], map_.tables[t], base_of(t));
  if (const auto version = row_version(tables_[t].row_group); version != nullptr)
    v.rows += version->rows().spare();
  if (reads_ != nullptr) v.cache = reads_->cache(table);
  return v;
}

}  // namespace

std::unique_ptr<TableStore> make_resident_store(const dpi_backend_api* api, dpi_backend_device* device,
                                                uint64_t memory_limit, TableSharing sharing,
                                                PeerCopyOptions copies) {
  return std::make_unique<ResidentStore>(api, device, memory_limit, std::move(sharing), std::move(copies));
}

}  // namespace dpi
