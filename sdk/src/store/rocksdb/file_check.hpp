// RocksDB 7.8 reads the block of a file's properties before it looks at the block's checksum, and builds with
// assertions (Debian's) end the process over a damaged one. So that block is checked before RocksDB sees it;
// all others it checks itself.
#pragma once

#include <string>

#include "base/status.hpp"

namespace dpi::rocks {

/// Looks at every table file of a directory. A file whose end is not that of a whole one is passed over:
/// either RocksDB names it, or it is what a killed loader left and nobody reads.
Status check_files(const std::string& directory);

}  // namespace dpi::rocks
