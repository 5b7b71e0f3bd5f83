// Puts unpadded rows where a table's rows lie, in host memory or a device's. Bytes of other tables in the
// same rows stay. Used by resident_store.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"
#include "store/arena_map.hpp"
#include "store/resident/row_overlay.hpp"
#include "store/resident/row_stream.hpp"

namespace dpi {

class RowWriter {
 public:
  RowWriter(const dpi_backend_api* api, dpi_backend_device* device)
      : api_(api), device_(device), stream_(api, device) {}

  /// Rows [first, first + n) of a table whose block begins at `base`. On a device they are there after drain.
  Status put(bool host, const ArenaMap::Table& at, std::byte* base, int64_t first, int64_t n,
             const std::byte* rows);
  /// Each row at its place; scales: of each, at its place too, or none.
  Status put_moved(bool host, const ArenaMap::Table& at, std::byte* base, std::span<const MovedRow> moved,
                   std::span<const std::byte> rows, std::span<const float> scales);
  Status drain() { return stream_.drain(); }
  /// Gives back what rows were sent through: before the blocks go.
  void close() {
    stream_.close();
    std::vector<std::byte>().swap(staging_);
  }

 private:
  Status copy_blocks(const ArenaMap::Table& at, std::byte* to, int64_t n, const std::byte* rows);

  const dpi_backend_api* api_;
  dpi_backend_device* device_;
  RowStream stream_;
  std::vector<std::byte> staging_;
};

}  // namespace dpi
