// The bytes of one data set in blocks, compared with what the user block says of them. For the readers of
// bundles and of deltas.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"

namespace dpi {

struct ExtentCheck {
  bool hashes = false;  // cryptographic ones too
  HashWorkers workers{};
};

/// Hands out the data set's bytes in order, at most `block_bytes` at once, and compares their digest, and
/// where it is asked for their hash, at the end. A caller must not use what it got when this fails. `file`
/// begins texts.
Status read_extent(ByteSource& source, const std::string& file, const DataSetInfo& info,
                   const ExtentCheck& check, size_t block_bytes,
                   const std::function<Status(uint64_t at, std::span<const std::byte>)>& fn);

}  // namespace dpi
