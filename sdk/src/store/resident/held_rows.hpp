// Rows that another store holds, read as they would come from a bundle: those that its version has elsewhere
// (spare_rows.hpp) from there.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"
#include "store/table_store.hpp"

namespace dpi {

/// Rows that lie one behind the other.
struct HeldRun {
  int64_t place = 0;
  int64_t rows = 0;
};
/// Where row `from` lies, and how many of the n rows from there on lie behind it.
HeldRun held_run(const HeldRows& held, int64_t from, int64_t n);

/// Whose memory it is.
struct HeldMemory {
  const dpi_backend_api* api = nullptr;
  dpi_backend_device* device = nullptr;
  bool host = true;
};

/// n rows from row `from` of `held`, unpadded. stage: room for rows on their way from a device, kept between
/// calls.
Status read_held(const HeldMemory& memory, const HeldRows& held, int64_t from, int64_t n, std::byte* rows,
                 std::vector<std::byte>* stage);

/// The scales of all its rows.
Status read_held_scale(const HeldMemory& memory, const HeldRows& held, std::vector<float>* scale);

}  // namespace dpi
