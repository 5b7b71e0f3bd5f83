// The backend `cuda` (and, over the emulated device layer, `cuda_emu`): dpi_backend_api over kernels/cuda and
// the device layer. Built into a plugin of its own, which exports the two functions at the end.
#include <exception>
#include <memory>
#include <new>

#include "backend/check_op.hpp"
#include "backend/cuda/cuda_op.hpp"
#include "backend/cuda/device_layer.hpp"
#include "backend/host_device.hpp"

namespace dpi::backend {
namespace {

constexpr uint32_t kAlignment = 256;  // of cudaMalloc
constexpr int32_t kStreams = 4;

struct CudaDevice {
  int index = 0;
};

// Streams and events carry their device: any thread may pass them on.
struct CudaHandle {
  void* native = nullptr;
  int device = 0;
};

CudaDevice& device_of(dpi_backend_device* d) { return *reinterpret_cast<CudaDevice*>(d); }
CudaHandle& handle_of(dpi_backend_stream* s) { return *reinterpret_cast<CudaHandle*>(s); }
CudaHandle& handle_of(dpi_backend_event* e) { return *reinterpret_cast<CudaHandle*>(e); }

int32_t done(int code, const char* what, dpi_backend_error* err) {
  return code == 0 ? 0 : report(native_status(code, what), err);
}

// ---- device

int32_t cuda_open(const dpi_backend_options* o, dpi_backend_device** out, dpi_backend_error* err) {
  if (o->precision != 0)
    return report(unsupported("cuda computes in fp32, precision " + std::to_string(o->precision) + " asked"),
                  err);
  std::string why;
  const int n = layer::device_count(&why);
  if (n == 0) return report({Code::kNoDevice, why}, err);
  const int index = o->device_index < 0 ? 0 : o->device_index;
  if (index >= n)
    return report(
        {Code::kNoDevice, "GPU " + std::to_string(index) + " asked, there are " + std::to_string(n)}, err);
  if (const int code = layer::use(index); code != 0) return done(code, "opening the GPU", err);
  if (const Status s = check_kernels(); !s.ok()) return report(s, err);
  auto* device = new (std::nothrow) CudaDevice{index};
  if (device == nullptr) return report({Code::kOutOfMemory, "no memory for a device"}, err);
  *out = reinterpret_cast<dpi_backend_device*>(device);
  return 0;
}

void cuda_close(dpi_backend_device* d) { delete &device_of(d); }

int32_t cuda_caps(dpi_backend_device* d, dpi_backend_caps* out, dpi_backend_error* err) {
  layer::use(device_of(d).index);
  layer::Properties p;
  if (const int code = layer::properties(device_of(d).index, &p); code != 0)
    return done(code, "properties of the GPU", err);
  out->flags = 0;
  out->max_streams = kStreams;
  out->device_index = device_of(d).index;
  out->memory_total = p.memory_total;
  out->memory_free = p.memory_free;
  out->alignment = kAlignment;
  copy_text(p.name, out->device_name, sizeof(out->device_name));
  return 0;
}

int32_t cuda_alloc(dpi_backend_device* d, size_t bytes, int32_t kind, void** out, dpi_backend_error* err) {
  *out = nullptr;
  layer::use(device_of(d).index);
  const size_t n = bytes > 0 ? bytes : 1;
  const int code = kind == DPI_MEMORY_STAGING ? layer::pinned_alloc(n, out) : layer::device_alloc(n, out);
  if (code == 0) return 0;
  *out = nullptr;
  return report(native_status(code, "allocating " + std::to_string(bytes) + " bytes"), err);
}

void cuda_free(dpi_backend_device* d, void* p, int32_t kind) {
  if (p == nullptr) return;
  layer::use(device_of(d).index);
  kind == DPI_MEMORY_STAGING ? layer::pinned_free(p) : layer::device_free(p);
}

int32_t cuda_copy(dpi_backend_device* d, void* dst, const void* src, size_t bytes, dpi_backend_error* err) {
  if (bytes == 0) return 0;
  layer::use(device_of(d).index);
  return done(layer::copy_now(dst, src, bytes), "copy", err);
}

// ---- ops

int32_t cuda_op_prepare(dpi_backend_device* d, const dpi_op_desc* desc, dpi_backend_op** out, char* text,
                        size_t cap, dpi_backend_error* err) {
  try {
    layer::use(device_of(d).index);
    auto op = std::make_unique<CudaOp>();
    op->device = device_of(d).index;
    if (const Status s = prepare_cuda_op(*desc, op.get()); !s.ok()) {
      copy_text("refused: " + std::string(layer::plugin_name()) + ": " + s.message(), text, cap);
      return report(s, err);
    }
    copy_text("chosen: " + std::string(layer::plugin_name()), text, cap);
    *out = reinterpret_cast<dpi_backend_op*>(op.release());
    return 0;
  } catch (const std::bad_alloc&) {
    return report({Code::kOutOfMemory, "no memory to prepare an op"}, err);
  } catch (const std::exception& e) {
    return report(internal_error(e.what()), err);
  }
}

void cuda_op_free(dpi_backend_device*, dpi_backend_op* op) { delete reinterpret_cast<CudaOp*>(op); }

size_t cuda_op_scratch_bytes(const dpi_backend_op* op, int64_t rows) {
  return cuda_scratch_bytes(reinterpret_cast<const CudaOp*>(op)->op, rows);
}

int32_t cuda_enqueue(dpi_backend_stream* s, const dpi_backend_op* handle, const dpi_op_call* call,
                     dpi_backend_error* err) {
  const OwnedOp& op = reinterpret_cast<const CudaOp*>(handle)->op;
  if (call->rows == 0) return 0;
  if (const Status status = check_call(op, *call); !status.ok()) return report(status, err);
  layer::use(handle_of(s).device);
  const int code = start_cuda_op(op, *call, handle_of(s).native);
  return code == 0 ? 0 : report(native_status(code, "op '" + op.name + "'"), err);
}

// ---- streams, events, copies

template <class Handle>
int32_t wrap(int code, CudaHandle made, Handle** out, const char* what, dpi_backend_error* err) {
  if (code != 0) return done(code, what, err);
  auto* handle = new (std::nothrow) CudaHandle{made};
  if (handle == nullptr) return report({Code::kOutOfMemory, std::string("no memory for ") + what}, err);
  *out = reinterpret_cast<Handle*>(handle);
  return 0;
}

int32_t cuda_stream_create(dpi_backend_device* d, int32_t priority, dpi_backend_stream** out,
                           dpi_backend_error* err) {
  CudaHandle made{nullptr, device_of(d).index};
  layer::use(made.device);
  const int code = layer::stream_create(priority, &made.native);
  return wrap(code, made, out, "a stream", err);
}

void cuda_stream_destroy(dpi_backend_device*, dpi_backend_stream* s) {
  layer::use(handle_of(s).device);
  layer::stream_destroy(handle_of(s).native);
  delete &handle_of(s);
}

int32_t cuda_stream_synchronize(dpi_backend_stream* s, dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(layer::stream_synchronize(handle_of(s).native), "synchronising a stream", err);
}

int32_t cuda_event_create(dpi_backend_device* d, dpi_backend_event** out, dpi_backend_error* err) {
  CudaHandle made{nullptr, device_of(d).index};
  layer::use(made.device);
  const int code = layer::event_create(&made.native);
  return wrap(code, made, out, "an event", err);
}

void cuda_event_destroy(dpi_backend_device*, dpi_backend_event* e) {
  layer::use(handle_of(e).device);
  layer::event_destroy(handle_of(e).native);
  delete &handle_of(e);
}

int32_t cuda_event_record(dpi_backend_event* e, dpi_backend_stream* s, dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(layer::event_record(handle_of(e).native, handle_of(s).native), "recording an event", err);
}

int32_t cuda_event_wait(dpi_backend_event* e, dpi_backend_stream* s, dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(layer::event_wait(handle_of(e).native, handle_of(s).native), "waiting for an event", err);
}

int32_t cuda_stream_copy(dpi_backend_stream* s, void* dst, const void* src, size_t bytes,
                         dpi_backend_error* err) {
  if (bytes == 0) return 0;
  layer::use(handle_of(s).device);
  return done(layer::copy_async(dst, src, bytes, handle_of(s).native), "copy on a stream", err);
}

void fill_api(dpi_backend_api* api) {
  *api = {};
  api->abi_version = DPI_BACKEND_ABI;
  api->struct_size = sizeof(*api);
  api->name = layer::plugin_name();
  api->open = cuda_open;
  api->close = cuda_close;
  api->caps = cuda_caps;
  api->alloc = cuda_alloc;
  api->free = cuda_free;
  api->upload = cuda_copy;
  api->download = cuda_copy;
  api->op_prepare = cuda_op_prepare;
  api->op_free = cuda_op_free;
  api->op_scratch_bytes = cuda_op_scratch_bytes;
  api->stream_create = cuda_stream_create;
  api->stream_destroy = cuda_stream_destroy;
  api->stream_synchronize = cuda_stream_synchronize;
  api->event_create = cuda_event_create;
  api->event_destroy = cuda_event_destroy;
  api->event_record = cuda_event_record;
  api->event_wait = cuda_event_wait;
  api->enqueue = cuda_enqueue;
  api->copy_in = cuda_stream_copy;
  api->copy_out = cuda_stream_copy;
}

}  // namespace
}  // namespace dpi::backend

extern "C" __attribute__((visibility("default"))) int32_t dpi_backend_init_v1(uint32_t core_abi,
                                                                              dpi_backend_api* out) {
  if (core_abi != DPI_BACKEND_ABI) {
    out->abi_version = DPI_BACKEND_ABI;
    return static_cast<int32_t>(dpi::Code::kUnsupported);
  }
  dpi::backend::fill_api(out);
  return 0;
}

extern "C" __attribute__((visibility("default"))) int32_t dpi_backend_score_v1(char* why, size_t cap) {
  try {
    std::string reason;
    if (dpi::backend::layer::device_count(&reason) > 0) return 100;
    dpi::backend::copy_text(reason, why, cap);
  } catch (const std::exception&) {
    if (cap > 0) why[0] = '\0';
  }
  return 0;
}
