// A frozen map from 64-bit keys to the rows 0, 1 .. of a table, built once while a model loads.
//
// Buckets of one cache line with five keys and their rows; a key that finds its bucket full goes to the next
// one with room, and each bucket on the way remembers that some went on, so that most absent keys cost one
// line too. At most three quarters full: 17.1 bytes a key. The bucket follows from a hash with a seed of this
// process (seeded_hash.hpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/mapped_memory.hpp"
#include "base/prefetch.hpp"
#include "base/seeded_hash.hpp"
#include "base/status.hpp"

namespace dpi {

class KeyIndex {
 public:
  KeyIndex() = default;  // of no keys
  /// Room for n keys, 0 .. 2^31-3. kOutOfMemory when there is none.
  static Result<KeyIndex> create(int64_t n);
  /// Bytes that create(n) takes.
  static uint64_t bytes_of(int64_t n);

  /// Keys of the rows first, first + 1 ..; each key once over all calls, at most n together.
  void add(int64_t first, std::span<const int64_t> keys);

  /// Where a key would be; brings its line on the way.
  uint64_t place(int64_t key) const noexcept {
    const uint64_t at = bucket_of(key);
    prefetch_line(buckets_.get() + at);
    return at;
  }
  /// The row of the key with this place, -1 when it is absent. Only with at least one bucket.
  int32_t find(int64_t key, uint64_t place) const noexcept {
    for (;;) {
      const Bucket& b = buckets_[place];
      // One bit per key that is equal, all compared without a branch: which of five it is nobody can predict.
      // Free places are behind the keys, so what a free one holds is found only where no key is.
      uint32_t equal = 0;
      for (uint32_t i = 0; i < kKeys; ++i) equal |= static_cast<uint32_t>(b.keys[i] == key) << i;
      if (equal != 0) {
        const int32_t row = b.rows[std::countr_zero(equal)];
        if (row >= 0 || b.went_on == 0) return row;
      } else if (b.went_on == 0) {
        return -1;
      }
      place = place + 1 == count_ ? 0 : place + 1;
    }
  }
  /// The row of a key, -1 when it is absent.
  int32_t find(int64_t key) const noexcept { return count_ == 0 ? -1 : find(key, bucket_of(key)); }
  bool empty() const noexcept { return count_ == 0; }
  uint64_t bytes() const noexcept { return count_ * sizeof(Bucket); }

 private:
  static constexpr uint32_t kKeys = 5;
  struct alignas(64) Bucket {
    int64_t keys[kKeys];
    int32_t rows[kKeys];  // -1 = free; those in use come first
    int32_t went_on;      // 1: a key of this bucket or of one before it is in a later one
  };
  static_assert(sizeof(Bucket) == 64);
  struct Free {
    Free() : mapped(0) {}
    explicit Free(size_t bytes) : mapped(bytes) {}
    size_t mapped;  // bytes from the kernel, 0 = from malloc
    void operator()(Bucket* p) const { mapped != 0 ? unmap_memory(p, mapped) : std::free(p); }
  };

  static uint64_t bucket_count(int64_t n);
  uint64_t bucket_of(int64_t key) const noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(seeded_hash(key, seed_)) * count_) >> 64);
  }

  std::unique_ptr<Bucket[], Free> buckets_;
  uint64_t count_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace dpi
