// Batchers: a call finds its model, of an endpoint behind its gate, and goes through that model's lane.
#include <dpi/batcher.h>

#include "base/forks.hpp"
#include "endpoint_handle.hpp"
#include "runtime/batch/batcher.hpp"

using dpi::Batcher;
using dpi::BatchRequest;
using dpi::Code;
using dpi::Gate;
using dpi::Lane;
using dpi::Model;
using dpi::Status;
using dpi::Ticket;
using dpi::capi::guard;

struct dpi_batcher {
  std::unique_ptr<Batcher> batcher;
  dpi_model* model = nullptr;  // one reference
  dpi_endpoint* endpoint = nullptr;
  uint64_t forks = dpi::fork_generation();

  bool forked() const { return dpi::fork_generation() != forks; }
};

namespace {

constexpr size_t kCompletion12 = DPI_COMPLETION_1_2_SIZE;
static_assert(sizeof(dpi_completion) == kCompletion12);

/// Calls `body(dpi_batcher&)` behind the wall, in the process that made it.
template <class Body>
dpi_status with_batcher(const dpi_batcher* batcher, dpi_error* error, Body&& body) noexcept {
  return guard(error, [&]() -> Status {
    if (batcher == nullptr) return dpi::invalid_argument("batcher is null");
    if (batcher->forked())
      return {Code::kForked, "the batcher was made before fork(); make another in this process"};
    return body(*const_cast<dpi_batcher*>(batcher));
  });
}

/// Calls `body(model, pass)` with the model that scores the request: `of`, else the batcher's, else the
/// endpoint's version, which stays until the gate is left (pass, null elsewhere).
template <class Body>
dpi_status with_model(dpi_batcher* batcher, dpi_model* of, dpi_error* error, Body&& body) noexcept {
  return with_batcher(batcher, error, [&](dpi_batcher& b) -> Status {
    const Batcher::Visit visit(*b.batcher);
    DPI_RETURN_IF_ERROR(visit.status());
    b.batcher->count_call();
    if (b.model != nullptr && of != nullptr && of != b.model)
      return dpi::invalid_argument("the rows are of another model than the batcher");
    if (of == nullptr) of = b.model;
    if (of != nullptr) {
      DPI_RETURN_IF_ERROR(of->model->check_process());
      return body(*of->model, nullptr);
    }
    dpi::Endpoint& e = *b.endpoint->endpoint;
    Gate::Pass pass(e.gate());
    const dpi::Version* current = e.current();
    return current != nullptr ? body(*current->model, &pass) : e.nothing_loaded();
  });
}

Status make_request(const Model& model, size_t out_len, size_t logits_len, BatchRequest* r) {
  const int64_t heads = model.engine().heads(), rows = r->batch.item.rows;
  DPI_RETURN_IF_ERROR(dpi::capi::check_logits(r->control, logits_len, rows, heads));
  return dpi::capi::check_out(r->out, out_len, rows, heads);
}

/// Where a submitted request's numbers go.
struct Submission {
  uint64_t user = 0;
  uint64_t* ticket = nullptr;
};

Status pass_on(dpi_batcher& b, Model& model, const BatchRequest& request, const Submission* submission) {
  if (submission == nullptr && b.batcher->in_callback())
    return dpi::invalid_argument("dpi_batcher_predict in the batcher's own callback; submit there");
  if (submission != nullptr && submission->ticket == nullptr) return dpi::invalid_argument("ticket is null");
  DPI_ASSIGN_OR_RETURN(Lane* const lane, b.batcher->lane_of(model));
  if (submission == nullptr) return lane->predict(request);
  Status submitted = lane->submit(request, submission->user, submission->ticket);
  return submitted.ok() ? Status() : model.refuse(std::move(submitted));
}

dpi_status score(dpi_batcher* batcher, const dpi_batch* batch, dpi_rows* rows, float* out, size_t out_len,
                 const dpi_run_options* run, const Submission* submission, dpi_error* error) noexcept {
  dpi_model* const of = rows != nullptr ? rows->model : nullptr;
  return with_model(batcher, of, error, [&](Model& model, Gate::Pass* pass) -> Status {
    BatchRequest request;
    request.out = out;
    request.pass = pass;
    size_t logits_len = 0;
    Status good = rows == nullptr ? dpi::capi::to_batch(batch, &request.batch) : Status();
    if (good.ok()) good = dpi::capi::to_control(run, &request.control, &logits_len);
    if (good.ok() && rows != nullptr) request.batch = rows->rows->batch();
    if (good.ok()) good = make_request(model, out_len, logits_len, &request);
    if (!good.ok()) return model.refuse(std::move(good));
    return pass_on(*batcher, model, request, submission);
  });
}

dpi_status score_flat(dpi_batcher* batcher, dpi::capi::FlatCall& call, float* out, size_t out_len,
                      const Submission* submission, dpi_error* error) noexcept {
  return with_model(batcher, nullptr, error, [&](Model& model, Gate::Pass* pass) -> Status {
    Status good = dpi::capi::check_flat(model, &call);
    BatchRequest request{call.batch, out, call.control, pass};
    if (good.ok()) good = make_request(model, out_len, 0, &request);
    if (!good.ok()) return model.refuse(std::move(good));
    return pass_on(*batcher, model, request, submission);
  });
}

dpi_status null_rows(dpi_error* error) noexcept {
  return guard(error, [] { return dpi::invalid_argument("rows is null"); });
}

void fill(const Ticket& t, dpi_completion* c) {
  *c = dpi_completion{};
  c->struct_size = sizeof *c;
  c->error.struct_size = sizeof c->error;
  c->status = dpi::capi::report(t.status, &c->error);
  c->user = t.user;
  c->ticket = t.number;
  c->version = t.version;
  c->queued_ns = t.queued_ns;
  c->run_ns = t.run_ns;
}

/// A batcher without a model yet.
Status make(const dpi_options* options, std::unique_ptr<dpi_batcher>* out) {
  *out = std::make_unique<dpi_batcher>();
  DPI_ASSIGN_OR_RETURN((*out)->batcher,
                       Batcher::create(options != nullptr ? options->batch : dpi::BatchSettings()));
  return {};
}

}  // namespace

extern "C" {

dpi_status dpi_batcher_create(dpi_model* model, const dpi_options* options, dpi_batcher** out,
                              dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr || out == nullptr) return dpi::invalid_argument("model or out is null");
    const dpi::capi::Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    DPI_RETURN_IF_ERROR(model->model->check_process());
    std::unique_ptr<dpi_batcher> b;
    DPI_RETURN_IF_ERROR(make(options, &b));
    DPI_RETURN_IF_ERROR(b->batcher->lane_of(*model->model).status());
    dpi_model_retain(model);
    b->model = model;
    *out = b.release();
    return {};
  });
}

dpi_status dpi_batcher_create_endpoint(dpi_endpoint* endpoint, const dpi_options* options, dpi_batcher** out,
                                       dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (endpoint == nullptr || out == nullptr) return dpi::invalid_argument("endpoint or out is null");
    DPI_RETURN_IF_ERROR(endpoint->endpoint->check_process());
    std::unique_ptr<dpi_batcher> b;
    DPI_RETURN_IF_ERROR(make(options, &b));
    b->endpoint = endpoint;
    *out = b.release();
    return {};
  });
}

dpi_status dpi_batcher_predict(dpi_batcher* batcher, const dpi_batch* batch, float* out, size_t out_len,
                               const dpi_run_options* run, dpi_error* error) noexcept {
  return score(batcher, batch, nullptr, out, out_len, run, nullptr, error);
}

dpi_status dpi_batcher_rows_predict(dpi_batcher* batcher, dpi_rows* rows, float* out, size_t out_len,
                                    const dpi_run_options* run, dpi_error* error) noexcept {
  if (rows == nullptr) return null_rows(error);
  return score(batcher, nullptr, rows, out, out_len, run, nullptr, error);
}

dpi_status dpi_batcher_submit(dpi_batcher* batcher, const dpi_batch* batch, float* out, size_t out_len,
                              const dpi_run_options* run, uint64_t user, uint64_t* ticket,
                              dpi_error* error) noexcept {
  const Submission submission{user, ticket};
  return score(batcher, batch, nullptr, out, out_len, run, &submission, error);
}

dpi_status dpi_batcher_rows_submit(dpi_batcher* batcher, dpi_rows* rows, float* out, size_t out_len,
                                   const dpi_run_options* run, uint64_t user, uint64_t* ticket,
                                   dpi_error* error) noexcept {
  if (rows == nullptr) return null_rows(error);
  const Submission submission{user, ticket};
  return score(batcher, nullptr, rows, out, out_len, run, &submission, error);
}

dpi_status dpi_batcher_predict_flat(dpi_batcher* batcher, int64_t rows, const float* dense, size_t dense_len,
                                    int64_t dense_stride, const int64_t* ids, size_t ids_len,
                                    const int64_t* offsets, size_t offsets_len, const float* weights,
                                    size_t weights_len, int32_t layout, float* out, size_t out_len,
                                    uint64_t deadline_ns, const volatile int32_t* cancel, uint64_t* version,
                                    dpi_error* error) noexcept {
  dpi::capi::FlatCall call;
  call.batch.item = {rows, dense, dense_stride, ids, offsets, weights, static_cast<int64_t>(ids_len)};
  call.dense_len = dense_len;
  call.offsets_len = offsets_len;
  call.weights_len = weights_len;
  call.layout = layout;
  call.control = {deadline_ns, cancel, nullptr, version};
  return score_flat(batcher, call, out, out_len, nullptr, error);
}

dpi_status dpi_batcher_submit_flat(dpi_batcher* batcher, int64_t rows, const float* dense, size_t dense_len,
                                   int64_t dense_stride, const int64_t* ids, size_t ids_len,
                                   const int64_t* offsets, size_t offsets_len, const float* weights,
                                   size_t weights_len, int32_t layout, float* out, size_t out_len,
                                   uint64_t deadline_ns, const volatile int32_t* cancel, uint64_t* version,
                                   uint64_t user, uint64_t* ticket, dpi_error* error) noexcept {
  dpi::capi::FlatCall call;
  call.batch.item = {rows, dense, dense_stride, ids, offsets, weights, static_cast<int64_t>(ids_len)};
  call.dense_len = dense_len;
  call.offsets_len = offsets_len;
  call.weights_len = weights_len;
  call.layout = layout;
  call.control = {deadline_ns, cancel, nullptr, version};
  const Submission submission{user, ticket};
  return score_flat(batcher, call, out, out_len, &submission, error);
}

dpi_status dpi_batcher_cancel(dpi_batcher* batcher, uint64_t ticket, dpi_error* error) noexcept {
  return with_batcher(batcher, error, [&](dpi_batcher& b) -> Status {
    if (b.batcher->cancel(ticket)) return {};
    return {Code::kNotFound, "no request with ticket " + std::to_string(ticket) + " waits"};
  });
}

dpi_status dpi_batcher_poll(dpi_batcher* batcher, dpi_completion* completions, size_t n, int64_t timeout_us,
                            size_t* count, dpi_error* error) noexcept {
  return with_batcher(batcher, error, [&](dpi_batcher& b) -> Status {
    if (completions == nullptr || count == nullptr || n == 0)
      return dpi::invalid_argument("completions or count is null, or n is 0");
    if (timeout_us < 0)
      return dpi::invalid_argument("timeout_us is " + std::to_string(timeout_us) + ", expected 0 or more");
    if (b.batcher->has_callback())
      return dpi::invalid_argument("completions of this batcher go to its callback");
    dpi_completion c{};
    const uint32_t size = completions->struct_size;
    DPI_RETURN_IF_ERROR(dpi::capi::read_struct(completions, "dpi_completion", kCompletion12, sizeof c, &c));
    const auto time = static_cast<uint64_t>(timeout_us);
    const uint64_t now = dpi::monotonic_ns();
    const uint64_t until = time > (UINT64_MAX - now) / 1000 ? UINT64_MAX : now + time * 1000;
    *count = 0;
    DPI_RETURN_IF_ERROR(b.batcher->wait_done(until));
    while (*count < n) {
      Ticket* const t = b.batcher->tickets().next_done();
      if (t == nullptr) break;
      fill(*t, &c);
      b.batcher->tickets().release(t);
      auto* const to = reinterpret_cast<char*>(completions) + size * (*count)++;
      std::memcpy(to, &size, sizeof size);
      DPI_RETURN_IF_ERROR(dpi::capi::write_struct(to, "dpi_completion", kCompletion12, sizeof c, &c));
    }
    return {};
  });
}

int32_t dpi_batcher_fd(const dpi_batcher* batcher) noexcept {
  return batcher != nullptr && !batcher->forked() ? batcher->batcher->tickets().descriptor() : -1;
}

dpi_status dpi_batcher_set_callback(dpi_batcher* batcher, dpi_completion_fn callback, void* user,
                                    dpi_error* error) noexcept {
  return with_batcher(batcher, error, [&](dpi_batcher& b) -> Status {
    if (callback == nullptr) return dpi::invalid_argument("callback is null");
    return b.batcher->set_callback([callback, user](const Ticket& t) {
      dpi_completion c;
      fill(t, &c);
      callback(user, &c);
    });
  });
}

dpi_status dpi_batcher_close(dpi_batcher* batcher, uint64_t deadline_ns, dpi_error* error) noexcept {
  return with_batcher(batcher, error, [&](dpi_batcher& b) { return b.batcher->close(deadline_ns); });
}

void dpi_batcher_free(dpi_batcher* batcher) noexcept {
  if (batcher == nullptr || batcher->forked()) return;  // its threads are not in the child
  const dpi::FloatEnvironment standard;
  dpi_model* const model = batcher->model;
  delete batcher;
  if (model != nullptr) dpi_model_free(model);
}

size_t dpi_batcher_status_json(const dpi_batcher* batcher, char* buf, size_t cap) noexcept {
  if (cap > 0 && buf != nullptr) buf[0] = '\0';
  if (batcher == nullptr || batcher->forked()) return 0;
  const dpi::FloatEnvironment standard;
  try {
    return dpi::capi::give_text(batcher->batcher->status_json(), buf, cap);
  } catch (...) {
    return 0;
  }
}

}  // extern "C"
