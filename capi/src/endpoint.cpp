// Endpoints: the current version is found behind a gate, which is left as soon as a context of its model is
// claimed; the rest of a call is that of dpi_predict.
#include <dpi/metrics.h>

#include "endpoint_handle.hpp"
#include "handles.hpp"

using dpi::Endpoint;
using dpi::Gate;
using dpi::Status;
using dpi::capi::guard;
using dpi::capi::HandleVersion;
using dpi::capi::with_current;
using dpi::capi::with_endpoint;

namespace {

std::unique_ptr<dpi::Version> wrap(std::unique_ptr<dpi::Model> model) {
  auto handle = std::make_unique<dpi_model>();
  handle->model = std::move(model);
  auto version = std::make_unique<HandleVersion>(handle.get());
  version->handle = handle.release();
  return version;
}

template <class Make>
size_t json_of(const dpi_endpoint* endpoint, char* buf, size_t cap, Make&& make) noexcept {
  if (cap > 0 && buf != nullptr) buf[0] = '\0';
  if (endpoint == nullptr || endpoint->endpoint->forked())
    return 0;  // a thread that the child has not may hold a lock
  const dpi::FloatEnvironment standard;
  try {
    return dpi::capi::give_text(make(*endpoint->endpoint), buf, cap);
  } catch (...) {
    return 0;
  }
}

}  // namespace

extern "C" {

dpi_status dpi_endpoint_create(const char* name, const dpi_options* options, dpi_endpoint** out,
                               dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (name == nullptr || out == nullptr) return dpi::invalid_argument("name or out is null");
    auto handle = std::make_unique<dpi_endpoint>();
    const dpi::ModelOptions defaults;
    DPI_ASSIGN_OR_RETURN(handle->endpoint,
                         Endpoint::create(name, options != nullptr ? options->values : defaults, wrap));
    *out = handle.release();
    return {};
  });
}

void dpi_endpoint_free(dpi_endpoint* endpoint) noexcept {
  if (endpoint == nullptr || endpoint->endpoint->forked()) return;  // see dpi_model_free
  const dpi::FloatEnvironment standard;
  delete endpoint;
}

dpi_status dpi_endpoint_set(dpi_endpoint* endpoint, const char* key, const char* value,
                            dpi_error* error) noexcept {
  return with_endpoint(endpoint, error, [&](Endpoint& e) -> Status {
    if (key == nullptr || value == nullptr) return dpi::invalid_argument("key or value is null");
    return e.set(key, value);
  });
}

dpi_status dpi_endpoint_load(dpi_endpoint* endpoint, const char* path, uint64_t number,
                             dpi_error* error) noexcept {
  return with_endpoint(endpoint, error, [&](Endpoint& e) -> Status {
    if (path == nullptr) return dpi::invalid_argument("path is null");
    return e.load(dpi::Update::of_file(path, number));
  });
}

dpi_status dpi_endpoint_rollback(dpi_endpoint* endpoint, dpi_error* error) noexcept {
  return with_endpoint(endpoint, error, [](Endpoint& e) { return e.rollback(); });
}

dpi_status dpi_endpoint_predict(dpi_endpoint* endpoint, const dpi_batch* batch, float* out, size_t out_len,
                                const dpi_run_options* run, dpi_error* error) noexcept {
  return with_current(endpoint, error, [&](Gate::Pass& pass, dpi_model* model) -> Status {
    dpi::Batch b;
    Status readable = dpi::capi::to_batch(batch, &b);
    if (!readable.ok()) return model->model->refuse(std::move(readable));
    return dpi::capi::predict({model, nullptr, out, out_len, run, &pass}, b);
  });
}

dpi_status dpi_endpoint_predict_flat(dpi_endpoint* endpoint, int64_t rows, const float* dense,
                                     size_t dense_len, int64_t dense_stride, const int64_t* ids,
                                     size_t ids_len, const int64_t* offsets, size_t offsets_len,
                                     const float* weights, size_t weights_len, int32_t layout, float* out,
                                     size_t out_len, uint64_t deadline_ns, const volatile int32_t* cancel,
                                     uint64_t* version, dpi_error* error) noexcept {
  return with_current(endpoint, error, [&](Gate::Pass& pass, dpi_model* model) -> Status {
    dpi::capi::FlatCall call;
    call.batch.item = {rows, dense, dense_stride, ids, offsets, weights, static_cast<int64_t>(ids_len)};
    call.dense_len = dense_len;
    call.offsets_len = offsets_len;
    call.weights_len = weights_len;
    call.layout = layout;
    call.control.deadline_ns = deadline_ns;
    call.control.cancel = cancel;
    call.control.version = version;
    call.pass = &pass;
    return dpi::capi::predict_flat(*model->model, call, out, out_len);
  });
}

dpi_status dpi_endpoint_acquire(dpi_endpoint* endpoint, dpi_model** out, dpi_error* error) noexcept {
  return with_current(endpoint, error, [&](Gate::Pass&, dpi_model* model) -> Status {
    if (out == nullptr) return dpi::invalid_argument("out is null");
    dpi_model_retain(model);
    *out = model;
    return {};
  });
}

uint64_t dpi_endpoint_version(const dpi_endpoint* endpoint) noexcept {
  return endpoint != nullptr && !endpoint->endpoint->forked() ? endpoint->endpoint->number() : 0;
}

dpi_status dpi_endpoint_wait(dpi_endpoint* endpoint, uint64_t number, uint64_t deadline_ns,
                             dpi_error* error) noexcept {
  return with_endpoint(endpoint, error, [&](Endpoint& e) { return e.wait(number, deadline_ns); });
}

dpi_status dpi_endpoint_follow(dpi_endpoint* endpoint, const char* folder, dpi_error* error) noexcept {
  return with_endpoint(endpoint, error, [&](Endpoint& e) -> Status {
    if (folder == nullptr) return dpi::invalid_argument("folder is null");
    return e.follow(folder);
  });
}

void dpi_endpoint_unfollow(dpi_endpoint* endpoint) noexcept {
  if (endpoint != nullptr) endpoint->endpoint->unfollow();
}

dpi_status dpi_endpoint_subscribe(dpi_endpoint* endpoint, const char* source, const char* folder,
                                  dpi_error* error) noexcept {
  return with_endpoint(endpoint, error, [&](Endpoint& e) -> Status {
    if (source == nullptr || folder == nullptr) return dpi::invalid_argument("source or folder is null");
    return e.subscribe(source, folder);
  });
}

void dpi_endpoint_unsubscribe(dpi_endpoint* endpoint) noexcept {
  if (endpoint != nullptr) endpoint->endpoint->unsubscribe();
}

size_t dpi_endpoint_status_json(const dpi_endpoint* endpoint, char* buf, size_t cap) noexcept {
  return json_of(endpoint, buf, cap, [](const Endpoint& e) { return e.status_json(); });
}

size_t dpi_endpoint_slow_json(const dpi_endpoint* endpoint, char* buf, size_t cap) noexcept {
  return json_of(endpoint, buf, cap, [](const Endpoint& e) { return e.slow_json(); });
}

}  // extern "C"
