// Maps RocksDB's errors to this project's codes, with the place and what to do.
#pragma once

#include <rocksdb/status.h>

#include <string>

#include "base/status.hpp"

namespace dpi::rocks {

/// place: "/srv/rows", "/srv/rows: table 'users'".
Status told(const rocksdb::Status& s, const std::string& place, Code damaged = Code::kBadModel);

}  // namespace dpi::rocks
