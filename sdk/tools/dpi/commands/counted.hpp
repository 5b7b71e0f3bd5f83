// The multiply-adds of a plan, and the share of them that shared rows save.
#pragma once

#include <string>

#include "sdk/tools/dpi/shared/common_flags.hpp"

namespace dpi::tool {

struct CountedWork {
  double item = 0;    // multiply-adds per item row
  double shared = 0;  // per shared row
  /// The gain for `rows` items of `users` users: everything once a row, against shared parts once a user.
  double speedup(int64_t rows, int64_t users) const;
};

/// Counts the bundle's plan under these flags.
CountedWork counted_work(const std::string& bundle, const CommonFlags& flags);

}  // namespace dpi::tool
