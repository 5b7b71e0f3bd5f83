#include "bundle/user_block.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace dpi {
namespace {

constexpr char kBundleMagic[8] = {'D', 'P', 'I', 'B', 'N', 'D', 'L', '\0'};
constexpr char kDeltaMagic[8] = {'D', 'P', 'I', 'D', 'E', 'L', 'T', '\0'};
constexpr unsigned char kHdf5Magic[4] = {0x89, 'H', 'D', 'F'};
using Form = UserBlockForm;
constexpr uint32_t kBundleMajor = 2, kDeltaMajor = 1;
constexpr uint64_t kHeaderBytes = Form::kExtents;
constexpr uint64_t kMaxExtents = 1'000'000;
constexpr uint64_t kMaxUserBlock = 64u << 20;

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

bool begins_with(const std::byte* head, const char (&magic)[8]) {
  return std::memcmp(head, magic, sizeof magic) == 0;
}

Status check_magic(const std::byte* head, FileKind kind) {
  const bool delta = kind == FileKind::kDelta;
  if (begins_with(head, delta ? kDeltaMagic : kBundleMagic)) return {};
  if (begins_with(head, kDeltaMagic))
    return bad_model("is a delta, not a bundle: dpi delta applies it to the bundle that it starts from");
  if (begins_with(head, kBundleMagic)) return bad_model("is a bundle, not a delta");
  const std::string what = delta ? "delta" : "bundle";
  const bool is_hdf5 = std::memcmp(head, kHdf5Magic, sizeof kHdf5Magic) == 0;
  return bad_model(is_hdf5 ? "is an HDF5 file but not a " + what + ": it has no " + what + " user block"
                           : "is not a " + what + ": it does not start with the " + what + " magic");
}

Status check_version(const UserBlock& block) {
  const bool delta = block.kind == FileKind::kDelta;
  const uint32_t known = delta ? kDeltaMajor : kBundleMajor;
  if (block.major == known) return {};
  const bool older = !delta && block.major < known;
  return unsupported(std::string(delta ? "delta" : "bundle") + " format " + std::to_string(block.major) +
                     "." + std::to_string(block.minor) + ", this reader knows " + std::to_string(known) +
                     ".x" + (older ? "; write it anew: dpi repack OLD NEW" : ""));
}

Status check_head(const std::byte* head, UserBlock* out, uint64_t file_bytes) {
  DPI_RETURN_IF_ERROR(check_magic(head, out->kind));
  out->major = u32_at(head + 8);
  out->minor = u32_at(head + 12);
  DPI_RETURN_IF_ERROR(check_version(*out));
  out->bytes = u64_at(head + 16);
  out->file_bytes = u64_at(head + 24);
  out->digest = u64_at(head + 40);
  const uint64_t flags = u64_at(head + 48);
  std::memcpy(out->metadata_hash.data(), head + Form::kMetadataHash, sizeof out->metadata_hash);
  if (out->file_bytes != file_bytes) {
    return bad_model((out->file_bytes > file_bytes ? "is truncated: its user block says "
                                                   : "is too long: its user block says ") +
                     std::to_string(out->file_bytes) + " bytes, there are " + std::to_string(file_bytes));
  }
  const bool power_of_two = (out->bytes & (out->bytes - 1)) == 0;
  if (out->bytes < 1024 || !power_of_two || out->bytes > kMaxUserBlock || out->bytes > file_bytes) {
    return bad_model("user block of " + std::to_string(out->bytes) +
                     " bytes, expected a power of two from 1024 to 64 MiB inside the file");
  }
  if (flags != 0) return bad_model("user block has unknown flags " + hex_text(flags));
  for (size_t at = 96; at < 128; ++at) {
    const auto byte = static_cast<unsigned>(head[at]);
    if (byte != 0)
      return bad_model("reserved byte " + std::to_string(at) + " of the user block is " +
                       std::to_string(byte) + ", expected 0");
  }
  return {};
}

/// Reads the signatures. They come first; the unused places behind them are zeros.
Status parse_signatures(const std::byte* head, UserBlock* out) {
  const uint64_t count = u64_at(head + Form::kSignatureCount);
  if (count > Form::kMaxSignatures)
    return bad_model("user block has " + std::to_string(count) + " signatures, at most 8 are allowed");
  const std::byte* at = head + Form::kSignatures;
  for (uint64_t i = 0; i < count; ++i, at += Form::kSignatureBytes) {
    if (all_zero(at, Form::kSignatureBytes))
      return bad_model("user block counts a signature that is not there");
    Signature s;
    std::memcpy(s.key.data(), at, s.key.size());
    std::memcpy(s.bytes.data(), at + s.key.size(), s.bytes.size());
    out->signatures.push_back(s);
  }
  const auto left = static_cast<size_t>(head + kHeaderBytes - at);
  return all_zero(at, left) ? Status() : bad_model("user block has a signature that it does not count");
}

Status parse_extents(const std::vector<std::byte>& block, uint64_t count, UserBlock* out) {
  uint64_t end = out->bytes;
  out->extents.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const std::byte* p = block.data() + kHeaderBytes + Form::kExtentBytes * i;
    Extent e{u64_at(p), u64_at(p + 8), u64_at(p + 16)};
    std::memcpy(e.hash.data(), p + 24, e.hash.size());
    if (e.length == 0 || e.offset < end || e.offset > out->file_bytes ||
        e.length > out->file_bytes - e.offset) {
      return bad_model("extent " + std::to_string(i) + " (offset " + std::to_string(e.offset) + ", length " +
                       std::to_string(e.length) +
                       ") is empty, overlaps, is out of order or lies outside the file");
    }
    end = e.offset + e.length;
    out->extents.push_back(e);
  }
  const size_t used = kHeaderBytes + Form::kExtentBytes * count;
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

std::array<std::byte, 128> UserBlock::signed_head() const {
  std::array<std::byte, 128> out;
  std::copy_n(raw.begin(), out.size(), out.begin());
  std::fill_n(out.begin() + Form::kDigest, 8, std::byte{0});
  std::fill_n(out.begin() + Form::kSignatureCount, 8, std::byte{0});
  return out;
}

Result<FileKind> kind_of(ByteSource& source) {
  std::byte magic[sizeof kDeltaMagic] = {};
  if (source.size() >= sizeof magic) DPI_RETURN_IF_ERROR(source.read(0, magic, sizeof magic));
  return begins_with(magic, kDeltaMagic) ? FileKind::kDelta : FileKind::kBundle;
}

Result<UserBlock> read_user_block(ByteSource& source, FileKind kind) {
  UserBlock out;
  out.kind = kind;
  std::byte head[kHeaderBytes];
  if (source.size() < sizeof head) {
    return bad_model(std::string("is not a ") + (kind == FileKind::kDelta ? "delta: " : "bundle: ") +
                     std::to_string(source.size()) + " bytes are too few for a user block");
  }
  DPI_RETURN_IF_ERROR(source.read(0, head, sizeof head));
  DPI_RETURN_IF_ERROR(check_head(head, &out, source.size()));
  DPI_RETURN_IF_ERROR(parse_signatures(head, &out));
  const uint64_t count = u64_at(head + 32);
  if (count > kMaxExtents || kHeaderBytes + Form::kExtentBytes * count > out.bytes) {
    return bad_model("user block of " + std::to_string(out.bytes) + " bytes cannot hold " +
                     std::to_string(count) + " extents (at most 1,000,000)");
  }
  std::vector<std::byte> block(out.bytes);
  DPI_RETURN_IF_ERROR(source.read(0, block.data(), block.size()));
  if (std::memcmp(block.data(), head, sizeof head) != 0)
    return Status(Code::kIo, "changed while it was read");
  DPI_RETURN_IF_ERROR(parse_extents(block, count, &out));
  out.self_digest = XXH3_64bits(block.data(), block.size());
  block.resize(kHeaderBytes + Form::kExtentBytes * count);
  out.raw = std::move(block);
  return out;
}

}  // namespace dpi
