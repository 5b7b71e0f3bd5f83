// Bundles as bytes, for tests that damage them: reading a file, and writing the digests anew so that the
// damage gets past them.
#pragma once

#include <doctest/doctest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bundle/bundle.hpp"
#include "support/source_dir.hpp"

namespace dpi::test {

using Bytes = std::vector<unsigned char>;

inline std::string small_path() { return source_dir() + "/tests/bundle/data/small.h5"; }

inline Bytes read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline uint64_t get_u64(const Bytes& b, size_t at) {
  uint64_t v = 0;
  std::memcpy(&v, b.data() + at, sizeof v);
  return v;
}

inline void put_u64(Bytes* b, size_t at, uint64_t v) { std::memcpy(b->data() + at, &v, sizeof v); }

// Places of the user block (FORMAT.md part 1).
constexpr size_t kExtentList = 768, kExtentEntry = 56;

/// Extents as the user block lists them.
inline std::vector<Extent> extents_of(const Bytes& b) {
  std::vector<Extent> out;
  for (uint64_t i = 0; i < get_u64(b, 32); ++i) {
    const size_t at = kExtentList + kExtentEntry * i;
    out.push_back({get_u64(b, at), get_u64(b, at + 8), get_u64(b, at + 16)});
    std::memcpy(out.back().hash.data(), b.data() + at + 24, out.back().hash.size());
  }
  return out;
}

/// Is byte `at` of the file metadata: neither user block nor inside an extent?
inline bool is_metadata(const Bytes& b, const std::vector<Extent>& extents, size_t at) {
  if (at < get_u64(b, 16)) return false;
  return std::none_of(extents.begin(), extents.end(),
                      [&](const Extent& e) { return at >= e.offset && at < e.offset + e.length; });
}

/// Writes the digest of the other bytes anew; hashes stay as they are. The user block must be sound enough to
/// be walked.
inline void reseal(Bytes* b) {
  Bytes block(b->begin(), b->begin() + static_cast<ptrdiff_t>(get_u64(*b, 16)));
  std::fill(block.begin() + 40, block.begin() + 48, 0);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  XXH3_64bits_update(state.get(), block.data(), block.size());
  size_t at = block.size();
  for (const Extent& e : extents_of(*b)) {
    XXH3_64bits_update(state.get(), b->data() + at, e.offset - at);
    at = e.offset + e.length;
  }
  XXH3_64bits_update(state.get(), b->data() + at, b->size() - at);
  put_u64(b, 40, XXH3_64bits_digest(state.get()));
}

inline Result<std::unique_ptr<Bundle>> open_bytes(const Bytes& b) {
  return Bundle::open_memory(std::as_bytes(std::span(b.data(), b.size())));
}

/// Reads everything that can be read; only crashes and sanitizer reports count.
inline void read_all(Bundle& bundle) {
  for (size_t t = 0; t < bundle.manifest().tables.size(); ++t) {
    (void)bundle.read_table(t, [](int64_t, int64_t, std::span<const std::byte>) { return Status(); });
    std::vector<float> scale;
    if (!bundle.manifest().tables[t].scale.empty()) (void)bundle.read_table_scale(t, &scale);
  }
  (void)bundle.read_golden();
  (void)bundle.read_golden_raw();
  (void)bundle.verify_all({});
}

}  // namespace dpi::test
