#include "bundle/delta/result_image.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace dpi {
namespace {

// A delta of a few bytes must not ask for much memory: zeros may be left out as far as HDF5's library leaves
// gaps before data sets, and once more what is there.
constexpr uint64_t kZerosPerExtent = 8192, kZerosAnyway = 128 << 10;

/// A user block with the zeros at its end, and a size that its file has not.
class BlockBytes final : public ByteSource {
 public:
  BlockBytes(std::span<const uint8_t> bytes, uint64_t file_bytes) : bytes_(bytes) { size_ = file_bytes; }
  Status read(uint64_t offset, void* dst, size_t n) override {
    std::memset(dst, 0, n);
    if (offset < bytes_.size())
      std::memcpy(dst, bytes_.data() + offset, std::min<uint64_t>(n, bytes_.size() - offset));
    return {};
  }

 private:
  std::span<const uint8_t> bytes_;
};

Status at_runs(size_t i, const std::string& text) {
  return bad_model("/new/runs: run " + std::to_string(i) + " " + text);
}

}  // namespace

Result<std::unique_ptr<ResultImage>> ResultImage::create(std::vector<uint8_t> block,
                                                         const std::vector<uint64_t>& runs,
                                                         const std::vector<uint8_t>& bytes) {
  constexpr size_t kBytes = 16, kFileBytes = 24, kLeast = 1024;
  if (block.size() < UserBlockForm::kExtents)
    return bad_model("/new/block: " + std::to_string(block.size()) + " bytes are too few for a user block");
  uint64_t file_bytes = 0, block_bytes = 0;
  std::memcpy(&file_bytes, block.data() + kFileBytes, sizeof file_bytes);
  std::memcpy(&block_bytes, block.data() + kBytes, sizeof block_bytes);
  if (block_bytes > std::max(kLeast, 2 * block.size()))
    return bad_model("/new/block: says that it has " + std::to_string(block_bytes) + " bytes, of which " +
                     std::to_string(block.size()) + " are used");
  BlockBytes source(block, file_bytes);
  auto read = read_user_block(source);
  if (!read.ok()) return std::move(read).status().within("/new/block");
  std::unique_ptr<ResultImage> image(new ResultImage);
  image->block_ = std::move(read).value();
  if (image->block_.raw.size() != block.size())
    return bad_model("/new/block: " + std::to_string(block.size()) + " bytes, expected " +
                     std::to_string(image->block_.raw.size()) + " of " +
                     std::to_string(image->block_.extents.size()) + " extents");
  image->size_ = file_bytes;
  uint64_t data = 0;
  for (const Extent& e : image->block_.extents) {
    image->data_before_.push_back(data);
    data += e.length;
  }
  DPI_RETURN_IF_ERROR(image->fill(runs, bytes));
  return image;
}

Status ResultImage::fill(const std::vector<uint64_t>& runs, const std::vector<uint8_t>& bytes) {
  const uint64_t all = block_.metadata_bytes();
  const uint64_t most = 2 * bytes.size() + kZerosAnyway + kZerosPerExtent * block_.extents.size();
  if (all > most)
    return bad_model("/new/metadata: " + std::to_string(bytes.size()) + " bytes stand for " +
                     std::to_string(all) + ", at most " + std::to_string(most) + " are allowed");
  if (runs.size() % 2 != 0) return bad_model("/new/runs: expected pairs");
  metadata_.resize(all);
  uint64_t end = 0, used = 0;
  for (size_t i = 0; i < runs.size(); i += 2) {
    const uint64_t at = runs[i], n = runs[i + 1];
    if (n == 0 || at < end || at > all || n > all - at) return at_runs(i / 2, "is empty, or not in order");
    if (n > bytes.size() - used) return at_runs(i / 2, "has more bytes than /new/metadata");
    std::memcpy(metadata_.data() + at, bytes.data() + used, n);
    used += n;
    end = at + n;
  }
  if (used == bytes.size()) return {};
  return bad_model("/new/metadata: " + std::to_string(bytes.size()) + " bytes, /new/runs places " +
                   std::to_string(used));
}

Status ResultImage::read(uint64_t offset, void* dst, size_t n) {
  auto* to = static_cast<std::byte*>(dst);
  if (offset < block_.bytes) {
    const size_t part = std::min<uint64_t>(n, block_.bytes - offset);
    std::memset(to, 0, part);
    if (offset < block_.raw.size())
      std::memcpy(to, block_.raw.data() + offset, std::min<uint64_t>(part, block_.raw.size() - offset));
    offset += part;
    to += part;
    n -= part;
  }
  if (n == 0) return {};
  const auto& list = block_.extents;
  const auto next = std::upper_bound(list.begin(), list.end(), offset,
                                     [](uint64_t at, const Extent& e) { return at < e.offset; });
  uint64_t place = offset - block_.bytes;  // in the metadata: without the extents before
  if (next != list.begin()) {
    const Extent& last = *(next - 1);
    if (offset < last.offset + last.length) return internal_error("data is not in a delta's image");
    place -= data_before_[static_cast<size_t>(next - list.begin()) - 1] + last.length;
  }
  if ((next != list.end() && offset + n > next->offset) || place > metadata_.size() ||
      n > metadata_.size() - place)
    return internal_error("data is not in a delta's image");
  std::memcpy(to, metadata_.data() + place, n);
  return {};
}

}  // namespace dpi
