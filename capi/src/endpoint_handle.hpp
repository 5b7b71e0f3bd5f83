// An endpoint's handle and its way to the version that serves. Included by capi sources only.
#pragma once

#include <dpi/endpoint.h>

#include <memory>

#include "handles.hpp"
#include "runtime/endpoint/endpoint.hpp"

struct dpi_endpoint {
  std::unique_ptr<dpi::Endpoint> endpoint;
};

namespace dpi::capi {

/// The endpoint's reference of a handle that callers may hold too.
struct HandleVersion final : Version {
  explicit HandleVersion(const dpi_model* m) { model = m->model.get(); }
  HandleVersion(const HandleVersion&) = delete;
  HandleVersion& operator=(const HandleVersion&) = delete;
  ~HandleVersion() override { dpi_model_free(handle); }
  dpi_model* handle = nullptr;  // given when nothing can fail any more
};

/// Calls `body(Endpoint&)` behind the wall, or says that the handle is null.
template <class Body>
dpi_status with_endpoint(const dpi_endpoint* endpoint, dpi_error* error, Body&& body) noexcept {
  return guard(error, [&]() -> Status {
    if (endpoint == nullptr) return invalid_argument("endpoint is null");
    return body(*endpoint->endpoint);
  });
}

/// Calls `body(pass, handle)` with the current version, which stays at least until the gate is left.
template <class Body>
dpi_status with_current(const dpi_endpoint* endpoint, dpi_error* error, Body&& body) noexcept {
  return with_endpoint(endpoint, error, [&](Endpoint& e) -> Status {
    if (e.forked())
      return e.check_process();  // first: lines of the gate may be held by threads the child has not
    Gate::Pass pass(e.gate());
    const Version* current = e.current();
    if (current == nullptr) return e.nothing_loaded();
    return body(pass, static_cast<const HandleVersion*>(current)->handle);
  });
}

}  // namespace dpi::capi
