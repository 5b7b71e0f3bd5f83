#include "sdk/tools/dpi/commands/key_counter.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace dpi::tool {

namespace {

constexpr size_t kLeastCells = 1024;

/// splitmix64's last step: row numbers that lie side by side are far from each other.
size_t mix(int64_t key) {
  auto h = static_cast<uint64_t>(key);
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

bool is_empty(const HotKey& k) { return k.count == 0; }

}  // namespace

// 24 bytes a cell: the cells, and beside them for a moment half as many, smaller ones or those that stay.
KeyCounter::KeyCounter(uint64_t most_bytes)
    : cells_(kLeastCells),
      most_cells_(std::max<size_t>(kLeastCells, std::bit_floor(most_bytes / (sizeof(HotKey) * 3 / 2)))) {}

/// Its cell, or the empty one where it belongs.
HotKey* KeyCounter::find(int64_t key) {
  const size_t mask = cells_.size() - 1;
  size_t at = mix(key) & mask;
  while (cells_[at].count != 0 && cells_[at].key != key) at = (at + 1) & mask;
  return &cells_[at];
}

void KeyCounter::add(int64_t key) {
  ++total_;
  HotKey* cell = find(key);
  if (cell->count++ > 0) return;
  cell->key = key;
  if (++used_ * 4 > cells_.size() * 3) make_room();
}

void KeyCounter::make_room() {
  if (cells_.size() == most_cells_) return shrink();
  std::vector<HotKey> before(cells_.size() * 2);
  cells_.swap(before);
  put_all(before);
}

/// Takes so much from each count that half of the keys go at least.
void KeyCounter::shrink() {
  uint64_t taken = 1;
  const auto gone = [&] {
    return std::count_if(cells_.begin(), cells_.end(),
                         [taken](const HotKey& k) { return k.count != 0 && k.count <= taken; });
  };
  while (static_cast<size_t>(gone()) * 2 < used_) taken *= 2;
  std::vector<HotKey> left;
  left.reserve(used_ - static_cast<size_t>(gone()));
  for (const HotKey& k : cells_) {
    if (k.count > taken) left.push_back({k.key, k.count - taken});
  }
  std::fill(cells_.begin(), cells_.end(), HotKey());
  put_all(left);
  used_ = left.size();
  low_by_ += taken;
}

void KeyCounter::put_all(const std::vector<HotKey>& keys) {
  for (const HotKey& k : keys) {
    if (!is_empty(k)) *find(k.key) = k;
  }
}

std::vector<HotKey> KeyCounter::take() {
  std::erase_if(cells_, is_empty);
  std::sort(cells_.begin(), cells_.end(), hotter);
  return std::move(cells_);
}

}  // namespace dpi::tool
