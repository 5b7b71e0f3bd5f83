// What may be set of a RocksDB store, by key and value as text.
//
//   path         the directory; made when a table is loaded, its parent must be there
//   reads        mmap (the default): rows are read where the page cache has them, the fastest while the
//                tables are in memory. Here a file that is cut, or a disk that fails, under way ends the
//                process (SIGBUS). pread: through cache_bytes of blocks, then the page cache; there it is an
//                error. direct: through cache_bytes of blocks, then the disk, past the page cache
//   cache_bytes  of blocks of 4 KB, for pread and direct; 64 MiB
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"

namespace dpi::rocks {

enum class Reads { kMmap, kPread, kDirect };

struct Settings {
  std::string path;
  Reads reads = Reads::kMmap;
  uint64_t cache_bytes = uint64_t{64} << 20;
};

inline constexpr const char* kSettings = "path, reads, cache_bytes";

/// kInvalidArgument names the setting and what it may be.
Result<Settings> read_settings(const dpi_store_options& options);

}  // namespace dpi::rocks
