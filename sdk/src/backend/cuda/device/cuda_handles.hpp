// The CUDA backend's types behind the opaque handles of dpi_backend_api, and the calls on streams, events and
// graphs. Used by cuda_backend.cpp, which owns the table of functions, and cuda_streams.cpp.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "backend/cuda/device/cuda_op.hpp"
#include "backend/cuda/layer/device_layer.hpp"
#include "backend/cuda/layer/native_status.hpp"
#include "backend/host_device.hpp"

namespace dpi::backend {

struct CudaDevice {
  int index = 0;
  bool debug = false;  // events carry timestamps
  CudaOptions options;
  bool beyond_half = false;  // what prepare_cuda_op says
  void (*log)(void* sink, int32_t level, const char* component, const char* message) = nullptr;
  void* log_sink = nullptr;
  void (*held)(void* self, int64_t bytes, int32_t on_device) = nullptr;
  void* held_self = nullptr;
  std::mutex blocks_mutex;                   // of the next
  std::unordered_map<void*, size_t> blocks;  // that cuda_alloc took: the runtime does not say their sizes

  void count(int64_t bytes, bool on_device) const {
    if (held != nullptr) held(held_self, bytes, on_device ? 1 : 0);
  }
  void warn(const char* component, const std::string& message) const {
    if (log != nullptr) log(log_sink, 2, component, message.c_str());
  }
};

// Streams, events and graphs carry their device: any thread may pass them on.
struct CudaHandle {
  void* native = nullptr;
  int device = 0;
};

inline CudaDevice& device_of(dpi_backend_device* d) { return *reinterpret_cast<CudaDevice*>(d); }
inline CudaHandle& handle_of(dpi_backend_stream* s) { return *reinterpret_cast<CudaHandle*>(s); }
inline CudaHandle& handle_of(dpi_backend_event* e) { return *reinterpret_cast<CudaHandle*>(e); }
inline CudaHandle& handle_of(dpi_backend_graph* g) { return *reinterpret_cast<CudaHandle*>(g); }

inline int32_t done(int code, const char* what, dpi_backend_error* err) noexcept {
  return code == 0 ? 0 : guarded(err, [&] { return native_status(code, what); });
}

/// Sets the functions on streams, events, copies and graphs.
void fill_stream_functions(dpi_backend_api* api);

}  // namespace dpi::backend
