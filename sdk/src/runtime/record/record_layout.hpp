// The bytes of a record file, as weights/RECORD.md states them: a head, then frames. Little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpi::record_layout {

inline constexpr char kMagic[8] = {'D', 'P', 'I', 'R', 'E', 'C', 'D', '\0'};
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kArrayAlign = 8;
inline constexpr uint64_t kMostPayload = uint64_t{16} << 20;
inline constexpr uint32_t kMostBundles = 65536;

/// Bytes that an array of n bytes takes.
constexpr uint64_t array_bytes(uint64_t n) { return (n + kArrayAlign - 1) / kArrayAlign * kArrayAlign; }

struct FileHead {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  int64_t began_ms;
  uint64_t number;  // of the file, as its recorder counts them from 1
  uint64_t digest;  // XXH3-64 of the bytes before
};
static_assert(sizeof(FileHead) == 40);

enum FrameKind : uint32_t { kBundle = 1, kRequest = 2, kEnd = 3 };

struct FrameHead {
  uint32_t kind;
  uint32_t zero;
  uint64_t length;       // of the payload behind it, a multiple of kArrayAlign
  uint64_t digest;       // XXH3-64 of the payload
  uint64_t head_digest;  // XXH3-64 of the 24 bytes before, seeded with the frame's place in the file
};
static_assert(sizeof(FrameHead) == 32);

struct BundleHead {
  std::byte bundle[32];
  uint64_t number;
  uint64_t schema_digest;  // XXH3-64 of the schema's text
  uint32_t schema_bytes, info_bytes;
};
static_assert(sizeof(BundleHead) == 56);

enum RequestFlags : uint32_t {
  kShared = 1,
  kSlotMajor = 2,
  kOffsets = 4,
  kWeights = 8,
  kSharedOffsets = 16,
  kSharedWeights = 32,
  kKnownFlags = 63
};

struct RequestHead {
  uint32_t bundle;  // the bundle frames of the file are counted from 0
  uint32_t flags;
  int64_t ended_ms;
  uint64_t took_ns;
  int64_t rows, nnz;
  int64_t shared_rows, shared_nnz;
  uint32_t slots, columns;
  uint32_t shared_slots, shared_columns;
  uint32_t heads;
  uint32_t zero;
};
static_assert(sizeof(RequestHead) == 80);

struct EndFrame {
  uint64_t requests;  // in this file
  uint64_t dropped;   // by the recorder so far
};

}  // namespace dpi::record_layout
