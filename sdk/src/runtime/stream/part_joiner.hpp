// Makes one delta of the messages that carry its parts. Parts of one delta follow one another without
// anything between them; a set that breaks off is given up and told. Holds at most one delta of max_bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "runtime/stream/abi/dpi_stream.h"

namespace dpi::stream {

/// One delta as it came. `bytes` stay until the next message is asked for.
struct Incoming {
  std::span<const std::byte> bytes;
  int64_t offset = 0;         // of its first message
  int64_t next_offset = 0;    // behind its last one
  int64_t timestamp_ms = -1;  // of its last one
};

class PartJoiner {
 public:
  explicit PartJoiner(int64_t max_bytes) : max_bytes_(max_bytes) {}

  /// *whole: `out` is a delta. Else: a part was kept. A failing status says why the message, or what was kept
  /// before it, is none; kUnsupported where it is too long.
  Status take(const dpi_stream_message& m, Incoming* out, bool* whole);
  /// Drops the kept parts: their messages come again.
  void forget();
  /// Offset of the first part of what is kept; -1 = nothing is.
  int64_t begun_at() const { return kept_ > 0 ? first_offset_ : -1; }

 private:
  Status refuse(const dpi_stream_message& m);

  const int64_t max_bytes_;
  std::vector<std::byte> bytes_;
  int32_t kept_ = 0, parts_ = 0;
  int64_t first_offset_ = 0;
};

}  // namespace dpi::stream
