#include "backend/host_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace dpi::backend {
namespace {

// Streams and events have no state, but a caller may compare handles with null: each kind has one object's
// address.
char g_stream;
char g_event;

int32_t host_alloc(dpi_backend_device*, size_t bytes, int32_t, void** out, dpi_backend_error* err) {
  *out = nullptr;
  if (bytes <= SIZE_MAX - kHostAlignment) {
    const size_t rounded =
        (std::max<size_t>(bytes, 1) + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
    *out = std::aligned_alloc(kHostAlignment, rounded);
  }
  if (*out != nullptr) return 0;
  return report({Code::kOutOfMemory, "cannot allocate " + std::to_string(bytes) + " bytes"}, err);
}

void host_free(dpi_backend_device*, void* p, int32_t) { std::free(p); }

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

void copy_text(const std::string& text, char* buf, size_t cap) {
  if (buf == nullptr || cap == 0) return;
  const size_t n = std::min(text.size(), cap - 1);
  std::memcpy(buf, text.data(), n);
  buf[n] = '\0';
}

int32_t report(const Status& status, dpi_backend_error* err) {
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
