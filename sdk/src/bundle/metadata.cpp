#include "bundle/metadata.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "bundle/data_digest.hpp"

namespace dpi {
namespace {

/// The user block as the digest of the other bytes covers it: its own field read as zeros.
void hash_user_block(DataDigest* digest, const UserBlock& block) {
  std::vector<std::byte> bytes = block.raw;
  std::fill(bytes.begin() + UserBlockForm::kDigest, bytes.begin() + UserBlockForm::kDigest + 8, std::byte{0});
  digest->add(bytes);
  const std::vector<std::byte> zeros(std::min<uint64_t>(block.bytes - bytes.size(), 1u << 16));
  for (uint64_t left = block.bytes - bytes.size(); left > 0;) {
    const uint64_t n = std::min<uint64_t>(left, zeros.size());
    digest->add(std::span(zeros).first(n));
    left -= n;
  }
}

/// A generous limit for the object headers and indexes of so many data sets and the largest manifest.
uint64_t metadata_limit(const UserBlock& block) {
  constexpr uint64_t kFixed = (256u + 64u) << 20;
  constexpr uint64_t kPerExtent = 4096;
  return kFixed + kPerExtent * block.extents.size();
}

}  // namespace

Result<Metadata> Metadata::read(ByteSource& source, const UserBlock& block) {
  if (block.metadata_bytes() > metadata_limit(block)) {
    return bad_model("has " + std::to_string(block.metadata_bytes()) +
                     " bytes outside its extents, at most " + std::to_string(metadata_limit(block)) +
                     " are allowed");
  }
  Metadata out;
  out.bytes_ = std::make_unique_for_overwrite<std::byte[]>(block.metadata_bytes());
  uint64_t place = 0;
  for (uint64_t i = 0, at = block.bytes; i <= block.extents.size(); ++i) {
    const bool last = i == block.extents.size();
    const uint64_t length = (last ? block.file_bytes : block.extents[i].offset) - at;
    if (length > 0) {
      DPI_RETURN_IF_ERROR(source.read(at, out.bytes_.get() + place, length));
      out.runs_.push_back({at, place, length});
      place += length;
    }
    if (!last) at = block.extents[i].offset + block.extents[i].length;
  }
  out.size_ = place;
  DPI_ASSIGN_OR_RETURN(const uint64_t found, out.digest(block));
  if (found == block.digest) return out;
  return bad_model("is damaged: the digest of its metadata is " + hex_text(found) + ", its user block says " +
                   hex_text(block.digest));
}

Result<uint64_t> Metadata::digest(const UserBlock& block) const {
  DataDigest digest;
  hash_user_block(&digest, block);
  digest.add(std::span(bytes_.get(), size_));
  return digest.value();
}

Status Metadata::check_hash(const UserBlock& block) const {
  DPI_ASSIGN_OR_RETURN(TreeHash hash, TreeHash::create(TreeHash::kMetadata));
  hash.add(std::span(bytes_.get(), size_));
  const ContentHash found = hash.finish();
  if (found == block.metadata_hash) return {};
  return bad_model("its metadata does not match its hash: it is " + hex_bytes(found) +
                   ", its user block says " + hex_bytes(block.metadata_hash));
}

std::optional<std::span<const std::byte>> Metadata::find(uint64_t offset, uint64_t n) const {
  auto run = std::upper_bound(runs_.begin(), runs_.end(), offset,
                              [](uint64_t at, const Run& r) { return at < r.offset; });
  if (run == runs_.begin()) return std::nullopt;
  --run;
  const uint64_t skip = offset - run->offset;
  if (skip > run->length || n > run->length - skip) return std::nullopt;
  return std::span<const std::byte>(bytes_.get() + run->place + skip, n);
}

}  // namespace dpi
