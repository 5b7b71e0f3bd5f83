// The one file that is compiled with the tree's own path: a copy of the tree elsewhere finds every other
// object of the tests in the compiler cache.
#include "support/source_dir.hpp"

#include <cstdlib>

namespace dpi::test {

std::string source_dir() {
  const char* root = std::getenv("DPI_TEST_ROOT");
  return root != nullptr && *root != '\0' ? root : DPI_TEST_SOURCE_DIR;
}

}  // namespace dpi::test
