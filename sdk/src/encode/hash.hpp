// Hashes of raw values that training pipelines use.
#pragma once

#include <cstdint>
#include <string_view>

namespace dpi {

uint64_t xxh64(std::string_view bytes, uint64_t seed);

/// MurmurHash3_x86_32 (Austin Appleby, public domain algorithm), as scikit-learn's
/// murmurhash3_32(positive=True) gives it.
uint32_t murmur3_32(std::string_view bytes, uint32_t seed);

}  // namespace dpi
