// Keys of a request on their way to row numbers. They are asked for in groups, because a group waits for
// memory about as long as one key does: features of one row come together as well as rows of one feature.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/request/resolve.hpp"
#include "store/key_places.hpp"

namespace dpi {

class KeyGroup {
 public:
  explicit KeyGroup(const KeyPlaces* places) : places_(places) {}
  ~KeyGroup() { flush(); }
  KeyGroup(const KeyGroup&) = delete;
  KeyGroup& operator=(const KeyGroup&) = delete;

  /// `row` and what was absent are written before this object is gone.
  void add(const ResolveSchema::KeyRules& rules, int64_t key, int32_t* row, FeatureCounters* counters) {
    if (n_ == kMost) flush();
    lookups_[n_].key = key;
    lookups_[n_].key_set = rules.key_set;
    targets_[n_] = {row, counters, rules.absent_row};
    ++n_;
  }

 private:
  static constexpr size_t kMost = 64;
  struct Target {
    int32_t* row;
    FeatureCounters* counters;
    int32_t absent_row;
  };

  void flush() {
    if (n_ == 0) return;
    places_->find({lookups_, n_});
    for (size_t i = 0; i < n_; ++i) {
      const bool absent = lookups_[i].row < 0;
      *targets_[i].row = absent ? targets_[i].absent_row : lookups_[i].row;
      if (absent) ++targets_[i].counters->absent;
    }
    n_ = 0;
  }

  const KeyPlaces* places_;
  size_t n_ = 0;
  KeyLookup lookups_[kMost];
  Target targets_[kMost];
};

}  // namespace dpi
