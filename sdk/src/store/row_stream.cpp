#include "store/row_stream.hpp"

#include <algorithm>
#include <cstring>

#include "backend/abi/backend_status.hpp"

namespace dpi {

Status RowStream::open() {
  if (lanes_[0].buffer != nullptr) return {};
  dpi_backend_error err{};
  for (Lane& lane : lanes_) {
    void* p = nullptr;
    DPI_RETURN_IF_ERROR(backend_status(api_->alloc(device_, kBufferBytes, DPI_MEMORY_STAGING, &p, &err), err,
                                       "staging of table rows"));
    lane.buffer = static_cast<std::byte*>(p);
    DPI_RETURN_IF_ERROR(backend_status(api_->stream_create(device_, 0, &lane.stream, &err), err, "stream"));
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
    Lane& lane = lanes_[next_++ % lanes_.size()];
    DPI_RETURN_IF_ERROR(
        backend_status(api_->stream_synchronize(lane.stream, &err), err, "copying table rows"));
    std::memcpy(lane.buffer, rows + static_cast<size_t>(done) * row_bytes,
                static_cast<size_t>(now) * row_bytes);
    const int32_t code = api_->place_rows(lane.stream, dst + static_cast<size_t>(done) * dst_stride,
                                          dst_stride, lane.buffer, row_bytes, now, &err);
    DPI_RETURN_IF_ERROR(backend_status(code, err, "copying table rows"));
    done += now;
  }
  return {};
}

Status RowStream::drain() {
  dpi_backend_error err{};
  for (Lane& lane : lanes_) {
    if (lane.stream == nullptr) continue;
    DPI_RETURN_IF_ERROR(
        backend_status(api_->stream_synchronize(lane.stream, &err), err, "copying table rows"));
  }
  return {};
}

void RowStream::close() {
  static_cast<void>(drain());
  for (Lane& lane : lanes_) {
    if (lane.stream != nullptr) api_->stream_destroy(device_, lane.stream);
    if (lane.buffer != nullptr) api_->free(device_, lane.buffer, DPI_MEMORY_STAGING);
    lane = {};
  }
}

}  // namespace dpi
