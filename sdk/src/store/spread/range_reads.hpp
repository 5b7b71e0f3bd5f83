// How a device reads tables that lie in a range over several devices: with copies of hot rows
// (peer_copies.hpp), and counted: which of the ids that are looked up have their row in the device's own
// share, in a copy, or elsewhere. Kernels write nothing, so the host counts; it looks at one id in kEach,
// and each reader writes lines of its own, which are summed when asked for. Used by the resident store.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "store/spread/peer_copies.hpp"
#include "store/table_store.hpp"

namespace dpi {

class RangeReads {
 public:
  static constexpr int64_t kEach = 61;  // of the ids; prime, so that no number of columns meets one alone

  struct Device {
    const dpi_backend_api* api = nullptr;
    dpi_backend_device* device = nullptr;
    int32_t index = 0;
  };
  /// bases: by block, of those in a range; others are not looked at. Copies rows, which must be there.
  static Result<std::unique_ptr<RangeReads>> make(const Device& on, const TableRange& range,
                                                  const std::vector<StoreTable>& tables, const ArenaMap& map,
                                                  const std::vector<const std::byte*>& bases,
                                                  const PeerCopyOptions& options);

  /// The row cache of a table of the store; null where it has no copies.
  const kernels::RowCache* cache(int32_t table) const;
  /// Nothing of a table that lies in no range, or rides with one.
  std::optional<PeerStats> stats(int32_t table) const;

  /// One reader's counts, which stay when it has gone.
  class alignas(64) Counter {
   public:
    explicit Counter(RangeReads* of);
    ~Counter();
    Counter(const Counter&) = delete;
    Counter& operator=(const Counter&) = delete;
    /// Counts the ids that a request looks up.
    void count(const StoreRequest& request);

   private:
    friend class RangeReads;
    struct alignas(64) Counts {
      std::array<std::atomic<uint64_t>, 3> at{};  // by Place
    };
    RangeReads* const of_;
    int64_t next_ = 0;  // ids until the next that is looked at
    std::unique_ptr<Counts[]> counts_;
  };

 private:
  enum Place { kOwn, kCopied, kRemote };
  RangeReads() = default;
  Place place_of(size_t table, int32_t row) const;

  std::unique_ptr<PeerCopies> copies_;
  std::vector<RangeTable> ranges_;
  std::vector<int32_t> range_of_;  // by table of the store: number among ranges_, -1 = none
  TableRange range_;
  int32_t own_ = -1;
  mutable std::mutex mutex_;  // of the rest
  std::vector<const Counter*> counters_;
  std::vector<std::array<uint64_t, 3>> gone_;  // by range: counted by readers that have gone
};

}  // namespace dpi
