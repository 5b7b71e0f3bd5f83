#include "backend/host_device.hpp"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/huge_page.hpp"
#include "base/mapped_memory.hpp"

namespace dpi::backend {
namespace {

// Streams and events have no state, but a caller may compare handles with null: each kind has one object's
// address.
char g_stream;
char g_event;

HostMemory& memory_of(dpi_backend_device* d) { return *reinterpret_cast<HostDevice*>(d)->memory; }

const char* precision_name(int32_t precision) {
  constexpr const char* kNames[] = {"fp32", "tf32", "fp16", "bf16", "int8"};  // as dpi_backend.h numbers them
  return precision >= 0 && precision < 5 ? kNames[precision] : "of an unknown number";
}

/// Large blocks start at a huge page and ask for huge pages: random rows of a table would otherwise miss the
/// translation cache.
int32_t host_alloc(dpi_backend_device* d, size_t bytes, int32_t kind, void** out, dpi_backend_error* err) {
  *out = nullptr;
  const size_t alignment = bytes >= kHugePage ? kHugePage : size_t{kHostAlignment};
  return guarded(err, [&] { return memory_of(d).allocate(bytes, alignment, kind, out); });
}

void host_free(dpi_backend_device* d, void* p, int32_t kind) { memory_of(d).release(p, kind); }

int32_t host_copy(dpi_backend_device*, void* dst, const void* src, size_t bytes, dpi_backend_error*) {
  if (bytes > 0) std::memmove(dst, src, bytes);
  return 0;
}

int32_t stream_copy(dpi_backend_stream*, void* dst, const void* src, size_t bytes, dpi_backend_error*) {
  if (bytes > 0 && dst != src) std::memmove(dst, src, bytes);
  return 0;
}

int32_t stream_create(dpi_backend_device*, int32_t, dpi_backend_stream** out, dpi_backend_error*) {
  *out = reinterpret_cast<dpi_backend_stream*>(&g_stream);
  return 0;
}

void stream_destroy(dpi_backend_device*, dpi_backend_stream*) {}

int32_t stream_synchronize(dpi_backend_stream*, dpi_backend_error*) { return 0; }

int32_t event_create(dpi_backend_device*, dpi_backend_event** out, dpi_backend_error*) {
  *out = reinterpret_cast<dpi_backend_event*>(&g_event);
  return 0;
}

void event_destroy(dpi_backend_device*, dpi_backend_event*) {}

// Every op is done when enqueue returns, so there is nothing to wait for.
int32_t event_record(dpi_backend_event*, dpi_backend_stream*, dpi_backend_error*) { return 0; }
int32_t event_wait(dpi_backend_event*, dpi_backend_stream*, dpi_backend_error*) { return 0; }

}  // namespace

Status check_precision(const char* backend, const dpi_backend_options& options,
                       std::initializer_list<int32_t> others) {
  const int32_t asked = options.precision;
  if (asked == 0 || std::find(others.begin(), others.end(), asked) != others.end()) return {};
  std::string has = "fp32";
  for (const int32_t other : others) has += std::string(", ") + precision_name(other);
  return unsupported(std::string(backend) + " computes in " + has + " only, precision " +
                     precision_name(asked) + " was asked; use fp32, or device=cuda");
}

void* HostMemory::take(size_t bytes, size_t alignment, int32_t kind) {
  if (hooks_ != nullptr) return hooks_->alloc(hooks_->self, bytes, alignment, kind);
  void* p = nullptr;
  if (bytes >= kMappedFrom)
    p = map_memory(bytes, alignment);
  else if (::posix_memalign(&p, alignment, bytes) != 0)
    return nullptr;
  if (p != nullptr && alignment == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // advice: may be refused
  return p;
}

Status HostMemory::allocate(size_t bytes, size_t alignment, int32_t kind, void** out) {
  *out = nullptr;
  // Whole lines, not whole huge pages: nothing is taken that the forecast of memory does not count.
  const size_t rounded = (std::max<size_t>(bytes, 1) + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  void* const p = rounded >= bytes ? take(rounded, alignment, kind) : nullptr;
  if (p == nullptr) return {Code::kOutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes"};
  if (hooks_ != nullptr && reinterpret_cast<uintptr_t>(p) % alignment != 0) {
    hooks_->free(hooks_->self, p, rounded, kind);
    return invalid_argument("the environment's memory hook gave a block that is not aligned to " +
                            std::to_string(alignment) + " bytes");
  }
  const bool remembered = hooks_ != nullptr || rounded >= kMappedFrom;
  if (remembered && !remember(p, rounded)) {
    give_back(p, rounded, kind);
    return {Code::kOutOfMemory, "no memory to keep track of a block"};
  }
  count(static_cast<int64_t>(remembered ? rounded : malloc_usable_size(p)));
  *out = p;
  return {};
}

bool HostMemory::remember(void* p, size_t bytes) try {
  const std::lock_guard<std::mutex> lock(mutex_);
  bytes_[p] = bytes;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

void HostMemory::give_back(void* p, size_t bytes, int32_t kind) {
  if (hooks_ != nullptr) return hooks_->free(hooks_->self, p, bytes, kind);
  unmap_memory(p, bytes);
}

void HostMemory::release(void* p, int32_t kind) {
  size_t bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = bytes_.find(p);
    if (found != bytes_.end()) {
      bytes = found->second;
      bytes_.erase(found);
    }
  }
  if (bytes > 0) {
    count(-static_cast<int64_t>(bytes));
    return give_back(p, bytes, kind);
  }
  if (hooks_ != nullptr || p == nullptr) return;
  count(-static_cast<int64_t>(malloc_usable_size(p)));
  std::free(p);
}

void copy_text(std::string_view text, char* buf, size_t cap) noexcept {
  if (buf == nullptr || cap == 0) return;
  const size_t n = std::min(text.size(), cap - 1);
  std::memcpy(buf, text.data(), n);
  buf[n] = '\0';
}

int32_t report(Code code, const char* text, dpi_backend_error* err) noexcept {
  err->native_code = 0;
  copy_text(text, err->message, sizeof(err->message));
  return static_cast<int32_t>(code);
}

int32_t report(const Status& status, dpi_backend_error* err) noexcept {
  err->native_code = status.native_code();
  copy_text(status.message(), err->message, sizeof(err->message));
  return static_cast<int32_t>(status.code());
}

void fill_host_members(dpi_backend_api* api) {
  api->alloc = host_alloc;
  api->free = host_free;
  api->upload = host_copy;
  api->download = host_copy;
  api->stream_create = stream_create;
  api->stream_destroy = stream_destroy;
  api->stream_synchronize = stream_synchronize;
  api->event_create = event_create;
  api->event_destroy = event_destroy;
  api->event_record = event_record;
  api->event_wait = event_wait;
  api->copy_in = stream_copy;
  api->copy_out = stream_copy;
}

void fill_host_memory(dpi_backend_caps* caps) {
  const auto page = static_cast<uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  caps->memory_total = page * static_cast<uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES)));
  caps->memory_free = page * static_cast<uint64_t>(std::max(0L, sysconf(_SC_AVPHYS_PAGES)));
}

}  // namespace dpi::backend
