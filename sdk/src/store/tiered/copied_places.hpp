// Places whose rows are copied elsewhere: what the host tier and a cache on a device tell each other, place
// by place of one size class. A place that is to hold another row must leave the cache first.
//
//   shard:   link(place) once its row is complete and in the directory
//            unlink(place) when it has gone from there: true = the place may be retired; false = it is held,
//            and Shard::left is called when no copy can be found any more
//   cache:   hold(place) before it copies the row: from then on the row stays as it is until left(place)
//            let_go(place) when no copy can be found any more and none is on the way; false = it was unlinked
//            meanwhile, and take_leaving gives it, or has
//
// Places are counted from 0, which is the first of the reserved rows; these, and the default rows behind the
// shards' places, are always linked. States are bytes of atomic words; nobody waits but the cache.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "store/tiered/sync.hpp"

namespace dpi::tiered {

class CopiedPlaces {
 public:
  struct Shape {
    int32_t reserved = 0;  // rows before place 0 of the shards
    int32_t places = 0;    // of the shards
    int32_t behind = 0;    // default rows
    int32_t lines = 0;     // at most so many are held
  };
  explicit CopiedPlaces(const Shape& shape);
  /// Its bytes of memory.
  static uint64_t bytes(const Shape& shape);

  // By the shard: its own places, under its lock. Neither allocates.
  void link(int32_t place, uint8_t heat);
  bool unlink(int32_t place);

  /// A place that a call read, now and then. By one thread at a time. Is it held?
  bool saw(int32_t place);

  // By the cache: numbers of rows, reserved ones included.
  int32_t rows() const { return shape_.reserved + shape_.places + shape_.behind; }
  int32_t place_of(int32_t row) const { return row - shape_.reserved; }
  bool is_fixed(int32_t row) const { return row < shape_.reserved || row >= shape_.reserved + shape_.places; }
  bool hold(int32_t row);
  bool let_go(int32_t row);
  void left(int32_t row);
  uint8_t heat(int32_t row) const { return StdSync::own(heat_[static_cast<size_t>(row)]); }
  /// How often saw met a row of each heat; how many rows that may be held have each.
  using Levels = std::array<uint64_t, 256>;
  Levels seen_by_heat() const;
  /// Every step-th row from `first` on, as many times.
  Levels rows_by_heat(int32_t first, int32_t step) const;
  /// Halves all heats.
  void cool();
  /// Appends the rows that are to leave.
  void take_leaving(std::vector<int32_t>* to);
  /// Appends rows that are not held and were seen while warm, in that order, kMostWarm at most. How many were
  /// seen in all since the last time.
  uint64_t take_warm(std::vector<int32_t>* to);
  /// Called by who unlinks, quick and without an exception; empty = nobody.
  void on_leaving(std::function<void()> wake);

  static constexpr size_t kMostWarm = 4096;

 private:
  enum State : uint8_t { kNone, kLinked, kHeld, kLeaving };
  static constexpr uint8_t kWarm = 2;  // seen twice since the last cooling

  const Shape shape_;
  std::vector<uint8_t> state_, heat_;  // by row
  mutable std::mutex mutex_;           // of the rest
  std::vector<int32_t> leaving_;
  std::vector<int32_t> warm_;
  uint64_t seen_ = 0;  // atomic, as the next
  Levels seen_by_heat_{};
  std::function<void()> wake_;
};

}  // namespace dpi::tiered
