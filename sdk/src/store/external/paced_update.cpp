#include "store/external/paced_update.hpp"

#include <algorithm>

namespace dpi {

namespace {

constexpr uint64_t kSignNs = 500'000'000;  // a fraction of what leases run

}  // namespace

Status PacedUpdate::write(std::span<const int64_t> keys, std::span<const std::byte> rows, int64_t end) {
  if (keys.empty()) return progress_(end);
  const size_t row_bytes = rows.size() / keys.size();
  const size_t change = row_bytes + sizeof(int64_t);
  const size_t at_once = std::max<size_t>(1, static_cast<size_t>(rate_.piece(keys.size() * change)) / change);
  int64_t done = end - static_cast<int64_t>(keys.size());
  while (!keys.empty()) {
    const size_t n = std::min(at_once, keys.size());
    done += static_cast<int64_t>(n);
    DPI_RETURN_IF_ERROR(store_.update(number_, keys.first(n), rows.first(n * row_bytes), done));
    DPI_RETURN_IF_ERROR(rest(n * change, done));
    keys = keys.subspan(n);
    rows = rows.subspan(n * row_bytes);
  }
  return {};
}

Status PacedUpdate::rest(uint64_t bytes, int64_t done) {
  uint64_t heard = rate_.now();
  return rate_.keep(bytes, [&]() -> Status {
    if (rate_.now() - heard >= kSignNs) {
      DPI_RETURN_IF_ERROR(store_.update(number_, {}, {}, done));
      heard = rate_.now();
    }
    return progress_(done);
  });
}

}  // namespace dpi
