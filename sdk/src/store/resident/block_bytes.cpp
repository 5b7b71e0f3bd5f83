#include "store/resident/block_bytes.hpp"

#include <algorithm>
#include <cstring>

#include <dpi/kernels/row_decode.hpp>

#include "backend/abi/backend_status.hpp"

namespace dpi {

namespace {

Status download(const HeldMemory& m, const std::byte* from, size_t bytes, std::vector<std::byte>* stage) {
  dpi_backend_error err{};
  stage->resize(bytes);
  return backend_status(m.api->download(m.device, stage->data(), from, bytes, &err), err, "comparing tables");
}

}  // namespace

Result<int64_t> first_difference(const HeldMemory& memory, const ArenaMap::Table& at, const std::byte* base,
                                 int64_t first, int64_t n, const std::byte* rows,
                                 std::vector<std::byte>* stage) {
  const auto row_bytes = static_cast<size_t>(at.row_bytes), stride = static_cast<size_t>(at.stride);
  const int64_t block = memory.host ? n : std::max<int64_t>(1, kStagingBytes / at.stride);
  for (int64_t done = 0; done < n;) {
    const int64_t now = std::min(block, n - done);
    const std::byte* there = base + at.offset + (first + done) * at.stride;
    if (!memory.host) {
      DPI_RETURN_IF_ERROR(download(memory, there, static_cast<size_t>(now - 1) * stride + row_bytes, stage));
      there = stage->data();
    }
    for (int64_t r = 0; r < now; ++r, ++done) {
      if (std::memcmp(there + static_cast<size_t>(r) * stride, rows + static_cast<size_t>(done) * row_bytes,
                      row_bytes) != 0)
        return first + done;
    }
  }
  return int64_t{-1};
}

Result<bool> same_bytes(const HeldMemory& memory, const std::byte* block, const void* bytes, size_t n,
                        std::vector<std::byte>* stage) {
  if (!memory.host) {
    DPI_RETURN_IF_ERROR(download(memory, block, n, stage));
    block = stage->data();
  }
  return std::memcmp(block, bytes, n) == 0;
}

Status copy_block(const HeldMemory& memory, const std::byte* from, std::byte* to, uint64_t bytes,
                  std::vector<std::byte>* stage) {
  if (memory.host) {
    std::memcpy(to, from, bytes);
    return {};
  }
  dpi_backend_error err{};
  for (uint64_t at = 0; at < bytes; at += stage->size()) {
    DPI_RETURN_IF_ERROR(download(memory, from + at,
                                 static_cast<size_t>(std::min<uint64_t>(kStagingBytes, bytes - at)), stage));
    DPI_RETURN_IF_ERROR(
        backend_status(memory.api->upload(memory.device, to + at, stage->data(), stage->size(), &err), err,
                       "copying tables"));
  }
  return {};
}

void mark_nonzero(const kernels::TableView& rows, int64_t first, std::vector<uint64_t>* bits) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    if (kernels::row_is_nonzero(rows, r))
      (*bits)[static_cast<size_t>((first + r) / 64)] |= uint64_t{1} << ((first + r) % 64);
  }
}

}  // namespace dpi
