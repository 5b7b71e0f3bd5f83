// Where the keys that a delta names stand in the base's key set and in the new one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/delta.hpp"

namespace dpi {

struct MovedKeys {
  std::vector<int64_t> gone;              // rows of the base
  std::vector<int64_t> added;             // rows of the new one
  std::vector<std::vector<int64_t>> set;  // by list that was asked for: rows of the new one
};

/// One pass over the base's keys. `set`: lists of keys that must be in the new set. kBadModel names a key
/// that is not where it must be. Texts begin with the place in the delta.
Result<MovedKeys> find_moved_keys(Bundle& base, size_t key_set, const KeySetDelta& change,
                                  const std::vector<const TableDelta*>& set);

}  // namespace dpi
