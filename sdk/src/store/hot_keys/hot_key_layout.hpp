// The bytes of a hot-key list, as weights/HOT_KEYS.md states them: a head, an entry for each table, then keys
// with their counts. For its reader and its writer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "store/hot_keys/hot_keys.hpp"

namespace dpi::hot_key_layout {

static_assert(std::endian::native == std::endian::little && sizeof(HotKey) == 16);

constexpr char kMagic[8] = {'D', 'P', 'I', 'H', 'O', 'T', 'K', '\0'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kMostTables = 65536;
constexpr size_t kMostName = 200;

constexpr uint32_t kRawKeys = 1;  // of an entry

struct Head {
  char magic[8];
  uint32_t version, tables;
  uint64_t length, digest;
};
static_assert(sizeof(Head) == 32);

struct Entry {
  uint64_t rows, n, offset, lookups;
  std::byte content[32], keys[32];
  uint32_t name_bytes;
  char name[kMostName];
  uint32_t flags;  // 0 or kRawKeys
};
static_assert(sizeof(Entry) == 304);

}  // namespace dpi::hot_key_layout
