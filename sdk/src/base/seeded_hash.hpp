// A hash of integers with a seed of this process: who writes a bundle cannot choose keys that meet in one
// place.
#pragma once

#include <sys/random.h>

#include <bit>
#include <chrono>
#include <cstdint>

namespace dpi {

inline uint64_t random_seed() {
  uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed) return seed;
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
         reinterpret_cast<uintptr_t>(&seed);
}

inline uint64_t seeded_hash(int64_t key, uint64_t seed) {
  auto x = static_cast<uint64_t>(key) ^ seed;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull + std::rotl(seed, 32);
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace dpi
