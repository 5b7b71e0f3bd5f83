// layer/device_layer.hpp over kernels/emu, call by call. Tests only: linked into libdpi_cuda_emu.so, never
// into the product (tests/emu/product_check.py).
#include <cstring>

#include "backend/cuda/layer/device_layer.hpp"
#include "base/static_tls.hpp"
#include "kernels/emu/device_emu.hpp"

namespace dpi::backend::layer {
namespace {

emu::Stream* stream_of(void* s) { return static_cast<emu::Stream*>(s); }
emu::Event* event_of(void* e) { return static_cast<emu::Event*>(e); }
emu::Graph* graph_of(void* g) { return static_cast<emu::Graph*>(g); }

// As in cuda/layer/cuda_layer.cpp: nobody is to find a failure that was told.
int told(int code) {
  if (code != 0) static_cast<void>(emu::take_last_code());
  return code;
}

// A function that makes a T, for a caller that wants a handle.
template <class T, class Make>
int handle(void** out, Make make) {
  T* made = nullptr;
  const int code = told(make(&made));
  *out = code == 0 ? made : nullptr;
  return code;
}

}  // namespace

/// Where one variable is marked, all thread-local memory of the plugin has its place in every thread. The
/// product cannot do so: the CUDA runtime inside it has 4 KB, more than the loader has room for.
DPI_STATIC_TLS thread_local volatile int t_asked = 0;

const char* plugin_name() { return "cuda_emu"; }
int device_count(std::string*) {
  t_asked = 1;
  return emu::device_count();
}

int properties(int device, Properties* out) {
  std::strncpy(out->name, "CUDA kernels emulated on the host, for tests", sizeof(out->name) - 1);
  const emu::Properties p = emu::properties();
  out->multiprocessors = p.multiprocessors;
  out->threads_per_multiprocessor = p.threads_per_multiprocessor;
  const uint64_t used = emu::memory_used(device);
  out->memory_total = emu::memory_total();
  out->memory_free = used < out->memory_total ? out->memory_total - used : 0;
  return 0;
}

int use(int device) { return told(emu::use(device)); }

std::string error_text(int) { return std::string("emulated GPU: ") + emu::last_error(); }
bool is_out_of_memory(int code) { return code == emu::kOutOfMemory; }

int device_alloc(size_t bytes, void** out) { return told(emu::device_alloc(bytes, out)); }
int device_free(void* p) { return told(emu::device_free(p)); }
int pinned_alloc(size_t bytes, void** out) { return told(emu::pinned_alloc(bytes, out)); }
int pinned_free(void* p) { return told(emu::pinned_free(p)); }

int copy_now(void* dst, const void* src, size_t bytes) { return told(emu::copy_now(dst, src, bytes)); }
int copy_async(void* dst, const void* src, size_t bytes, void* stream) {
  return told(emu::copy(dst, src, bytes, stream_of(stream)));
}

bool can_reach(int device, int owner) { return emu::can_reach(device, owner); }
int piece_granularity(int, size_t* out) {
  *out = emu::kPieceBytes;
  return 0;
}
int range_reserve(size_t bytes, void** out) { return told(emu::range_reserve(bytes, out)); }
int range_free(void* p, size_t bytes) { return told(emu::range_free(p, bytes)); }
int piece_make(void* at, size_t bytes, int device) {
  emu::Piece* piece = nullptr;
  if (const int code = told(emu::piece_create(device, bytes, &piece)); code != 0) return code;
  const int code = told(emu::piece_map(at, bytes, piece));
  static_cast<void>(emu::piece_release(piece));
  return code;
}
int piece_drop(void* at, size_t) { return told(emu::piece_unmap(at)); }
int range_access(void* p, size_t bytes, const int* devices, int n) {
  return told(emu::range_access(p, bytes, devices, n));
}

int stream_create(int, void** out) {
  return handle<emu::Stream>(out, [](emu::Stream** made) { return emu::stream_create(made); });
}
int stream_destroy(void* stream) { return told(emu::stream_destroy(stream_of(stream))); }
int stream_synchronize(void* stream) { return told(emu::stream_sync(stream_of(stream))); }

int event_create(bool timed, void** out) {
  return handle<emu::Event>(out, [=](emu::Event** made) { return emu::event_create(timed, made); });
}
int event_destroy(void* event) { return told(emu::event_destroy(event_of(event))); }
int event_record(void* event, void* stream) {
  return told(emu::event_record(event_of(event), stream_of(stream)));
}
int event_wait(void* event, void* stream) {
  return told(emu::event_wait(event_of(event), stream_of(stream)));
}
int event_elapsed(void* from, void* to, float* ms) {
  return told(emu::event_elapsed(event_of(from), event_of(to), ms));
}

int capture_begin(void* stream) { return told(emu::capture_begin(stream_of(stream))); }
int capture_end(void* stream, void** graph) {
  return handle<emu::Graph>(graph,
                            [=](emu::Graph** made) { return emu::capture_end(stream_of(stream), made); });
}
int graph_launch(void* graph, void* stream) {
  return told(emu::graph_launch(graph_of(graph), stream_of(stream)));
}
int graph_free(void* graph) { return told(emu::graph_free(graph_of(graph))); }
int graph_text(void* graph, std::string* out) {
  *out = emu::graph_text(graph_of(graph));
  return 0;
}

}  // namespace dpi::backend::layer
