// The parts of dpi_backend_api that every backend in host memory has in common: aligned memory, streams and
// events that need no work because the calling thread executes each op when it is enqueued. Used by `ref`;
// `cpu` may use what fits.
#pragma once

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"

namespace dpi::backend {

/// Of alloc results: one cache line, one AVX-512 register.
constexpr uint32_t kHostAlignment = 64;

/// Fills err and returns the code; kOk clears the text.
int32_t report(const Status& status, dpi_backend_error* err);

/// Copies `text` into buf, cut to cap - 1 characters. buf may be null.
void copy_text(const std::string& text, char* buf, size_t cap);

/// Sets the members of `api` that host memory decides: alloc, free, upload, download, copies, streams and
/// events. Capture and event_elapsed stay null.
void fill_host_members(dpi_backend_api* api);

/// memory_total and memory_free of this machine, in bytes.
void fill_host_memory(dpi_backend_caps* caps);

}  // namespace dpi::backend
