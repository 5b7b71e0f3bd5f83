#include "bundle/user_block.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace dpi {
namespace {

constexpr char kMagic[8] = {'D', 'P', 'I', 'B', 'N', 'D', 'L', '\0'};
constexpr unsigned char kHdf5Magic[4] = {0x89, 'H', 'D', 'F'};
constexpr uint64_t kHeaderBytes = 128;
constexpr uint64_t kExtentBytes = 24;
constexpr uint64_t kMaxExtents = 1'000'000;
constexpr uint64_t kMaxUserBlock = 64u << 20;
constexpr uint64_t kFlagSigned = 1;

uint64_t u64_at(const std::byte* p) {
  uint64_t v = 0;
  std::memcpy(&v, p, sizeof v);  // hosts are little-endian (x86-64, aarch64)
  return v;
}

uint32_t u32_at(const std::byte* p) {
  uint32_t v = 0;
  std::memcpy(&v, p, sizeof v);
  return v;
}

bool all_zero(const std::byte* p, size_t n) {
  return std::all_of(p, p + n, [](std::byte b) { return b == std::byte{0}; });
}

Status check_head(const std::byte* head, UserBlock* out, uint64_t file_bytes) {
  if (std::memcmp(head, kMagic, sizeof kMagic) != 0) {
    const bool is_hdf5 = std::memcmp(head, kHdf5Magic, sizeof kHdf5Magic) == 0;
    return bad_model(is_hdf5 ? "is an HDF5 file but not a bundle: it has no bundle user block"
                             : "is not a bundle: it does not start with the bundle magic");
  }
  out->major = u32_at(head + 8);
  out->minor = u32_at(head + 12);
  if (out->major != 1) {
    return unsupported("bundle format " + std::to_string(out->major) + "." + std::to_string(out->minor) +
                       ", this reader knows 1.x");
  }
  out->bytes = u64_at(head + 16);
  out->file_bytes = u64_at(head + 24);
  out->digest = u64_at(head + 40);
  const uint64_t flags = u64_at(head + 48);
  if (out->file_bytes != file_bytes) {
    return bad_model((out->file_bytes > file_bytes ? "is truncated: its user block says "
                                                   : "is too long: its user block says ") +
                     std::to_string(out->file_bytes) + " bytes, there are " + std::to_string(file_bytes));
  }
  const bool power_of_two = (out->bytes & (out->bytes - 1)) == 0;
  if (out->bytes < 512 || !power_of_two || out->bytes > kMaxUserBlock || out->bytes > file_bytes) {
    return bad_model("user block of " + std::to_string(out->bytes) +
                     " bytes, expected a power of two from 512 to 64 MiB inside the file");
  }
  if ((flags & ~kFlagSigned) != 0 || !all_zero(head + 56, 8))
    return bad_model("user block has unknown flags " + hex_text(flags));
  out->is_signed = (flags & kFlagSigned) != 0;
  if (!out->is_signed && !all_zero(head + 64, 64))
    return bad_model("user block has a signature that its flags deny");
  return {};
}

Status parse_extents(const std::vector<std::byte>& block, uint64_t count, UserBlock* out) {
  uint64_t end = out->bytes;
  out->extents.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const std::byte* p = block.data() + kHeaderBytes + kExtentBytes * i;
    const Extent e{u64_at(p), u64_at(p + 8), u64_at(p + 16)};
    if (e.length == 0 || e.offset < end || e.offset > out->file_bytes ||
        e.length > out->file_bytes - e.offset) {
      return bad_model("extent " + std::to_string(i) + " (offset " + std::to_string(e.offset) + ", length " +
                       std::to_string(e.length) +
                       ") is empty, overlaps, is out of order or lies outside the file");
    }
    end = e.offset + e.length;
    out->extents.push_back(e);
  }
  const size_t used = kHeaderBytes + kExtentBytes * count;
  if (!all_zero(block.data() + used, block.size() - used))
    return bad_model("user block has bytes after its extents");
  return {};
}

}  // namespace

uint64_t UserBlock::metadata_bytes() const {
  uint64_t n = file_bytes - bytes;
  for (const Extent& e : extents) n -= e.length;
  return n;
}

Result<UserBlock> read_user_block(ByteSource& source) {
  UserBlock out;
  std::byte head[kHeaderBytes];
  if (source.size() < 512) {
    return bad_model("is not a bundle: " + std::to_string(source.size()) +
                     " bytes are too few for a user block");
  }
  DPI_RETURN_IF_ERROR(source.read(0, head, sizeof head));
  DPI_RETURN_IF_ERROR(check_head(head, &out, source.size()));
  const uint64_t count = u64_at(head + 32);
  if (count > kMaxExtents || kHeaderBytes + kExtentBytes * count > out.bytes) {
    return bad_model("user block of " + std::to_string(out.bytes) + " bytes cannot hold " +
                     std::to_string(count) + " extents (at most 1,000,000)");
  }
  std::vector<std::byte> block(out.bytes);
  DPI_RETURN_IF_ERROR(source.read(0, block.data(), block.size()));
  if (std::memcmp(block.data(), head, sizeof head) != 0)
    return Status(Code::kIo, "changed while it was read");
  DPI_RETURN_IF_ERROR(parse_extents(block, count, &out));
  out.self_digest = XXH3_64bits(block.data(), block.size());
  block.resize(kHeaderBytes + kExtentBytes * count);
  out.raw = std::move(block);
  return out;
}

}  // namespace dpi
