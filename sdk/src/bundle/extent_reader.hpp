// The bytes of one data set in blocks, compared with what the user block says of them. For the readers of
// bundles and of deltas. Several threads read and hash blocks side by side; digests go from block to block,
// and blocks are handed out in order, on the caller's thread.
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

struct ExtentBlocks {
  size_t bytes = kReadBlockBytes;  // of a block at most
  std::span<std::byte> into{};  // where the data set goes; too short for it: into buffers of the reader's own
};

/// Hands out the data set's bytes in order, block by block, and compares their digest, and where it is asked
/// for their hash, at the end. A caller must not use what it got when this fails. `file` begins texts.
Status read_extent(ByteSource& source, const std::string& file, const DataSetInfo& info,
                   const ExtentCheck& check, const ExtentBlocks& blocks,
                   const std::function<Status(uint64_t at, std::span<const std::byte>)>& fn);

/// Buffers of a block each that read_extent has at most, where it has no room for the whole.
size_t read_buffers(int32_t threads);

}  // namespace dpi
