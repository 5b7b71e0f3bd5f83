// Host memory for stores of tests, whatever device the model is on: an emulated device reads it too.
#pragma once

#include <doctest/doctest.h>

#include "backend/abi/registry.hpp"

namespace dpi::test {

/// The backend on whose memory the tables lie; closed after the model.
struct HostMemory {
  backend::OpenedBackend b;
  HostMemory() {
    backend::BackendRequest request;
    request.device = "ref";
    request.options.struct_size = sizeof request.options;
    request.options.isa = request.options.lookup = request.options.tuning = "auto";
    auto opened = backend::open_backend(request);
    REQUIRE(opened.ok());
    b = opened.value();
  }
  ~HostMemory() { b.api->close(b.device); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
};

}  // namespace dpi::test
