// Ranges of addresses over the memory of several devices, over the device layer: dpi_backend_api's range_*
// functions, and copies that touch such a range. Called by cuda_backend.cpp.
#pragma once

#include "backend/abi/dpi_backend.h"

namespace dpi::backend {

/// Sets range_plan, range_alloc and range_free.
void fill_range_functions(dpi_backend_api* api);

/// copy_now, in parts that lie within one piece of a range each: no copy goes over a border between devices.
int copy_by_pieces(void* dst, const void* src, size_t bytes);

}  // namespace dpi::backend
