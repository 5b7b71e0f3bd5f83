#include "encode/hash.hpp"

#include <xxhash.h>

#include <bit>
#include <cstring>

namespace dpi {

uint64_t xxh64(std::string_view bytes, uint64_t seed) { return XXH64(bytes.data(), bytes.size(), seed); }

namespace {

uint32_t mix(uint32_t k) { return std::rotl(k * 0xCC9E2D51u, 15) * 0x1B873593u; }

}  // namespace

uint32_t murmur3_32(std::string_view bytes, uint32_t seed) {
  uint32_t h = seed;
  const size_t whole = bytes.size() & ~size_t{3};
  for (size_t i = 0; i < whole; i += 4) {
    uint32_t k = 0;
    std::memcpy(&k, bytes.data() + i, sizeof k);  // little-endian hosts
    h = std::rotl(h ^ mix(k), 13) * 5 + 0xE6546B64u;
  }
  if (bytes.size() > whole) {
    uint32_t k = 0;
    std::memcpy(&k, bytes.data() + whole, bytes.size() - whole);
    h ^= mix(k);
  }
  h ^= static_cast<uint32_t>(bytes.size());
  h = (h ^ (h >> 16)) * 0x85EBCA6Bu;
  h = (h ^ (h >> 13)) * 0xC2B2AE35u;
  return h ^ (h >> 16);
}

}  // namespace dpi
