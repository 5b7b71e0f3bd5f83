// One of the places of a lane for chunks and single requests that run (option batch.running).
#pragma once

#include <utility>

#include "runtime/batch/lane.hpp"

namespace dpi {

class Lane::Place {
 public:
  /// Holds one until destroyed, which `places` has counted.
  explicit Place(WaitWord& places) : places_(&places) {}
  Place(Place&& o) noexcept : places_(std::exchange(o.places_, nullptr)) {}
  Place& operator=(Place&&) = delete;
  ~Place() {
    if (places_ != nullptr) places_->add(~uint32_t{0});
  }

  /// Counts one where fewer than `most` are `taken`, as it was seen.
  static bool take(WaitWord& places, uint32_t taken, uint32_t most) {
    return taken < most && places.change(taken, taken + 1);
  }

 private:
  WaitWord* places_;
};

}  // namespace dpi
