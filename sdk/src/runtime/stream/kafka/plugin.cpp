// The C boundary: codes and texts out, nothing thrown.
#include <cstring>
#include <new>

#include "base/printable.hpp"
#include "runtime/stream/kafka/consumer.hpp"

struct dpi_stream_handle {
  std::unique_ptr<dpi::kafka::Consumer> consumer;
};

namespace {

using dpi::Code;
using dpi::Status;

int32_t told(Code code, const char* text, int32_t native_code, dpi_stream_error* err) noexcept {
  err->native_code = native_code;
  dpi::copy_printable(text, err->message, sizeof err->message);
  return static_cast<int32_t>(code);
}

template <class F>
int32_t guarded(dpi_stream_error* err, F&& f) noexcept {
  try {
    const Status s = f();
    if (s.ok()) return 0;
    return told(s.code(), s.message().c_str(), s.native_code(), err);
  } catch (const std::bad_alloc&) {
    return told(Code::kOutOfMemory, "kafka: out of memory", 0, err);
  } catch (const std::exception& e) {
    return told(Code::kInternal, e.what(), 0, err);
  } catch (...) {
    return told(Code::kInternal, "kafka: an exception of unknown kind", 0, err);
  }
}

int32_t open(const dpi_stream_options* options, dpi_stream_handle** out, dpi_stream_error* err) {
  return guarded(err, [&]() -> Status {
    auto handle = std::make_unique<dpi_stream_handle>();
    DPI_ASSIGN_OR_RETURN(handle->consumer, dpi::kafka::Consumer::open(*options));
    *out = handle.release();
    return {};
  });
}

void close(dpi_stream_handle* h) { delete h; }

int32_t next(dpi_stream_handle* h, int32_t timeout_ms, dpi_stream_message* out, dpi_stream_error* err) {
  return guarded(err, [&] { return h->consumer->next(timeout_ms, out); });
}

void wake(dpi_stream_handle* h) { h->consumer->wake(); }

int32_t rewind(dpi_stream_handle* h, dpi_stream_error* err) {
  return guarded(err, [&] { return h->consumer->rewind(); });
}

void commit(dpi_stream_handle* h, int64_t offset) {
  dpi_stream_error unheard{};  // next() sends it again
  guarded(&unheard, [&]() -> Status {
    h->consumer->commit(offset);
    return {};
  });
}

void read_state(dpi_stream_handle* h, dpi_stream_state* out) { h->consumer->read_state(out); }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int32_t dpi_stream_init_v1(uint32_t abi_version, dpi_stream_api* out) {
  std::memset(out, 0, sizeof *out);
  out->abi_version = DPI_STREAM_ABI;
  if (abi_version != DPI_STREAM_ABI) return static_cast<int32_t>(Code::kVersion);
  out->struct_size = sizeof *out;
  out->name = "kafka";
  out->open = open;
  out->close = close;
  out->next = next;
  out->wake = wake;
  out->rewind = rewind;
  out->commit = commit;
  out->read_state = read_state;
  return 0;
}

__attribute__((visibility("default"))) const char* dpi_stream_layout_v1() { return DPI_STREAM_LAYOUT; }

}  // extern "C"
