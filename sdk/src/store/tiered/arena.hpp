// T1's rows: one block of host memory of a fixed budget, shared by all tables. Tables whose rows are padded
// to the same number of bytes form a size class and share its places; the budget is split between classes by
// the bytes of all their rows, and a small class gets all it can use. A place is the number of a row of its
// class, so kernels read base + place * stride.
//
// Each class is cut into shards (a key's hash says which), each with its own pool, directory range and lock.
// Behind them every table has one place of its own for its default row. A row's bytes never change after its
// place was linked: an update is another place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "base/environment.hpp"
#include "base/status.hpp"
#include "store/tiered/block.hpp"

namespace dpi::tiered {

struct TierTable {
  std::string name;
  int64_t rows = 0;  // of the table in the tier below, for the split of the budget; 0 = not known
  int32_t dim = 0;
  kernels::DType dtype = kernels::DType::kF32;
  bool any_key = false;  // a call may have more keys than the table has rows
  int32_t scalars = 0;   // floats that are derived from a row and lie behind it
};

/// Bytes of a row as its source writes it. Of i8 its scale is a part, a float behind the columns, rounded up
/// to 4 bytes.
int64_t row_bytes(const TierTable& table);
/// Where its derived scalars lie.
inline int64_t scalars_at(const TierTable& table) { return (row_bytes(table) + 3) / 4 * 4; }
/// Where the scale lies in a row of i8.
inline int64_t scale_at(int32_t dim) { return (int64_t{dim} + 3) / 4 * 4; }
/// Bytes that one row takes in the arena with its scalars: as store/arena_map.hpp pads them.
int64_t row_stride(const TierTable& table);

/// How a budget is spent. Pure arithmetic: what is forecast is what is taken.
struct ArenaPlan {
  struct Class {
    int64_t stride = 0;
    int32_t shards = 1;
    int32_t places_per_shard = 0;
    int32_t remembered = 0;         // absent keys per shard
    bool any_key = false;           // of one of its tables
    std::vector<int32_t> tables;    // their codes are 1, 2, ... in this order
    uint64_t row_offset = 0;        // of place 0 in the rows' block, reserved rows before it
    uint64_t directory_offset = 0;  // in the directories' block

    int64_t places() const { return int64_t{shards} * places_per_shard; }
  };
  std::vector<Class> classes;
  std::vector<int32_t> class_of;  // per table
  std::vector<int32_t> code_of;
  uint64_t row_bytes = 0;
  uint64_t directory_bytes = 0;
  uint64_t place_bytes = 0;  // what shards note about places, on the heap

  uint64_t bytes() const { return row_bytes + directory_bytes + place_bytes; }
};

/// budget: bytes of rows, directories and notes about places. shards: at most this many per class, fewer
/// where a shard would have less than 4096 places. reserved: rows before place 0 of every class, which the
/// tier itself never uses. kOutOfMemory, with numbers, when a class would not get a single place.
Result<ArenaPlan> plan_arena(const std::vector<TierTable>& tables, uint64_t budget, int32_t shards,
                             int32_t reserved = 0);

/// Are tables of the same numbers and strides together in each?
bool same_classes(const ArenaPlan& a, const ArenaPlan& b);

class Arena {
 public:
  /// for_rows: where the rows' block comes from; hooks: the directories'.
  static Result<Arena> make(const ArenaPlan& plan, const MemoryHooks& for_rows, const MemoryHooks& hooks);
  Arena() = default;

  std::byte* row(int32_t size_class, int32_t place) const {
    const auto& c = plan_.classes[static_cast<size_t>(size_class)];
    return rows_.data() + static_cast<int64_t>(c.row_offset) + place * c.stride;
  }
  int32_t default_place(int32_t table) const {
    const auto t = static_cast<size_t>(table);
    return static_cast<int32_t>(plan_.classes[static_cast<size_t>(plan_.class_of[t])].places()) +
           plan_.code_of[t] - 1;
  }
  void* directory(int32_t size_class) const {
    return directories_.data() + plan_.classes[static_cast<size_t>(size_class)].directory_offset;
  }
  const ArenaPlan& plan() const { return plan_; }

 private:
  ArenaPlan plan_;
  Block rows_;
  Block directories_;
};

}  // namespace dpi::tiered
