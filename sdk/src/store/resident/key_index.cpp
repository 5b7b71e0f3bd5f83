#include "store/resident/key_index.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "base/huge_page.hpp"

namespace dpi {

/// Three quarters of five keys each.
uint64_t KeyIndex::bucket_count(int64_t n) {
  constexpr uint64_t kOfFull = 4, kFull = 3 * kKeys;  // n <= count * 5 * 3/4
  return (static_cast<uint64_t>(n) * kOfFull + kFull - 1) / kFull;
}

uint64_t KeyIndex::bytes_of(int64_t n) { return bucket_count(n) * sizeof(Bucket); }

Result<KeyIndex> KeyIndex::create(int64_t n) {
  KeyIndex index;
  const uint64_t count = bucket_count(n);
  if (count == 0) return index;
  const size_t bytes = count * sizeof(Bucket);
  const size_t alignment = bytes >= kHugePage ? kHugePage : sizeof(Bucket);
  const bool mapped = bytes >= kMappedFrom;
  void* p = nullptr;
  if (mapped)
    p = map_memory(bytes, alignment);
  else if (::posix_memalign(&p, alignment, bytes) != 0)
    p = nullptr;
  if (p == nullptr)
    return Status(Code::kOutOfMemory, "no memory for the index of " + std::to_string(n) + " keys");
  // Lookups touch pages at random: large ones spare most of the address translation (advice: may be refused).
  if (bytes >= kHugePage) ::madvise(p, bytes, MADV_HUGEPAGE);
  index.buckets_ = {static_cast<Bucket*>(p), Free{mapped ? bytes : 0}};
  index.count_ = count;
  index.seed_ = random_seed();
  for (uint64_t b = 0; b < count; ++b) {
    index.buckets_[b] = Bucket{};
    std::fill_n(index.buckets_[b].rows, kKeys, -1);
  }
  return index;
}

void KeyIndex::add(int64_t first, std::span<const int64_t> keys) {
  constexpr size_t kAhead = 16;
  for (size_t k = 0; k < keys.size(); ++k) {
    if (k + kAhead < keys.size()) place(keys[k + kAhead]);
    uint64_t at = bucket_of(keys[k]);
    while (buckets_[at].rows[kKeys - 1] >= 0) {
      buckets_[at].went_on = 1;
      at = at + 1 == count_ ? 0 : at + 1;
    }
    Bucket& b = buckets_[at];
    const auto slot = static_cast<size_t>(std::find(b.rows, b.rows + kKeys, -1) - b.rows);
    b.keys[slot] = keys[k];
    b.rows[slot] = static_cast<int32_t>(first + static_cast<int64_t>(k));
  }
}

}  // namespace dpi
