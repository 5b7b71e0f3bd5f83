// Blocks of rows that several models of an environment read, and a model's claims on them. Used by
// resident_store.cpp; the engine takes the claims before it forecasts a model's memory.
//
// Which block to look at follows from what bundles say: the cryptographic hashes of their data sets
// (StoreTable::content). A bundle may lie, and so nobody takes a block for what it says: rows that stream in
// are compared with it, byte by byte, and where one differs a model has a copy of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/shared_parts.hpp"
#include "base/status.hpp"
#include "store/arena_map.hpp"
#include "store/table_range.hpp"

namespace dpi {

/// Memory of a device. `owner` closes the device when the last of its blocks and models has gone.
class TableBlock {
 public:
  /// spare: rows behind those of the table that the block is for (spare_rows.hpp).
  static Result<std::shared_ptr<TableBlock>> allocate(const dpi_backend_api* api, dpi_backend_device* device,
                                                      std::shared_ptr<const void> owner, uint64_t bytes,
                                                      int64_t spare = 0);
  /// In one range over several devices.
  static Result<std::shared_ptr<TableBlock>> allocate_range(const dpi_backend_api* api,
                                                            dpi_backend_device* device,
                                                            std::shared_ptr<const void> owner,
                                                            const TableRange& range, uint64_t bytes);
  ~TableBlock() {
    in_range_ ? api_->range_free(device_, base_) : api_->free(device_, base_, DPI_MEMORY_TABLE);
  }
  TableBlock(const TableBlock&) = delete;
  TableBlock& operator=(const TableBlock&) = delete;

  std::byte* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  int64_t spare() const { return spare_; }
  /// True for one at a time, who writes to the spare rows from now on.
  bool take_spare() { return !spare_taken_.exchange(true, std::memory_order_acquire); }
  void give_spare_back() { spare_taken_.store(false, std::memory_order_release); }
  /// Offsets from base().
  Status copy_within(uint64_t from, uint64_t to, size_t bytes);

 private:
  TableBlock(const dpi_backend_api* api, dpi_backend_device* device, std::shared_ptr<const void> owner,
             uint64_t bytes, int64_t spare)
      : api_(api), device_(device), owner_(std::move(owner)), bytes_(bytes), spare_(spare) {}

  const dpi_backend_api* api_;
  dpi_backend_device* device_;
  std::shared_ptr<const void> owner_;
  std::byte* base_ = nullptr;
  bool in_range_ = false;
  const uint64_t bytes_;
  const int64_t spare_;
  std::atomic<bool> spare_taken_{false};
};

/// A block with the rows that were loaded into it: what models share. Who reads them where they were loaded
/// holds this; nobody overwrites them as long as it is there.
struct SharedBlock {
  std::shared_ptr<TableBlock> block;
};

class BlockClaims {
 public:
  BlockClaims() = default;  // on nothing: every block is the model's own
  /// Memory that is the same for who says the same.
  struct Where {
    std::string device;
    std::string range;  // of blocks that lie in one
  };
  /// On all blocks of `map` that may be shared. Waits as SharedParts::claim does.
  static Result<BlockClaims> claim(SharedParts* parts, const Where& where, const ArenaMap& map,
                                   const std::vector<StoreTable>& tables,
                                   const std::function<Status()>& go_on);

  /// Complete, of another model; null = the block is to be made.
  std::shared_ptr<SharedBlock> given(size_t block) const;
  uint64_t given_bytes() const { return given_bytes_; }
  uint64_t given_range_bytes() const { return given_range_bytes_; }  // of these, what lies in ranges
  /// Memory that a store of these blocks takes on device number `device`, or in host memory in its place.
  uint64_t own_bytes(const ArenaMap& map, const TableRange& range, int32_t device) const;
  void publish(size_t block, const std::shared_ptr<SharedBlock>& made);
  bool may_share(size_t block) const { return block < key_of_.size() && key_of_[block] >= 0; }
  void alive() const { claim_.alive(); }

 private:
  SharedParts::Claim claim_;
  std::vector<int32_t> key_of_;  // by block: its key of claim_, -1 = it is not to be shared
  uint64_t given_bytes_ = 0, given_range_bytes_ = 0;
};

/// Everything that a store needs to share its blocks.
struct TableSharing {
  std::shared_ptr<const void> owner;  // of the device
  BlockClaims claims;
  std::function<void(const std::string& text)> warn;  // may be empty
  TableRange range = {};                              // of large tables
};

}  // namespace dpi
