// Key sets whose indexes lie in host memory, whatever device holds the rows.
#pragma once

#include <utility>
#include <vector>

#include "store/resident/key_index.hpp"
#include "store/resident/key_places.hpp"

namespace dpi {

class ResidentKeys final : public KeyPlaces {
 public:
  /// One index per key set of the bundle; an empty one holds no keys.
  explicit ResidentKeys(std::vector<KeyIndex> indexes) : indexes_(std::move(indexes)) {}

  void find(std::span<KeyLookup> lookups) const noexcept override {
    for (KeyLookup& l : lookups) {
      const KeyIndex& index = indexes_[static_cast<size_t>(l.key_set)];
      if (!index.empty()) l.at = index.place(l.key);
    }
    for (KeyLookup& l : lookups) {
      const KeyIndex& index = indexes_[static_cast<size_t>(l.key_set)];
      l.row = index.empty() ? -1 : index.find(l.key, l.at);
    }
  }
  uint64_t bytes() const override {
    uint64_t n = 0;
    for (const KeyIndex& index : indexes_) n += index.bytes();
    return n;
  }

 private:
  std::vector<KeyIndex> indexes_;
};

}  // namespace dpi
