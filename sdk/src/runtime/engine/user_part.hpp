// The part of a plan that depends on the user alone: ops over shared rows, and what of their values the rows
// read. Whoever has these values of a user (user_cache.hpp) need not run the ops.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace dpi {

struct UserPart {
  /// An output of an op that ops over rows read, and its place among the kept values of a user.
  struct Kept {
    int32_t output = 0;  // number of the op's output
    int64_t offset = 0;  // both in bytes
    int64_t bytes = 0;
  };
  struct Op {
    bool of_user = false;  // all that it writes are shared rows
    std::vector<Kept> kept;
  };
  std::vector<Op> ops;  // of the plan; empty where nothing of the user's would be spared
  int64_t bytes = 0;    // kept values of one user

  bool any() const { return !ops.empty(); }
};

/// Empty where no op depends on the user alone.
UserPart user_part(const Plan& plan);

}  // namespace dpi
