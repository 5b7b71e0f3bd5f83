// How a range of addresses is shared out over the memory of several devices (dpi_backend_api::range_alloc):
// in pieces of one size, round about. Hot rows are often neighbours (ids by falling frequency), so each owner
// gets many pieces and no owner the hot end. Pure arithmetic, shared by backends and forecasts.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dpi::backend {

struct Spread {
  static constexpr uint64_t kPiecesPerOwner = 16;              // at most: a map call for each
  static constexpr uint64_t kGranularity = uint64_t{2} << 20;  // where no device has been asked

  uint64_t bytes = 0;  // of all pieces
  uint64_t unit = 1;   // bytes of a piece; the last one may be smaller
  uint64_t owners = 1;

  Spread(uint64_t wanted, uint64_t granularity, uint64_t n_owners) : owners(n_owners) {
    const auto whole = [granularity](uint64_t n) {
      return (n + granularity - 1) / granularity * granularity;
    };
    const uint64_t most = owners * kPiecesPerOwner;
    bytes = whole(std::max<uint64_t>(wanted, 1));
    unit = whole((bytes + most - 1) / most);
  }

  uint64_t pieces() const { return (bytes + unit - 1) / unit; }
  uint64_t offset(uint64_t piece) const { return piece * unit; }
  uint64_t bytes_of(uint64_t piece) const { return std::min(unit, bytes - offset(piece)); }
  uint64_t owner(uint64_t piece) const { return piece % owners; }  // its place in the list of owners
  uint64_t owner_bytes(uint64_t which) const {
    uint64_t sum = 0;
    for (uint64_t p = which; p < pieces(); p += owners) sum += bytes_of(p);
    return sum;
  }
};

}  // namespace dpi::backend
