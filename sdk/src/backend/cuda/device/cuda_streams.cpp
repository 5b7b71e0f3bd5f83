// Streams, events, copies and graphs of the CUDA backend: each call chooses the handle's device and passes on
// to the device layer.
#include <cstring>
#include <new>

#include "backend/cuda/device/cuda_handles.hpp"
#include "kernels/cuda/lookup/row_cache.hpp"
#include "kernels/cuda/ops/fetch.hpp"

namespace dpi::backend {
namespace {

/// A handle of what was made; without memory for it `undo` takes that back.
template <class Handle>
int32_t wrap(int code, CudaHandle made, Handle** out, const char* what, int (*undo)(void*),
             dpi_backend_error* err) noexcept {
  if (code != 0) return done(code, what, err);
  auto* handle = new (std::nothrow) CudaHandle{made};
  if (handle == nullptr) {
    undo(made.native);
    return report(Code::kOutOfMemory, "out of memory", err);
  }
  *out = reinterpret_cast<Handle*>(handle);
  return 0;
}

int32_t cuda_stream_create(dpi_backend_device* d, int32_t priority, dpi_backend_stream** out,
                           dpi_backend_error* err) {
  CudaHandle made{nullptr, device_of(d).index};
  layer::use(made.device);
  const int code = layer::stream_create(priority, &made.native);
  return wrap(code, made, out, "a stream", layer::stream_destroy, err);
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
  const int code = layer::event_create(device_of(d).debug, &made.native);
  return wrap(code, made, out, "an event", layer::event_destroy, err);
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

// ---- graphs

int32_t cuda_event_elapsed(dpi_backend_event* from, dpi_backend_event* to, float* ms,
                           dpi_backend_error* err) {
  layer::use(handle_of(from).device);
  return done(layer::event_elapsed(handle_of(from).native, handle_of(to).native, ms), "time between events",
              err);
}

int32_t cuda_capture_begin(dpi_backend_stream* s, dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(layer::capture_begin(handle_of(s).native), "starting a capture", err);
}

int32_t cuda_capture_end(dpi_backend_stream* s, dpi_backend_graph** out, dpi_backend_error* err) {
  *out = nullptr;
  CudaHandle made{nullptr, handle_of(s).device};
  layer::use(made.device);
  const int code = layer::capture_end(handle_of(s).native, &made.native);
  return wrap(code, made, out, "capturing a graph", layer::graph_free, err);
}

int32_t cuda_graph_launch(dpi_backend_graph* g, dpi_backend_stream* s, dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(layer::graph_launch(handle_of(g).native, handle_of(s).native), "launching a graph", err);
}

void cuda_graph_free(dpi_backend_device*, dpi_backend_graph* g) {
  layer::use(handle_of(g).device);
  layer::graph_free(handle_of(g).native);
  delete &handle_of(g);
}

int32_t cuda_graph_text(dpi_backend_graph* g, char* text, size_t cap, dpi_backend_error* err) {
  return guarded(err, [&]() -> Status {
    std::string whole;
    layer::use(handle_of(g).device);
    const int code = layer::graph_text(handle_of(g).native, &whole);
    if (code != 0) return native_status(code, "reading a graph");
    copy_text(whole, text, cap);
    return ok_status();
  });
}

int32_t cuda_fetch_in(dpi_backend_stream* s, void* dst, const void* staging, const dpi_fetch_range* ranges,
                      int32_t n_ranges, dpi_backend_error* err) {
  kernels::cuda::FetchArgs a;
  if (n_ranges < 0 || n_ranges > kernels::cuda::kMaxFetchRanges)
    return guarded(err, [&] {
      return invalid_argument("fetch of " + std::to_string(n_ranges) + " ranges, expected at most " +
                              std::to_string(kernels::cuda::kMaxFetchRanges));
    });
  a.dst = static_cast<char*>(dst);
  a.staging = static_cast<const char*>(staging);
  a.n_ranges = n_ranges;
  for (int32_t i = 0; i < n_ranges; ++i)
    a.ranges[i] = {ranges[i].offset, ranges[i].bytes, ranges[i].count_at};
  layer::use(handle_of(s).device);
  return done(kernels::cuda::fetch(a, handle_of(s).native), "fetching the input", err);
}

int32_t cuda_place_rows(dpi_backend_stream* s, void* dst, size_t dst_stride, const void* staging,
                        size_t row_bytes, int64_t n_rows, dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(kernels::cuda::place(static_cast<char*>(dst), static_cast<int64_t>(dst_stride),
                                   static_cast<const char*>(staging), static_cast<int64_t>(row_bytes), n_rows,
                                   handle_of(s).native),
              "placing rows", err);
}

int32_t cuda_cache_rows(dpi_backend_stream* s, void* lines, const void* rows, size_t row_bytes,
                        const kernels::CacheChange* changes, int32_t n, dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(
      kernels::cuda::copy_cache_rows(static_cast<char*>(lines), static_cast<const char*>(rows),
                                     static_cast<int64_t>(row_bytes), changes, n, handle_of(s).native),
      "copying rows to a cache", err);
}

int32_t cuda_cache_tags(dpi_backend_stream* s, uint32_t* tags, const kernels::CacheChange* changes, int32_t n,
                        dpi_backend_error* err) {
  layer::use(handle_of(s).device);
  return done(kernels::cuda::set_cache_tags(tags, changes, n, handle_of(s).native), "changing a cache", err);
}

}  // namespace

void fill_stream_functions(dpi_backend_api* api) {
  api->stream_create = cuda_stream_create;
  api->stream_destroy = cuda_stream_destroy;
  api->stream_synchronize = cuda_stream_synchronize;
  api->event_create = cuda_event_create;
  api->event_destroy = cuda_event_destroy;
  api->event_record = cuda_event_record;
  api->event_wait = cuda_event_wait;
  api->copy_in = cuda_stream_copy;
  api->copy_out = cuda_stream_copy;
  api->event_elapsed = cuda_event_elapsed;
  api->capture_begin = cuda_capture_begin;
  api->capture_end = cuda_capture_end;
  api->graph_launch = cuda_graph_launch;
  api->graph_free = cuda_graph_free;
  api->graph_text = cuda_graph_text;
  api->fetch_in = cuda_fetch_in;
  api->place_rows = cuda_place_rows;
  api->cache_rows = cuda_cache_rows;
  api->cache_tags = cuda_cache_tags;
}

}  // namespace dpi::backend
