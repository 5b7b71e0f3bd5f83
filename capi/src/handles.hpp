// What stands behind the opaque handles of dpi.h, and the wall that no exception passes. Included by capi
// sources only.
#pragma once

#include <dpi/dpi.h>

#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "runtime/model/model.hpp"
#include "runtime/model/rows.hpp"

struct dpi_options {
  dpi::ModelOptions values;
};

struct dpi_model {
  std::unique_ptr<dpi::Model> model;
  std::atomic<int64_t> references{1};
};

struct dpi_context {
  dpi_model* model = nullptr;  // one reference
  std::unique_ptr<dpi::Context> context;
  int64_t max_rows = 0;
  int64_t max_nnz = 0;
  std::vector<float> dense, weights, out;
  std::vector<int64_t> ids, offsets;
};

struct dpi_rows {
  dpi_model* model = nullptr;  // one reference
  std::unique_ptr<dpi::RawRows> rows;
};

namespace dpi::capi {

/// Fills the caller's error block from a status; tolerates null and a block that was never initialised with
/// struct_size.
dpi_status report(const Status& status, dpi_error* error) noexcept;

/// Runs `body` (returning Status) behind the exception wall.
template <class Body>
dpi_status guard(dpi_error* error, Body&& body) noexcept {
  try {
    const Status status = body();
    if (status.ok() && error == nullptr) return DPI_OK;
    return report(status, error);
  } catch (const std::bad_alloc&) {
    return report(Status(Code::kOutOfMemory, "out of memory"), error);
  } catch (const std::exception& e) {
    return report(internal_error(std::string("unexpected exception: ") + e.what()), error);
  } catch (...) {
    return report(internal_error("unexpected exception"), error);
  }
}

/// Copies a caller's versioned struct into one of this library's size. Fields the caller does not know keep
/// their defaults; unknown trailing bytes must be zero.
Status read_struct(const void* from, const char* name, size_t min_size, size_t own_size, void* to);

/// Writes at most the caller's struct_size bytes of an out-struct; struct_size itself is kept.
Status write_struct(void* to, const char* name, size_t min_size, size_t own_size, const void* from);

/// The two-call string protocol of the *_json functions.
size_t give_text(const std::string& text, char* buf, size_t cap) noexcept;

/// dpi_batch -> Batch, after size and constant checks.
Status to_batch(const dpi_batch* in, Batch* out);
Status to_control(const dpi_run_options* run, int64_t rows, int64_t heads, RunControl* out);
Status check_out(const float* out, size_t out_len, int64_t rows, int64_t heads);

}  // namespace dpi::capi
