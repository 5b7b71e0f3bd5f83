// A call that has to wait for rows tells its caller, so that others may use meanwhile what the call does not
// need: its place among the running calls, above all. One object per call; where several threads share a call
// out, each tells it.
#pragma once

#include "base/status.hpp"

namespace dpi {

class RowWait {
 public:
  virtual ~RowWait() = default;
  /// The calling thread is about to wait. An error: it may not, and its call fails with it.
  virtual Status begin() = 0;
  /// Once for each begin() that was good. go_on: the rows are here, and the thread works on when this
  /// returns. An error: it may not, and its call fails with it. Nothing can fail without go_on.
  virtual Status end(bool go_on) = 0;
};

}  // namespace dpi
