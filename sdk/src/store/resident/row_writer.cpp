#include "store/resident/row_writer.hpp"

#include <algorithm>
#include <cstring>

#include "backend/abi/backend_status.hpp"
#include "store/spread/spread_rows.hpp"

namespace dpi {

namespace {

void copy_rows(const ArenaMap::Table& at, std::byte* to, int64_t n, const std::byte* rows) {
  if (at.stride != at.row_bytes) {
    spread_rows(to, static_cast<size_t>(at.stride), rows, static_cast<size_t>(at.row_bytes), n,
                !at.shares_rows);
  } else if (to != rows) {  // they may have been read to where they lie
    std::memcpy(to, rows, static_cast<size_t>(n * at.row_bytes));
  }
}

}  // namespace

/// To a device through pinned buffers where the backend can place rows, else by plain copies.
Status RowWriter::put(bool host, const ArenaMap::Table& at, std::byte* base, int64_t first, int64_t n,
                      const std::byte* rows) {
  std::byte* to = base + at.offset + first * at.stride;
  if (host) {
    copy_rows(at, to, n, rows);
    return {};
  }
  if (api_->place_rows == nullptr || at.row_bytes > static_cast<int64_t>(RowStream::kBufferBytes))
    return copy_blocks(at, to, n, rows);
  return stream_.send(to, static_cast<size_t>(at.stride), rows, static_cast<size_t>(at.row_bytes), n);
}

Status RowWriter::copy_blocks(const ArenaMap::Table& at, std::byte* to, int64_t n, const std::byte* rows) {
  const int64_t block = std::max<int64_t>(1, kStagingBytes / at.stride);
  dpi_backend_error err{};
  for (int64_t done = 0; done < n;) {
    const int64_t now = std::min(block, n - done);
    // A block starts at this table's own bytes of its first row and ends with those of its last row.
    const auto bytes = static_cast<size_t>((now - 1) * at.stride + at.row_bytes);
    std::byte* dst = to + done * at.stride;
    staging_.assign(bytes, std::byte{0});
    if (at.shares_rows) {  // rows hold another table's bytes: change only ours
      DPI_RETURN_IF_ERROR(
          backend_status(api_->download(device_, staging_.data(), dst, bytes, &err), err, "rows"));
    }
    for (int64_t r = 0; r < now; ++r) {
      std::memcpy(staging_.data() + r * at.stride, rows + (done + r) * at.row_bytes,
                  static_cast<size_t>(at.row_bytes));
    }
    DPI_RETURN_IF_ERROR(
        backend_status(api_->upload(device_, dst, staging_.data(), bytes, &err), err, "rows"));
    done += now;
  }
  return {};
}

Status RowWriter::put_moved(bool host, const ArenaMap::Table& at, std::byte* base,
                            std::span<const MovedRow> moved, std::span<const std::byte> rows,
                            std::span<const float> scales) {
  for (size_t i = 0, n = 1; i < moved.size(); i += n, n = 1) {
    while (i + n < moved.size() && moved[i + n].place == moved[i].place + static_cast<int32_t>(n)) ++n;
    DPI_RETURN_IF_ERROR(put(host, at, base, moved[i].place, static_cast<int64_t>(n),
                            rows.data() + i * static_cast<size_t>(at.row_bytes)));
    if (scales.empty()) continue;
    dpi_backend_error err{};
    std::byte* to = base + at.scale_offset + moved[i].place * static_cast<int64_t>(sizeof(float));
    DPI_RETURN_IF_ERROR(
        backend_status(api_->upload(device_, to, scales.data() + i, n * sizeof(float), &err), err, "scales"));
  }
  return {};
}

}  // namespace dpi
