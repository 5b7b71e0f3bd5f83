// A bundle's bytes without its data, as a delta carries them: the user block, and what lies outside extents
// with its long runs of zeros left out. Offsets are those of the bundle's file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

class ResultImage final : public ByteSource {
 public:
  /// block: the user block's bytes as far as they are not zeros at its end. runs: (place, length) of `bytes`
  /// in the metadata, by rising place; the rest is zeros.
  static Result<std::unique_ptr<ResultImage>> create(std::vector<uint8_t> block,
                                                     const std::vector<uint64_t>& runs,
                                                     const std::vector<uint8_t>& bytes);

  const UserBlock& user_block() const { return block_; }
  /// Reads bytes that are not data; elsewhere kInternal.
  Status read(uint64_t offset, void* dst, size_t n) override;
  bool stays() const override { return true; }

 private:
  Status fill(const std::vector<uint64_t>& runs, const std::vector<uint8_t>& bytes);

  UserBlock block_;
  std::vector<std::byte> metadata_;    // all of it
  std::vector<uint64_t> data_before_;  // by extent: bytes of those before it
};

}  // namespace dpi
