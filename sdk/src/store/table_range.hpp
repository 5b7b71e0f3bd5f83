// Where large tables lie when option store.peer_devices names devices: each in one range of addresses, with
// memory of all of them behind it, so that a lookup kernel on any device reads `base + row * stride`
// unchanged. Used by the resident store, which makes the ranges, and by forecasts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "backend/abi/spread.hpp"

namespace dpi {

struct TableRange {
  int32_t kind = DPI_RANGE_NONE;
  uint64_t granularity = backend::Spread::kGranularity;
  std::vector<int32_t> owners;   // as the option names them
  std::vector<int32_t> readers;  // devices that the model runs on, and owners
  std::string why;               // the memory is not that of the owners; "" when it is

  bool used() const { return kind != DPI_RANGE_NONE; }
  /// Bytes from which a table lies in a range: each owner gets a piece. 0 = no table does.
  uint64_t least() const { return used() ? granularity * owners.size() : 0; }
  backend::Spread spread(uint64_t bytes) const { return {bytes, granularity, owners.size()}; }
  /// The part of a table of `bytes` bytes that lies in the memory of one device.
  uint64_t bytes_on(int32_t device, uint64_t bytes) const {
    uint64_t sum = 0;
    for (size_t o = 0; kind == DPI_RANGE_PEERS && o < owners.size(); ++o)
      sum += owners[o] == device ? spread(bytes).owner_bytes(o) : 0;
    return sum;
  }
  dpi_range_desc desc() const {
    return {owners.data(), static_cast<int32_t>(owners.size()), readers.data(),
            static_cast<int32_t>(readers.size())};
  }
};

}  // namespace dpi
