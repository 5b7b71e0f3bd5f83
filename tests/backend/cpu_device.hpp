#pragma once
#include "backend/abi/registry.hpp"

namespace dpi::test {

/// The cpu backend with a precision and an instruction set; `status` says why it is not there.
struct CpuDevice {
  backend::OpenedBackend b;
  Status status;

  /// `log`, if any, hears what the backend says while it is opened.
  explicit CpuDevice(int32_t precision, const char* isa = "auto",
                     decltype(dpi_backend_options::log) log = nullptr, void* log_sink = nullptr) {
    backend::BackendRequest request;
    request.device = "cpu";
    request.options.device_index = -1;
    request.options.precision = precision;
    request.options.isa = isa;
    request.options.lookup = "auto";
    request.options.tuning = "off";
    request.options.log = log;
    request.options.log_sink = log_sink;
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
