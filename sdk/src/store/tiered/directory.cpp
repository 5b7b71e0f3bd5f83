#include "store/tiered/directory.hpp"

#include <algorithm>
#include <bit>

namespace dpi::tiered {

std::optional<DirectoryShape> directory_shape(int32_t shards, int32_t places_per_shard, int32_t remembered,
                                              int64_t tables, uint64_t seed) {
  DirectoryShape s;
  s.shards = shards;
  s.places_per_shard = places_per_shard;
  s.place_bits = std::bit_width(static_cast<uint32_t>(places_per_shard));
  s.seed = seed;
  const int64_t entries = std::max<int64_t>(1, int64_t{places_per_shard} + remembered);
  s.buckets_per_shard = (entries * 4 + 14) / 15;  // entries / (5 * 0.75)
  if (s.place_bits > 30 || tables >= int64_t{1} << (32 - s.place_bits)) return std::nullopt;
  return s;
}

}  // namespace dpi::tiered
