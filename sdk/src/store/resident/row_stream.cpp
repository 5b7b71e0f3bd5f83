#include "store/resident/row_stream.hpp"

#include <algorithm>
#include <cstring>

#include "backend/abi/backend_status.hpp"

namespace dpi {

Status RowStream::open() {
  if (staging_[0].buffer != nullptr) return {};
  dpi_backend_error err{};
  for (Staging& staging : staging_) {
    void* p = nullptr;
    DPI_RETURN_IF_ERROR(backend_status(api_->alloc(device_, kBufferBytes, DPI_MEMORY_STAGING, &p, &err), err,
                                       "staging of table rows"));
    staging.buffer = static_cast<std::byte*>(p);
    DPI_RETURN_IF_ERROR(
        backend_status(api_->stream_create(device_, 0, &staging.stream, &err), err, "stream"));
  }
  return {};
}

Status RowStream::send(std::byte* dst, size_t dst_stride, const std::byte* rows, size_t row_bytes,
                       int64_t n_rows) {
  if (row_bytes == 0 || n_rows == 0) return {};
  DPI_RETURN_IF_ERROR(open());
  const auto most = static_cast<int64_t>(kBufferBytes / row_bytes);
  dpi_backend_error err{};
  for (int64_t done = 0; done < n_rows;) {
    const int64_t now = std::min(most, n_rows - done);
    Staging& staging = staging_[next_++ % staging_.size()];
    DPI_RETURN_IF_ERROR(
        backend_status(api_->stream_synchronize(staging.stream, &err), err, "copying table rows"));
    std::memcpy(staging.buffer, rows + static_cast<size_t>(done) * row_bytes,
                static_cast<size_t>(now) * row_bytes);
    const int32_t code = api_->place_rows(staging.stream, dst + static_cast<size_t>(done) * dst_stride,
                                          dst_stride, staging.buffer, row_bytes, now, &err);
    DPI_RETURN_IF_ERROR(backend_status(code, err, "copying table rows"));
    done += now;
  }
  return {};
}

Status RowStream::drain() {
  dpi_backend_error err{};
  for (Staging& staging : staging_) {
    if (staging.stream == nullptr) continue;
    DPI_RETURN_IF_ERROR(
        backend_status(api_->stream_synchronize(staging.stream, &err), err, "copying table rows"));
  }
  return {};
}

void RowStream::close() {
  static_cast<void>(drain());
  for (Staging& staging : staging_) {
    if (staging.stream != nullptr) api_->stream_destroy(device_, staging.stream);
    if (staging.buffer != nullptr) api_->free(device_, staging.buffer, DPI_MEMORY_STAGING);
    staging = {};
  }
}

}  // namespace dpi
