#include "bundle/extent_reader.hpp"

#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "base/text.hpp"

namespace dpi {

Status read_extent(ByteSource& source, const std::string& file, const DataSetInfo& info,
                   const ExtentCheck& check, size_t block_bytes,
                   const std::function<Status(uint64_t at, std::span<const std::byte>)>& fn) {
  using HashState = std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)>;
  if (info.extent.length == 0) return {};
  const std::string where = file + ":" + info.path;
  const HashState state(XXH3_createState(), XXH3_freeState);
  if (state == nullptr) return {Code::kOutOfMemory, "out of memory"};
  XXH3_64bits_reset(state.get());
  std::optional<TreeHash> hash;
  if (check.hashes) {
    DPI_ASSIGN_OR_RETURN(hash, TreeHash::create(TreeHash::kData, check.workers));
  }
  std::vector<std::byte> buffer(static_cast<size_t>(std::min<uint64_t>(block_bytes, info.extent.length)));
  for (uint64_t at = 0; at < info.extent.length;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(buffer.size(), info.extent.length - at));
    Status read = source.read(info.extent.offset + at, buffer.data(), n);
    if (!read.ok()) return std::move(read).within(where);
    XXH3_64bits_update(state.get(), buffer.data(), n);
    if (hash) hash->add(std::span(buffer.data(), n));
    DPI_RETURN_IF_ERROR(fn(at, std::span<const std::byte>(buffer.data(), n)));
    at += n;
  }
  const uint64_t digest = XXH3_64bits_digest(state.get());
  if (digest != info.extent.digest)
    return bad_model(where + ": its data is damaged: digest " + hex_text(digest) + ", the user block says " +
                     hex_text(info.extent.digest));
  const ContentHash found = hash ? hash->finish() : info.extent.hash;
  if (found == info.extent.hash) return {};
  return bad_model(where + ": its data is not what was hashed: " + hex_bytes(found) +
                   ", the user block says " + hex_bytes(info.extent.hash));
}

}  // namespace dpi
