// Brings table rows to a device while a model loads: two pinned buffers in turn, so that reading and packing
// the next rows goes on while the device takes the last ones. Used by resident_store.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"

namespace dpi {

class RowStream {
 public:
  RowStream(const dpi_backend_api* api, dpi_backend_device* device) : api_(api), device_(device) {}
  ~RowStream() { close(); }
  static constexpr size_t kBufferBytes = size_t{4} << 20;
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  /// n_rows packed rows of row_bytes (at most kBufferBytes) to dst, dst_stride bytes apart. Bytes between the
  /// rows stay.
  Status send(std::byte* dst, size_t dst_stride, const std::byte* rows, size_t row_bytes, int64_t n_rows);
  /// Waits until everything has arrived.
  Status drain();
  /// Gives the buffers back; what was sent and not drained may be lost.
  void close();

 private:
  /// A pinned buffer, and the stream on which it is copied.
  struct Staging {
    std::byte* buffer = nullptr;
    dpi_backend_stream* stream = nullptr;
  };
  Status open();

  const dpi_backend_api* api_;
  dpi_backend_device* device_;
  std::array<Staging, 2> staging_{};
  size_t next_ = 0;
};

}  // namespace dpi
