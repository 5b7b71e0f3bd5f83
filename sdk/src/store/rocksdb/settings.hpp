// Settings of a RocksDB store, by key and value as text.
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
