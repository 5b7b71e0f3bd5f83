// Where the row of a key is: all that the engine asks of a key set while a request is resolved. The resident
// answer is a frozen index (resident_keys.hpp); a store of several tiers answers with the places that it has
// brought the rows to.
#pragma once

#include <cstdint>
#include <span>

namespace dpi {

/// One key on its way to a row number. Nothing is set at first: calls without keys make room for many.
struct KeyLookup {
  int64_t key;
  uint64_t at;      // of the implementation, while find runs
  int32_t key_set;  // of the bundle
  int32_t row;      // set by find; -1 = absent
};

class KeyPlaces {
 public:
  virtual ~KeyPlaces() = default;
  /// Many at once, so that memory is waited for once and not once per key; of any key sets. From any number
  /// of threads at once; allocates nothing and takes no lock.
  virtual void find(std::span<KeyLookup> lookups) const noexcept = 0;
  /// Memory that is its own.
  virtual uint64_t bytes() const { return 0; }
};

}  // namespace dpi
