// Symbol-table groups: a local heap with the names of the members, a B-tree, and symbol table nodes below it.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/hdf5/file.hpp"

namespace dpi::hdf5 {

constexpr size_t kMaxLinks = 1'100'000;  // of one group: extents, and data sets without elements

struct Link {
  std::string name;      // of the form that FORMAT.md part 2 gives
  uint64_t address = 0;  // of the member's object header
};

/// The members of the group whose object header is at `address`, by rising name, each name once. `path` is ""
/// for the root.
Result<std::vector<Link>> read_group(File& file, const std::string& path, uint64_t address);

}  // namespace dpi::hdf5
