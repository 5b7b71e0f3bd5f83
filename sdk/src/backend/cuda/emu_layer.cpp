// The device layer over kernels/emu: device memory is host memory that starts as 0xFF; what is started runs
// when the host synchronises. Tests only. DPI_EMU_MEMORY in the environment: bytes the device has.
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "backend/cuda/device_layer.hpp"
#include "kernels/emu/device_emu.hpp"

namespace dpi::backend::layer {
namespace {

constexpr size_t kAlignment = 256;
constexpr uint64_t kDefaultMemory = uint64_t{4} << 30;

emu::Stream* stream_of(void* s) { return static_cast<emu::Stream*>(s); }
emu::Event* event_of(void* e) { return static_cast<emu::Event*>(e); }
emu::Graph* graph_of(void* g) { return static_cast<emu::Graph*>(g); }

// A function that makes a T, for a caller that wants a handle.
template <class T, class Make>
int handle(void** out, Make make) {
  T* made = nullptr;
  const int code = make(&made);
  *out = code == 0 ? made : nullptr;
  return code;
}

uint64_t memory_limit() {
  const char* text = std::getenv("DPI_EMU_MEMORY");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kDefaultMemory;
}

// What is allocated on the "device".
struct Heap {
  std::mutex mutex;
  std::map<void*, size_t> blocks;
  uint64_t used = 0;
};

Heap& heap() {
  static Heap* const kHeap = new Heap;
  return *kHeap;
}

void* filled(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* p = std::aligned_alloc(kAlignment, rounded);
  if (p != nullptr) std::memset(p, 0xFF, rounded);
  return p;
}

}  // namespace

const char* plugin_name() { return "cuda_emu"; }
int device_count(std::string*) { return 1; }

int properties(int, Properties* out) {
  const std::lock_guard lock(heap().mutex);
  std::strncpy(out->name, "CUDA kernels emulated on the host, for tests", sizeof(out->name) - 1);
  out->memory_total = memory_limit();
  out->memory_free = memory_limit() - heap().used;
  return 0;
}

int use(int) { return 0; }

std::string error_text(int code) {
  if (code == emu::kOutOfMemory) return "the emulated device is out of memory";
  return std::string("emulated GPU: ") + emu::last_error();
}
bool is_out_of_memory(int code) { return code == emu::kOutOfMemory; }

int device_alloc(size_t bytes, void** out) {
  if (const int code = emu::refuse_in_capture("device_alloc"); code != 0) return code;
  const std::lock_guard lock(heap().mutex);
  *out = heap().used + bytes <= memory_limit() ? filled(bytes) : nullptr;
  if (*out == nullptr) return emu::kOutOfMemory;
  heap().blocks[*out] = bytes;
  heap().used += bytes;
  return 0;
}

int device_free(void* p) {
  const std::lock_guard lock(heap().mutex);
  const auto it = heap().blocks.find(p);
  if (it != heap().blocks.end()) {
    heap().used -= it->second;
    heap().blocks.erase(it);
  }
  std::free(p);
  return 0;
}

int pinned_alloc(size_t bytes, void** out) {
  if (const int code = emu::refuse_in_capture("pinned_alloc"); code != 0) return code;
  *out = filled(bytes);
  return *out != nullptr ? 0 : emu::kOutOfMemory;
}
int pinned_free(void* p) {
  std::free(p);
  return 0;
}

int copy_now(void* dst, const void* src, size_t bytes) {
  if (const int code = emu::refuse_in_capture("copy_now"); code != 0) return code;
  std::memcpy(dst, src, bytes);
  return 0;
}
int copy_async(void* dst, const void* src, size_t bytes, void* stream) {
  return emu::copy(dst, src, bytes, stream_of(stream));
}

int stream_create(int, void** out) {
  return handle<emu::Stream>(out, [](emu::Stream** made) { return emu::stream_create(made); });
}
int stream_destroy(void* stream) { return emu::stream_destroy(stream_of(stream)); }
int stream_synchronize(void* stream) { return emu::stream_sync(stream_of(stream)); }

int event_create(bool timed, void** out) {
  return handle<emu::Event>(out, [=](emu::Event** made) { return emu::event_create(timed, made); });
}
int event_destroy(void* event) { return emu::event_destroy(event_of(event)); }
int event_record(void* event, void* stream) { return emu::event_record(event_of(event), stream_of(stream)); }
int event_wait(void* event, void* stream) { return emu::event_wait(event_of(event), stream_of(stream)); }
int event_elapsed(void* from, void* to, float* ms) {
  return emu::event_elapsed(event_of(from), event_of(to), ms);
}

int capture_begin(void* stream) { return emu::capture_begin(stream_of(stream)); }
int capture_end(void* stream, void** graph) {
  return handle<emu::Graph>(graph,
                            [=](emu::Graph** made) { return emu::capture_end(stream_of(stream), made); });
}
int graph_launch(void* graph, void* stream) { return emu::graph_launch(graph_of(graph), stream_of(stream)); }
int graph_free(void* graph) { return emu::graph_free(graph_of(graph)); }
int graph_text(void* graph, std::string* out) {
  *out = emu::graph_text(graph_of(graph));
  return 0;
}

}  // namespace dpi::backend::layer
