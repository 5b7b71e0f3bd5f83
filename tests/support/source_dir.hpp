/// Where a test program finds the project's files: DPI_TEST_ROOT in the environment, for programs that run
/// beside a copy of their data on another machine (tests/gpu/pack.sh), else the tree they were built from.
#pragma once

#include <string>

namespace dpi::test {

std::string source_dir();

}  // namespace dpi::test
