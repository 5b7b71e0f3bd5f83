// The device layer over kernels/emu: device memory is host memory that starts as 0xFF, every call runs at
// once on its stream's clock. Tests only. DPI_EMU_MEMORY in the environment: bytes the device has.
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/device_layer.hpp"
#include "kernels/emu/simt_emu.hpp"

namespace dpi::backend::layer {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kOutOfMemory = 2;  // the numbers of the CUDA runtime
constexpr uint64_t kDefaultMemory = uint64_t{4} << 30;

emu::Stream* stream_of(void* s) { return static_cast<emu::Stream*>(s); }

uint64_t memory_limit() {
  const char* text = std::getenv("DPI_EMU_MEMORY");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kDefaultMemory;
}

// What is allocated on the "device". Events stay: an address that served twice would keep its order.
struct Heap {
  std::mutex mutex;
  std::map<void*, size_t> blocks;
  std::vector<std::unique_ptr<char>> events;
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
  if (code == kOutOfMemory) return "the emulated device is out of memory";
  return std::string("emulated launch failed: ") + emu::last_error();
}
bool is_out_of_memory(int code) { return code == kOutOfMemory; }

int device_alloc(size_t bytes, void** out) {
  const std::lock_guard lock(heap().mutex);
  *out = heap().used + bytes <= memory_limit() ? filled(bytes) : nullptr;
  if (*out == nullptr) return kOutOfMemory;
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
  *out = filled(bytes);
  return *out != nullptr ? 0 : kOutOfMemory;
}
int pinned_free(void* p) {
  std::free(p);
  return 0;
}

int copy_now(void* dst, const void* src, size_t bytes) {
  std::memcpy(dst, src, bytes);
  return 0;
}
int copy_async(void* dst, const void* src, size_t bytes, void* stream) {
  emu::copy(dst, src, bytes, stream_of(stream));
  return 0;
}

int stream_create(int, void** out) {
  *out = emu::stream_create();
  return 0;
}
int stream_destroy(void* stream) {
  emu::stream_destroy(stream_of(stream));
  return 0;
}
int stream_synchronize(void* stream) {
  emu::stream_sync(stream_of(stream));
  return 0;
}
int event_create(bool, void** out) {
  const std::lock_guard lock(heap().mutex);
  heap().events.push_back(std::make_unique<char>());
  *out = heap().events.back().get();
  return 0;
}
int event_destroy(void*) { return 0; }
int event_record(void* event, void* stream) {
  emu::event_record(static_cast<char*>(event), stream_of(stream));
  return 0;
}
int event_wait(void* event, void* stream) {
  emu::event_wait(static_cast<char*>(event), stream_of(stream));
  return 0;
}
int event_elapsed(void*, void*, float* ms) {
  *ms = 0;
  return 0;
}

}  // namespace dpi::backend::layer
