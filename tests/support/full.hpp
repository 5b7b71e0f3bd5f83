/// `tests/run.sh --full` runs all sizes; an ordinary run takes those that find the faults that were planted.
#pragma once

#include <cstdlib>
#include <cstring>

namespace dpi::test {

/// Is this the full run (FULL=1 in the environment)?
inline bool full_run() {
  const char* const full = std::getenv("FULL");
  return full != nullptr && std::strcmp(full, "1") == 0;
}

}  // namespace dpi::test
