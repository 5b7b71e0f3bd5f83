/// Where a test program finds the project's files: DPI_TEST_ROOT in the environment, for programs that run
/// beside a copy of their data on another machine (tests/gpu/pack.sh), else the tree they were built from.
#pragma once

#include <cstdlib>
#include <string>

namespace dpi::test {

inline std::string source_dir() {
  const char* root = std::getenv("DPI_TEST_ROOT");
  return root != nullptr && *root != '\0' ? root : DPI_TEST_SOURCE_DIR;
}

}  // namespace dpi::test
