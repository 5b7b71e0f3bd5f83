// Keys of a request on their way to row numbers. They are asked for in groups, because a group waits for
// memory about as long as one key does: features of one row come together as well as rows of one feature.
// Keys of external sets get numbers, and are written down for whoever asks for their rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/request/resolve.hpp"
#include "store/resident/key_places.hpp"

namespace dpi {

class KeyGroup {
 public:
  /// raw_keys: room for all keys of external sets, of which `there` were written before.
  KeyGroup(const KeyPlaces* places, int64_t* raw_keys, int32_t there = 0)
      : places_(places), raw_keys_(raw_keys), n_raw_(there) {}
  ~KeyGroup() { flush(); }
  KeyGroup(const KeyGroup&) = delete;
  KeyGroup& operator=(const KeyGroup&) = delete;

  /// `row` and what was absent are written before this object is gone.
  void add(const ResolveSchema::KeyRules& rules, int64_t key, int32_t* row, FeatureCounters* counters) {
    if (rules.elsewhere) {
      raw_keys_[n_raw_] = key;
      *row = n_raw_++;
      return;
    }
    if (n_ == kMost) flush();
    lookups_[n_].key = key;
    lookups_[n_].key_set = rules.key_set;
    targets_[n_] = {row, counters, rules.absent_row};
    ++n_;
  }
  int32_t raw_keys() const { return n_raw_; }

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
  int64_t* raw_keys_;
  int32_t n_raw_;
  size_t n_ = 0;
  KeyLookup lookups_[kMost];
  Target targets_[kMost];
};

}  // namespace dpi
