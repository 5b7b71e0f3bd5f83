// Where the time of one call goes, stage by stage. Only calls that are timed have one: one in sixteen, or all
// with option slow_us. Of a call that threads share it tells the time of the calling thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.hpp"

namespace dpi {

enum class Stage : size_t {
  kResolve,  // ids under the schema's rules, packed
  kFetch,    // rows of the host tier found, or waited for
  kLookup,   // ops that read tables; on a device part of kCompute
  kCompute,  // the other ops; on a device from the first copy to the end of the last op
  kCopy,     // scores to the caller's memory, where they are computed elsewhere
};

class StageTimes {
 public:
  static constexpr size_t kStages = 5;
  static const char* name(size_t stage) {
    static constexpr const char* kNames[kStages] = {"resolve", "fetch", "lookup", "compute", "copy"};
    return kNames[stage];
  }

  StageTimes() {}  // a call that is not timed leaves it as it is
  /// Before all else: what comes next belongs to the stage that the next mark() names.
  void start() {
    ns_.fill(0);
    last_ = monotonic_ns();
  }
  /// The time since start() or the last mark() was spent in `stage`.
  void mark(Stage stage) {
    const uint64_t now = monotonic_ns();
    ns_[static_cast<size_t>(stage)] += now - last_;
    last_ = now;
  }
  /// More time in `stage`, which was measured elsewhere.
  void add(Stage stage, uint64_t ns) { ns_[static_cast<size_t>(stage)] += ns; }
  uint64_t ns(size_t stage) const { return ns_[stage]; }

 private:
  uint64_t last_;
  std::array<uint64_t, kStages> ns_;
};

}  // namespace dpi
