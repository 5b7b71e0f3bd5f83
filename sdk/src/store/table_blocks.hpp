// Blocks of rows that several models of an environment read, and a model's claims on them. Used by
// resident_store.cpp; the engine takes the claims before it forecasts a model's memory.
//
// Which block to look at follows from what bundles say: the cryptographic hashes of their data sets
// (StoreTable::content). A bundle may lie, and so nobody takes a block for what it says: rows that stream in
// are compared with it, byte by byte, and where one differs a model has a copy of its own.
#pragma once

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
  static Result<std::shared_ptr<TableBlock>> allocate(const dpi_backend_api* api, dpi_backend_device* device,
                                                      std::shared_ptr<const void> owner, size_t bytes);
  /// In one range over several devices.
  static Result<std::shared_ptr<TableBlock>> allocate_range(const dpi_backend_api* api,
                                                            dpi_backend_device* device,
                                                            std::shared_ptr<const void> owner,
                                                            const TableRange& range, size_t bytes);
  ~TableBlock() {
    in_range_ ? api_->range_free(device_, base_) : api_->free(device_, base_, DPI_MEMORY_TABLE);
  }
  TableBlock(const TableBlock&) = delete;
  TableBlock& operator=(const TableBlock&) = delete;

  std::byte* base() const { return base_; }

 private:
  TableBlock(const dpi_backend_api* api, dpi_backend_device* device, std::shared_ptr<const void> owner)
      : api_(api), device_(device), owner_(std::move(owner)) {}

  const dpi_backend_api* api_;
  dpi_backend_device* device_;
  std::shared_ptr<const void> owner_;
  std::byte* base_ = nullptr;
  bool in_range_ = false;
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
  std::shared_ptr<TableBlock> given(size_t block) const;
  uint64_t given_bytes() const { return given_bytes_; }
  uint64_t given_range_bytes() const { return given_range_bytes_; }  // of these, what lies in ranges
  void publish(size_t block, const std::shared_ptr<TableBlock>& made);
  bool may_share(size_t block) const { return block < key_of_.size() && key_of_[block] >= 0; }
  void alive() const { claim_.alive(); }

 private:
  SharedParts::Claim claim_;
  std::vector<int32_t> key_of_;  // by block: its key of claim_, -1 = it is not to be shared
  uint64_t given_bytes_ = 0, given_range_bytes_ = 0;
};

/// What a store needs for its blocks to be shared.
struct TableSharing {
  std::shared_ptr<const void> owner;  // of the device
  BlockClaims claims;
  std::function<void(const std::string& text)> warn;  // may be empty
  TableRange range = {};                              // of large tables
};

}  // namespace dpi
