// Copies of the host tier's warm rows in device memory, for lookups that would read them across the bus.
//
// The device has tags and lines (<dpi/kernels/row_cache.hpp>) and changes nothing by itself: this does, with
// small kernels on a stream of its own, of the lowest priority, in steps. A lookup may run at any moment of
// a step. What a line goes through:
//
//   1. its tag is cleared, and the stream waited for: who looks from now on finds nothing
//   2. the epoch is bumped, and all calls that entered before have left: nobody reads the line any more
//   3. the row is copied, and the stream waited for
//   4. the tag is published
//
// A place of the host tier that is to get another row goes through 1, and then through the tier's own wait
// for readers (tiered/copied_places.hpp): so a tag never stands for a row that has gone from its place. Rows
// that a line gets cannot change meanwhile: they are held. A step that fails changes nothing that lookups
// could see wrong, and is done again.
//
// Which rows are worth a line the host knows: it resolves every id, so it samples places of hits anyway, and
// kernels write nothing at all (lines.hpp).
//
// Sets go from one size class to another where samples say that they would be met more often there
// (split.hpp, moving.cpp). The block is cut anew, so the cache is empty for a moment and fills again, warm
// rows first:
//
//   1. every class is told to have no sets, and the stream waited for: who looks from now on finds nothing
//   2. the epoch is bumped, and all calls that entered before have left: nobody reads the block any more
//   3. tags of the new cut are cleared, where they and the lines lie is written, and the stream waited for
//   4. the epoch again: nobody has seen half of that
//   5. the numbers of sets are written
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "store/device_cache/lines.hpp"
#include "store/device_cache/split.hpp"
#include "store/tiered/host_cache.hpp"

namespace dpi::device_cache {

/// Counts since the cache was made.
struct Counts {
  uint64_t filled = 0;   // lines that got a row
  uint64_t cleared = 0;  // tags that were cleared
  uint64_t moved = 0;    // times that the block was cut anew
  uint64_t failed = 0;   // steps
};

class DeviceCache {
 public:
  /// host: made with CacheOptions::device_bytes, outlives this; api and device too. Takes all memory.
  /// split: that of a cache over equal size classes, to begin with; where it does not fit, and when it is
  /// empty, the block is shared out by the bytes of the classes.
  static Result<std::unique_ptr<DeviceCache>> make(const dpi_backend_api& api, dpi_backend_device* device,
                                                   tiered::HostCache* host,
                                                   const std::vector<uint32_t>& split = {});
  /// Host memory that the cache takes, beside HostCache::bytes.
  static uint64_t host_bytes(const tiered::LinePlan& plan);
  /// No call may be under way any more.
  ~DeviceCache();
  DeviceCache(const DeviceCache&) = delete;
  DeviceCache& operator=(const DeviceCache&) = delete;

  /// Has rows that are there fill lines, hottest first. Before calls come.
  Status prefill();
  /// A thread that does step now and then, and as soon as a place is to leave.
  Status start();
  void stop();

  /// For kernels: where the size class' cache is described; null if it can have no lines. Never changes.
  const kernels::RowCache* cache(int32_t size_class) const {
    return classes_[static_cast<size_t>(size_class)].on_device;
  }

  /// One round: samples, what is to leave, and one turn of each class' changes. By one thread at a time.
  Status step();
  /// Has the next steps cut the block anew, if samples since the last time say that it pays, and enough came;
  /// false: they do not. By who steps.
  bool weigh();
  /// How many sets each size class has: as calls find them.
  std::vector<uint32_t> split() const;
  Counts counts() const;

 private:
  struct Change {
    uint32_t line = 0;
    int32_t row = -1;  // that it gets
    int32_t old = -1;  // that it held
  };
  struct Class {
    const kernels::RowCache* on_device = nullptr;
    uint32_t* tags = nullptr;
    std::byte* rows = nullptr;  // lines
    const std::byte* table = nullptr;
    int64_t stride = 0;
    int32_t number = 0;
    tiered::CopiedPlaces* copied = nullptr;
    Lines lines{0};
    uint64_t seen = 0;                                 // samples since heats were halved
    ClassWorth worth;                                  // since weigh
    tiered::CopiedPlaces::Levels seen_before{};        // when that began
    int32_t swept = INT32_MAX;                         // rows that were offered the empty lines of a new cut
    std::vector<Change> changes;                       // chosen: their lines are out of use
    enum { kChosen, kCleared, kCopied } at = kChosen;  // what has been done about changes
    uint64_t epoch = 0;                                // of the clearing
    std::vector<int32_t> leaving;                      // rows, of which no tag is known to be cleared
  };

  DeviceCache(const dpi_backend_api& api, dpi_backend_device* device, tiered::HostCache* host)
      : api_(api), device_(device), host_(host) {}
  Status take_memory(const std::vector<uint32_t>& split);
  Status describe(size_t i);
  void lay_out(size_t i);
  Status clear_leaving(Class& c);
  uint32_t line_of(const Class& c, int32_t row) const;
  void choose(Class& c);
  Status turn(Class& c);
  Status clear_old(Class& c);
  int32_t stage_rows(const Class& c);
  Status copy(Class& c);
  Status publish(Class& c);
  void take_empty(Class& c, int32_t row);
  Status fill(Class& c, int least_heat);
  static int least_heat_of(const Class& c, int64_t lines);
  Status set_tags(Class& c, int32_t n);
  Status sync(int32_t code, const dpi_backend_error& err);
  Status settle();
  void sweep(Class& c);

  // moving.cpp
  void look_at_heats();
  Status move();
  Status close();
  Status clear_cut();
  Status write_cut();
  Status open();
  Status set_words(const std::vector<kernels::CacheChange>& words);
  static uint32_t word_of(const Class& c, size_t offset);
  static uint64_t delta_of(const Class& c) {
    return reinterpret_cast<uintptr_t>(c.rows) - reinterpret_cast<uintptr_t>(c.table);
  }
  std::chrono::milliseconds between_cuts() const;

  bool passed(uint64_t epoch) const { return host_->epochs().oldest() > epoch; }
  bool pending() const;
  void run();

  static constexpr auto kBetweenSteps = std::chrono::milliseconds(2);  // at most 512 rows of a class in it

  const dpi_backend_api& api_;
  dpi_backend_device* const device_;
  tiered::HostCache* const host_;
  void* block_ = nullptr;                   // the device's
  std::byte* aligned_ = nullptr;            // in it
  tiered::LinePlan lines_;                  // how it is cut
  kernels::CacheChange* staged_ = nullptr;  // kMostCacheChanges
  bool reads_staged_ = false;               // what the stream may still hold does
  dpi_backend_stream* stream_ = nullptr;
  std::vector<Class> classes_;
  std::vector<int32_t> warm_;
  enum { kServing, kClosing, kClosed, kCleared, kWritten } moving_ = kServing;
  tiered::LinePlan next_;      // while moving_
  uint64_t moving_epoch_ = 0;  // of the last step that was done
  size_t cleared_class_ = 0;   // kClosed: tags before these are cleared
  int64_t cleared_line_ = 0;
  uint64_t sampled_ = 0, look_at_ = 0;  // samples of all classes; when to look at heats again
  int64_t looks_ = 0;                   // since weigh
  Counts counts_;                       // under mutex_, as the next
  std::vector<uint32_t> split_;

  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool stop_ = false, leaving_ = false;
  std::thread thread_;
};

}  // namespace dpi::device_cache
