// Memory of the emulated devices: host memory that starts as 0xFF. Under ASan device blocks are poisoned but
// while tasks of their device run, so that a host access to one is reported, another device's too, and so are
// the bytes after every block.
// In the environment: DPI_EMU_MEMORY, bytes each device has; DPI_EMU_SHARED, bytes a block may share. Compile
// as fiber.cpp.
#include "kernels/emu/memory.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>

#include "kernels/emu/control.hpp"
#include "kernels/emu/heap.hpp"
#include "kernels/emu/schedule.hpp"

namespace dpi::emu {

namespace {

constexpr size_t kAlignment = 256;
constexpr uint64_t kDefaultMemory = uint64_t{4} << 30;

void tell_taken(int64_t bytes) {
  if (dpi_emu_taken != nullptr) dpi_emu_taken(bytes);
}

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

char* filled(size_t bytes) {
  auto* p = static_cast<char*>(std::aligned_alloc(kAlignment, rounded(bytes)));
  if (p == nullptr) return nullptr;
  std::memset(p, 0xFF, rounded(bytes));
  poison(p, rounded(bytes));
  return p;
}

void release_block(char* p, size_t bytes) {
  unpoison(p, rounded(bytes));
  std::free(p);
}

// The device block that holds p, or null.
Blocks::value_type* block_at(const void* p) {
  auto& blocks = heap().device;
  const auto* address = static_cast<const char*>(p);
  auto next = blocks.upper_bound(const_cast<char*>(address));
  if (next == blocks.begin()) return nullptr;
  --next;
  return address < next->first + next->second.bytes ? &*next : nullptr;
}

void open_block(Blocks::value_type* b) {
  if (b != nullptr && b->second.open++ == 0) unpoison(b->first, b->second.bytes);
}

void close_block(Blocks::value_type* b) {
  if (b != nullptr && --b->second.open == 0 && !touches(b->second, heap().shown))
    poison(b->first, b->second.bytes);
}

// Pieces of ranges that a device may not touch are out of its reach in every build.
void bar(int device, int protection) {
  for (auto& [p, block] : heap().device) {
    if (block.mapped && block.access != 0 && !touches(block, device))
      static_cast<void>(mprotect(p, block.bytes, protection));
  }
}

void hide_memory() {
  Heap& h = heap();
  if (h.shown < 0) return;
  for (auto& [p, block] : h.device) {
    if (touches(block, h.shown) && block.open == 0) poison(p, block.bytes);
  }
  bar(h.shown, PROT_READ | PROT_WRITE);
  h.shown = -1;
}

int free_block(Blocks* blocks, void* p, const char* call) {
  if (const int code = refuse_in_capture(call); code != 0) return code;
  run_all();  // freeing waits for the device
  const Busy busy;
  const auto it = blocks->find(static_cast<char*>(p));
  if (it == blocks->end() || it->second.mapped)
    return failed(kInvalidValue, std::string(call) + " of an address that is not allocated");
  if (blocks == &heap().device) {
    give_memory(it->second.device, it->second.bytes);
  } else {
    tell_taken(-static_cast<int64_t>(it->second.bytes));
  }
  release_block(it->first, it->second.bytes);
  blocks->erase(it);
  return 0;
}

}  // namespace

void Own::count(int n) {
  if (&dpi_emu_own != nullptr) dpi_emu_own(n);
}

Heap& heap() {
  static auto* const kHeap = new Heap;
  return *kHeap;
}

bool take_memory(int device, size_t bytes) {
  uint64_t& used = heap().used[static_cast<size_t>(device)];
  if (bytes > memory_total() || used > memory_total() - bytes) return false;
  used += bytes;
  tell_taken(static_cast<int64_t>(bytes));
  return true;
}

void give_memory(int device, size_t bytes) {
  heap().used[static_cast<size_t>(device)] -= bytes;
  tell_taken(-static_cast<int64_t>(bytes));
}

void open_memory() { ++heap().open; }

void show_memory(int device) {
  Heap& h = heap();
  if (h.shown == device) return;
  hide_memory();
  h.shown = device;
  bar(device, PROT_NONE);
  for (auto& [p, block] : h.device) {
    if (touches(block, device)) unpoison(p, block.bytes);
  }
}

void close_memory() {
  if (--heap().open == 0) hide_memory();
}

Properties properties() {
  Properties p;
  if (const char* text = std::getenv("DPI_EMU_SHARED"); text != nullptr) p.shared_bytes = std::atoi(text);
  return p;
}

uint64_t memory_total() {
  const char* text = std::getenv("DPI_EMU_MEMORY");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kDefaultMemory;
}

uint64_t memory_used(int device) {
  const Busy busy;
  return heap().used[static_cast<size_t>(device)];
}

int device_alloc(size_t bytes, void** out) {
  *out = nullptr;
  if (const int code = refuse_in_capture("device_alloc"); code != 0) return code;
  const Busy busy;
  if (const int code = injected(Kind::kAlloc); code != 0) return code;
  const int device = current_device();
  const bool fits = take_memory(device, bytes);
  char* p = fits ? filled(bytes) : nullptr;
  if (p == nullptr) {
    if (fits) give_memory(device, bytes);
    return failed(kOutOfMemory, "the emulated device " + std::to_string(device) + " is out of memory");
  }
  heap().device[p] = {bytes, device, 1u << device};
  if (heap().shown == device) unpoison(p, bytes);
  *out = p;
  return 0;
}

int device_free(void* p) { return free_block(&heap().device, p, "device_free"); }

int pinned_alloc(size_t bytes, void** out) {
  *out = nullptr;
  if (const int code = refuse_in_capture("pinned_alloc"); code != 0) return code;
  const Busy busy;
  if (const int code = injected(Kind::kPinned); code != 0) return code;
  char* p = filled(bytes);
  if (p == nullptr) return failed(kOutOfMemory, "the host is out of memory");
  unpoison(p, bytes);
  heap().pinned[p].bytes = bytes;
  tell_taken(static_cast<int64_t>(bytes));
  *out = p;
  return 0;
}

int pinned_free(void* p) { return free_block(&heap().pinned, p, "pinned_free"); }

int copy_now(void* dst, const void* src, size_t bytes) {
  if (const int code = refuse_in_capture("copy_now"); code != 0) return code;
  Blocks::value_type *to = nullptr, *from = nullptr;
  {
    const Busy busy;
    if (const int code = injected(Kind::kCopy); code != 0) return code;
    to = block_at(dst);
    from = block_at(src);
    open_block(to);
    open_block(from);
  }
  std::memcpy(dst, src, bytes);  // the calling thread's access
  const Busy busy;
  close_block(to);
  close_block(from);
  return 0;
}

}  // namespace dpi::emu

extern "C" __attribute__((visibility("default"))) void dpi_emu_live(DpiEmuLive* out) {
  const dpi::emu::Busy busy;
  const dpi::emu::Heap& h = dpi::emu::heap();
  const dpi::emu::Handles& handles = dpi::emu::live_handles();
  *out = {static_cast<int64_t>(h.device.size()),
          static_cast<int64_t>(std::accumulate(h.used.begin(), h.used.end(), uint64_t{0})),
          static_cast<int64_t>(h.pinned.size()),
          handles.streams,
          handles.events,
          handles.graphs,
          h.pieces,
          static_cast<int64_t>(h.ranges.size())};
}

extern "C" __attribute__((visibility("default"))) int64_t dpi_emu_device_bytes(int device) {
  if (device < 0 || device >= dpi::emu::kMostDevices) return -1;
  return static_cast<int64_t>(dpi::emu::memory_used(device));
}
