// A door that callers pass without waiting, to something that is replaced now and then: each is inside while
// it looks the current one up and takes hold of it. Who replaces it waits until all that may have seen the
// old one are out, then frees it. No count is shared: a caller claims a line by exchange (base/epochs.hpp),
// and threads settle on lines of their own, as they do on contexts (runtime/execute/context_pool.hpp).
//
//   caller:  Gate::Pass pass(gate);  Thing* t = current.load();  ... take hold of *t ...;  pass.leave();
//   owner:   old = current.exchange(next);  gate.drain();  delete old;
//
// More callers than lines, which is when they wait for something inside, go through a lock and are counted.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/epochs.hpp"
#include "base/status.hpp"

namespace dpi {

class Gate {
 public:
  /// lines: callers that may be inside at once and share nothing.
  static Result<std::unique_ptr<Gate>> make(int32_t lines);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// One caller's stay. Allocates nothing, and takes no lock while a line is free.
  class Pass {
   public:
    explicit Pass(Gate& gate);
    ~Pass() { leave(); }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;
    /// At once; the destructor has nothing to do then.
    void leave() {
      if (line_ != nullptr) {
        gate_.epochs_.leave(*line_);
        line_ = nullptr;
      } else if (side_ >= 0) {
        gate_.leave_crowd(side_);
        side_ = -1;
      }
    }

   private:
    Gate& gate_;
    EpochsT<StdSync>::Line* line_ = nullptr;
    int32_t side_ = -1;  // of the crowd
  };

  /// Returns when all that were inside when it began are out. Whoever enters meanwhile is not waited for.
  void drain();

 private:
  Gate() = default;
  int32_t enter_crowd();
  void leave_crowd(int32_t side);

  EpochsT<StdSync> epochs_;
  std::vector<EpochsT<StdSync>::Line*> lines_;

  alignas(128) std::mutex crowd_mutex_;  // of the next two
  int32_t side_ = 0;                     // that callers join now
  int64_t crowd_[2] = {0, 0};
  std::mutex drain_mutex_;
};

}  // namespace dpi
