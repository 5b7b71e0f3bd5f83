// Spare rows behind the tables that the same ids look up, and the versions of those tables that are there at
// once: a version has the tables' own rows but for some, which lie in spare rows (row_overlay.hpp). So the
// next version of a table takes the bytes of the rows that change.
//
//   version = rows->next(*before, changed);        // with the store's other tables; null: no room
//   ... the changed rows are written to their spare rows; the version serves; older ones go ...
//   rows->merge(*version);                         // copies rows home that nobody reads there any more
//
// A row is overwritten at home only when every version that is there has it elsewhere, and no model holds
// the block as it was loaded (SharedBlock): so who reads a row never sees it change, and no call is asked.
// After that the newest version reads it at home. Its spare row is free when the last version that knew it
// has gone: a call that began before the merge may be reading it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "store/resident/row_overlay.hpp"
#include "store/resident/table_blocks.hpp"

namespace dpi {

class RowVersion;

class SpareRows : public std::enable_shared_from_this<SpareRows> {
 public:
  /// Where rows of one table lie, with those that ride in them.
  struct Part {
    std::shared_ptr<TableBlock> block;
    std::weak_ptr<const void> as_loaded;  // alive: some model reads the block's rows where they were loaded
    int64_t offset = 0, stride = 0;
    int64_t scale_offset = -1;
  };
  /// To the parts of a group; a table that rides in another's rows is no part of its own.
  static void add(Part part, std::vector<Part>* parts);
  /// Null: a block has no spare rows, or another one has them.
  static std::shared_ptr<SpareRows> make(int64_t rows, std::vector<Part> parts);
  ~SpareRows();
  SpareRows(const SpareRows&) = delete;
  SpareRows& operator=(const SpareRows&) = delete;

  /// The version with all rows at home.
  std::shared_ptr<RowVersion> first();
  /// The version after `before`, with spare rows for `changed` (rising), whose bytes must be written next.
  /// Null where too few spare rows are free.
  std::shared_ptr<RowVersion> next(const RowVersion& before, std::span<const int32_t> changed);
  /// Brings home what may be of the version that serves.
  Status merge(RowVersion& newest);

  int64_t rows() const { return rows_; }
  int64_t spare() const { return spare_; }
  int64_t free_rows() const;
  uint64_t bytes() const;  // of the blocks
  const std::vector<Part>& parts() const { return parts_; }

 private:
  friend class RowVersion;
  SpareRows(int64_t rows, int64_t spare, std::vector<Part> parts);
  void leave(RowVersion* version);
  bool is_free_at_home(int32_t row) const;
  Status bring_home(const MovedRow& m);

  const int64_t rows_, spare_;
  const std::vector<Part> parts_;
  mutable std::mutex mutex_;           // of the rest, and of what versions have
  std::vector<RowVersion*> versions_;  // that are there
  std::vector<int32_t> users_;         // of each spare row: versions that may read it
};

/// Rows as one version reads them.
class RowVersion {
 public:
  RowVersion(std::shared_ptr<SpareRows> rows, RowOverlay overlay, std::vector<MovedRow> fresh);
  ~RowVersion();
  RowVersion(const RowVersion&) = delete;
  RowVersion& operator=(const RowVersion&) = delete;

  /// Any thread's; stays as long as the version. What is merged meanwhile reads the same in both places.
  const RowOverlay& overlay() const noexcept { return *now_.load(std::memory_order_acquire); }
  /// Moved rows that differ from the version before.
  std::span<const MovedRow> fresh() const { return fresh_; }
  SpareRows& rows() const { return *rows_; }

 private:
  friend class SpareRows;
  const std::shared_ptr<SpareRows> rows_;
  const std::vector<MovedRow> fresh_;
  std::vector<std::unique_ptr<const RowOverlay>> overlays_;  // the first, and what merges made of it
  std::atomic<const RowOverlay*> now_;
};

}  // namespace dpi
