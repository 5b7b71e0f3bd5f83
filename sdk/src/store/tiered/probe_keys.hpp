// The two loops of a probe over keys of one table: hash them all, then look into their first buckets.
// Compiled for several instruction sets; the best one is chosen when the library is loaded. The second does
// not branch on what it finds: whether a key lies in its first bucket cannot be predicted.
#pragma once

#include <cstdint>

#include "store/tiered/directory.hpp"

namespace dpi::tiered {

struct ProbeKeys {
  using Bucket = Directory::Bucket;
  /// hash[i], and the bucket that first_of(hash[i]) names.
  void (*hash)(const Directory& d, const TableCode& t, const int64_t* keys, int32_t n, uint64_t* hash,
               const Bucket** bucket) = nullptr;
  /// places[i]: as find_first, or kMissing though the key is there: ask find. Inside an epoch. ahead[i]:
  /// asked of memory beside.
  void (*look)(const Directory& d, const TableCode& t, const int64_t* keys, const uint64_t* hash,
               const Bucket* const* bucket, int32_t n, const Bucket* const* ahead, int32_t* places) = nullptr;
};

/// The form for this machine.
const ProbeKeys& probe_keys();
/// 0 = scalar, 1 = AVX2, 2 = AVX-512; false: not of this machine or build.
bool probe_keys_form(int form, ProbeKeys* out);

}  // namespace dpi::tiered
