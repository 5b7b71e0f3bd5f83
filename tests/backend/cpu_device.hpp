#pragma once
#include "backend/abi/registry.hpp"

namespace dpi::test {

/// The cpu backend with a precision and an instruction set; `status` says why it is not there.
struct CpuDevice {
  backend::OpenedBackend b;
  Status status;

  explicit CpuDevice(int32_t precision, const char* isa = "auto") {
    backend::BackendRequest request;
    request.device = "cpu";
    request.options.device_index = -1;
    request.options.precision = precision;
    request.options.isa = isa;
    request.options.lookup = "auto";
    request.options.tuning = "off";
    auto opened = backend::open_backend(request);
    status = opened.ok() ? ok_status() : opened.status();
    if (opened.ok()) b = opened.value();
  }
  ~CpuDevice() {
    if (b.device != nullptr) b.api->close(b.device);
  }
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;
};

}  // namespace dpi::test
