// Builds the indexes of a model's key sets while it loads (store/resident/key_index.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/load/load_watch.hpp"
#include "store/resident/key_places.hpp"

namespace dpi {

/// Reads the keys of every set that a feature of the plan names, as part of the watch's stage. Null when
/// there is none.
Result<std::unique_ptr<KeyPlaces>> load_keys(Bundle& bundle, const Plan& plan, LoadWatch* watch);

/// Bytes that load_keys reads, that its indexes keep, and that it takes beside them at most.
struct KeyBytes {
  uint64_t read = 0;
  uint64_t kept = 0;
  uint64_t block = 0;
};
/// threads: that read the bundle.
KeyBytes key_bytes(const Bundle& bundle, const Plan& plan, int32_t threads = 1);

}  // namespace dpi
