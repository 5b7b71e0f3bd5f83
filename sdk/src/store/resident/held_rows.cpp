#include "store/resident/held_rows.hpp"

#include <algorithm>
#include <cstring>

#include "backend/abi/backend_status.hpp"
#include "store/resident/spare_rows.hpp"

namespace dpi {

namespace {

Status fetch(const HeldMemory& memory, void* to, const void* from, size_t bytes) {
  dpi_backend_error err{};
  if (!memory.host)
    return backend_status(memory.api->download(memory.device, to, from, bytes, &err), err, "reading tables");
  std::memcpy(to, from, bytes);
  return {};
}

void pack(const std::byte* from, int64_t stride, int64_t row_bytes, int64_t n, std::byte* to) {
  for (int64_t r = 0; r < n; ++r)
    std::memcpy(to + r * row_bytes, from + r * stride, static_cast<size_t>(row_bytes));
}

/// Rows that lie one behind the other.
Status read_run(const HeldMemory& memory, const HeldRows& held, const HeldRun& run, std::byte* rows,
                std::vector<std::byte>* stage) {
  const std::byte* const first = held.rows + run.place * held.stride;
  if (held.stride == held.row_bytes)
    return fetch(memory, rows, first, static_cast<size_t>(run.rows * held.row_bytes));
  if (memory.host) {
    pack(first, held.stride, held.row_bytes, run.rows, rows);
    return {};
  }
  const int64_t most = std::max<int64_t>(1, kStagingBytes / held.stride);
  for (int64_t done = 0; done < run.rows; done += most) {
    const int64_t now = std::min(most, run.rows - done);
    stage->resize(static_cast<size_t>((now - 1) * held.stride + held.row_bytes));
    DPI_RETURN_IF_ERROR(fetch(memory, stage->data(), first + done * held.stride, stage->size()));
    pack(stage->data(), held.stride, held.row_bytes, now, rows + done * held.row_bytes);
  }
  return {};
}

}  // namespace

HeldRun held_run(const HeldRows& held, int64_t from, int64_t n) {
  if (held.version == nullptr) return {from, n};
  const std::span<const MovedRow> moved = held.version->overlay().moved();
  const auto next = std::lower_bound(moved.begin(), moved.end(), from,
                                     [](const MovedRow& m, int64_t row) { return m.row < row; });
  if (next == moved.end() || next->row >= from + n) return {from, n};
  if (next->row == from) return {next->place, 1};
  return {from, next->row - from};
}

Status read_held(const HeldMemory& memory, const HeldRows& held, int64_t from, int64_t n, std::byte* rows,
                 std::vector<std::byte>* stage) {
  while (n > 0) {
    const HeldRun run = held_run(held, from, n);
    DPI_RETURN_IF_ERROR(read_run(memory, held, run, rows, stage));
    from += run.rows;
    n -= run.rows;
    rows += run.rows * held.row_bytes;
  }
  return {};
}

Status read_held_scale(const HeldMemory& memory, const HeldRows& held, std::vector<float>* scale) {
  scale->resize(static_cast<size_t>(held.count));
  for (int64_t row = 0; row < held.count;) {
    const HeldRun run = held_run(held, row, held.count - row);
    DPI_RETURN_IF_ERROR(fetch(memory, scale->data() + row,
                              held.scale + run.place * static_cast<int64_t>(sizeof(float)),
                              static_cast<size_t>(run.rows) * sizeof(float)));
    row += run.rows;
  }
  return {};
}

}  // namespace dpi
