// Counts how often keys occur, in memory of a fixed size: an open hash table that grows up to its limit. When
// that is full, the same number is taken from every count and keys without any left go; the sum of these
// numbers, low_by(), is the most by which a count is too low. It is at most 4 x total / keys that fit; a key
// that occurs more often is always there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "store/hot_keys/hot_keys.hpp"

namespace dpi::tool {

class KeyCounter {
 public:
  /// most_bytes: what it may take at any moment, 24 KiB at least.
  explicit KeyCounter(uint64_t most_bytes);

  void add(int64_t key);
  uint64_t total() const { return total_; }
  uint64_t low_by() const { return low_by_; }
  size_t keys() const { return used_; }
  /// All that are there, hottest first. Ends the counting.
  std::vector<HotKey> take();

 private:
  HotKey* find(int64_t key);
  void make_room();
  void shrink();
  void put_all(const std::vector<HotKey>& keys);

  std::vector<HotKey> cells_;  // a power of two; count 0 = empty
  size_t most_cells_;
  size_t used_ = 0;
  uint64_t total_ = 0, low_by_ = 0;
};

}  // namespace dpi::tool
