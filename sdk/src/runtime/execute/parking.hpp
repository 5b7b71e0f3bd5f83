// Parks a call of the model's pool while it waits for rows: from the first of its threads that waits until
// the last one has its rows. Threads of it that do not wait go on meanwhile. On the caller's stack.
#pragma once

#include <mutex>

#include "runtime/execute/context_pool.hpp"
#include "store/row_wait.hpp"

namespace dpi {

class Parking final : public RowWait {
 public:
  Parking(ContextPool::Lease& lease, const RunControl& control) : lease_(lease), control_(control) {}

  Status begin() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lease_.has_place()) DPI_RETURN_IF_ERROR(lease_.park());
    ++waiting_;
    return {};
  }
  Status end(bool go_on) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--waiting_ > 0 || !go_on || lease_.has_place()) return {};
    return lease_.unpark(control_);
  }

 private:
  ContextPool::Lease& lease_;
  const RunControl& control_;
  std::mutex mutex_;
  int32_t waiting_ = 0;  // threads
};

}  // namespace dpi
