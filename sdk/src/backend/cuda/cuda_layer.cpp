// The device layer over the CUDA runtime, which is linked statically: the plugin needs no CUDA library to be
// installed, only the driver, and says so when that is missing.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "backend/cuda/device_layer.hpp"

namespace dpi::backend::layer {
namespace {

constexpr int kMinMajor = 8;  // the oldest architecture the plugin is built for

cudaStream_t stream_of(void* s) { return static_cast<cudaStream_t>(s); }
cudaEvent_t event_of(void* e) { return static_cast<cudaEvent_t>(e); }

}  // namespace

const char* plugin_name() { return "cuda"; }

int device_count(std::string* why) {
  int n = 0;
  const cudaError_t code = cudaGetDeviceCount(&n);
  if (code != cudaSuccess) {
    *why = std::string("no usable GPU: ") + cudaGetErrorString(code) + " (CUDA error " +
           std::to_string(code) + ")";
    return 0;
  }
  int major = 0;
  if (n > 0 && cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess &&
      major < kMinMajor) {
    *why = "the GPU has compute capability " + std::to_string(major) + ".x, expected 8.0 or later";
    return 0;
  }
  if (n == 0) *why = "the driver reports no GPU";
  return n;
}

int properties(int device, Properties* out) {
  cudaDeviceProp p{};
  if (const cudaError_t code = cudaGetDeviceProperties(&p, device); code != cudaSuccess) return code;
  std::memcpy(out->name, p.name, std::min(sizeof(out->name), sizeof(p.name)) - 1);
  size_t available = 0, total = 0;
  if (const cudaError_t code = cudaMemGetInfo(&available, &total); code != cudaSuccess) return code;
  out->memory_total = total;
  out->memory_free = available;
  return 0;
}

int use(int device) { return cudaSetDevice(device); }

std::string error_text(int code) {
  const auto e = static_cast<cudaError_t>(code);
  return std::string(cudaGetErrorName(e)) + ": " + cudaGetErrorString(e);
}
bool is_out_of_memory(int code) { return code == cudaErrorMemoryAllocation; }

int device_alloc(size_t bytes, void** out) {
  const cudaError_t code = cudaMalloc(out, bytes);
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());  // not to be found by a later launch
  return code;
}
int device_free(void* p) { return cudaFree(p); }
int pinned_alloc(size_t bytes, void** out) {
  const cudaError_t code = cudaHostAlloc(out, bytes, cudaHostAllocPortable);
  if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
  return code;
}
int pinned_free(void* p) { return cudaFreeHost(p); }

int copy_now(void* dst, const void* src, size_t bytes) {
  if (const cudaError_t code = cudaMemcpy(dst, src, bytes, cudaMemcpyDefault); code != cudaSuccess)
    return code;
  return cudaStreamSynchronize(nullptr);  // a copy from pageable memory may return before it has arrived
}
int copy_async(void* dst, const void* src, size_t bytes, void* stream) {
  return cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream_of(stream));
}

int stream_create(int priority, void** out) {
  cudaStream_t s = nullptr;
  const cudaError_t code = cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, -priority);
  *out = s;
  return code;
}
int stream_destroy(void* stream) { return cudaStreamDestroy(stream_of(stream)); }
int stream_synchronize(void* stream) { return cudaStreamSynchronize(stream_of(stream)); }

int event_create(void** out) {
  cudaEvent_t e = nullptr;
  const cudaError_t code = cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  *out = e;
  return code;
}
int event_destroy(void* event) { return cudaEventDestroy(event_of(event)); }
int event_record(void* event, void* stream) { return cudaEventRecord(event_of(event), stream_of(stream)); }
int event_wait(void* event, void* stream) {
  return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0);
}
int event_elapsed(void* from, void* to, float* ms) {
  return cudaEventElapsedTime(ms, event_of(from), event_of(to));
}

}  // namespace dpi::backend::layer
