#include "handles.hpp"

using dpi::Code;
using dpi::Status;
using dpi::capi::guard;

namespace {

/// Claims a context and runs `body(lease)` on it. What fails is counted on the context's own lines.
template <class Body>
Status on_context(dpi::Model& model, dpi::ContextPool* own, const dpi::RunControl& control, Body&& body) {
  auto claimed = own != nullptr ? model.claim_from(*own, control) : model.claim(control);
  if (!claimed.ok()) return std::move(claimed).status();
  Status s;
  try {
    s = body(*claimed);
  } catch (const std::bad_alloc&) {
    s = Status(Code::kOutOfMemory, "out of memory");
  }
  if (!s.ok()) claimed->counters().add_error(s.code());
  return s;
}

/// Lengths of the flat call that the batch checks do not see.
Status check_lengths(const dpi::Model& model, const dpi::Batch& b, size_t dense_len, size_t offsets_len,
                     size_t weights_len) {
  const auto& l = model.engine().schema().columns;
  const int64_t rows = b.item.rows;
  if (rows < 0) return dpi::invalid_argument("rows is " + std::to_string(rows) + ", expected 0 .. 2^31");
  const int64_t stride = b.item.dense_stride != 0 ? b.item.dense_stride : l.n_columns;
  if (stride < 0 || rows > (int64_t{1} << 31) || stride > (int64_t{1} << 24)) {
    return dpi::invalid_argument("rows or dense_stride is out of range");
  }
  const auto need = static_cast<size_t>(rows > 0 && l.n_columns > 0 ? (rows - 1) * stride + l.n_columns : 0);
  if (dense_len < need) {
    return dpi::invalid_argument("dense_len is " + std::to_string(dense_len) + ", expected at least " +
                                 std::to_string(need));
  }
  const auto bags = static_cast<size_t>(rows * l.n_slots);
  if (b.item.offsets != nullptr && offsets_len != bags + 1) {
    return dpi::invalid_argument("offsets_len is " + std::to_string(offsets_len) +
                                 ", expected rows x slots + 1 = " + std::to_string(bags + 1));
  }
  if (b.item.weights != nullptr && weights_len != static_cast<size_t>(b.item.nnz)) {
    return dpi::invalid_argument("weights_len is " + std::to_string(weights_len) +
                                 ", expected ids_len = " + std::to_string(b.item.nnz));
  }
  return {};
}

Status null_handle(const char* name) { return dpi::invalid_argument(std::string(name) + " is null"); }

}  // namespace

Status dpi::capi::predict(const PredictCall& call, const Batch& batch) {
  Model& model = *call.model->model;
  RunControl control;
  size_t logits_len = 0;
  Status readable = to_control(call.run, &control, &logits_len);
  if (!readable.ok()) return model.refuse(std::move(readable));
  return on_context(model, call.own, control, [&](ContextPool::Lease& lease) -> Status {
    if (call.pass != nullptr) call.pass->leave();
    const int64_t heads = model.engine().heads();
    DPI_RETURN_IF_ERROR(check_logits(control, logits_len, batch.item.rows, heads));
    DPI_RETURN_IF_ERROR(check_out(call.out, call.out_len, batch.item.rows, heads));
    DPI_RETURN_IF_ERROR(model.run(lease, batch, call.out, control));
    if (control.version != nullptr) *control.version = model.version();
    return {};
  });
}

Status dpi::capi::check_flat(const Model& model, FlatCall* call) {
  if (call->layout != DPI_LAYOUT_ROW_MAJOR && call->layout != DPI_LAYOUT_SLOT_MAJOR) {
    return invalid_argument("layout is " + std::to_string(call->layout));
  }
  call->batch.slot_major = call->layout == DPI_LAYOUT_SLOT_MAJOR;
  return check_lengths(model, call->batch, call->dense_len, call->offsets_len, call->weights_len);
}

Status dpi::capi::predict_flat(Model& model, FlatCall& call, float* out, size_t out_len) {
  return on_context(model, nullptr, call.control, [&](ContextPool::Lease& lease) -> Status {
    if (call.pass != nullptr) call.pass->leave();
    DPI_RETURN_IF_ERROR(check_flat(model, &call));
    DPI_RETURN_IF_ERROR(check_out(out, out_len, call.batch.item.rows, model.engine().heads()));
    DPI_RETURN_IF_ERROR(model.run(lease, call.batch, out, call.control));
    if (call.control.version != nullptr) *call.control.version = model.version();
    return {};
  });
}

extern "C" {

dpi_status dpi_predict(dpi_model* model, const dpi_batch* batch, float* out, size_t out_len,
                       const dpi_run_options* run, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr) return null_handle("model");
    dpi::Batch b;
    Status readable = dpi::capi::to_batch(batch, &b);
    if (!readable.ok()) return model->model->refuse(std::move(readable));
    return dpi::capi::predict({model, nullptr, out, out_len, run}, b);
  });
}

dpi_status dpi_predict_flat(dpi_model* model, int64_t rows, const float* dense, size_t dense_len,
                            int64_t dense_stride, const int64_t* ids, size_t ids_len, const int64_t* offsets,
                            size_t offsets_len, const float* weights, size_t weights_len, int32_t layout,
                            float* out, size_t out_len, uint64_t deadline_ns, const volatile int32_t* cancel,
                            dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr) return null_handle("model");
    dpi::capi::FlatCall call;
    call.batch.item = {rows, dense, dense_stride, ids, offsets, weights, static_cast<int64_t>(ids_len)};
    call.dense_len = dense_len;
    call.offsets_len = offsets_len;
    call.weights_len = weights_len;
    call.layout = layout;
    call.control.deadline_ns = deadline_ns;
    call.control.cancel = cancel;
    return dpi::capi::predict_flat(*model->model, call, out, out_len);
  });
}

dpi_status dpi_context_create(dpi_model* model, int64_t max_rows, int64_t max_nnz, dpi_context** out,
                              dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr || out == nullptr) return null_handle("model or out");
    if (max_rows < 1 || max_rows > 1048576) return dpi::invalid_argument("max_rows must be in 1 .. 1048576");
    const dpi::capi::Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    DPI_RETURN_IF_ERROR(model->model->check_process());
    const dpi::Engine& e = model->model->engine();
    const auto& l = e.schema().columns;
    const int64_t slots = l.n_slots;
    const int64_t nnz = max_nnz > 0 ? max_nnz : max_rows * slots;
    if (nnz < max_rows * slots && l.n_slots > 0) {
      return dpi::invalid_argument(
          "max_nnz is " + std::to_string(max_nnz) +
          ", expected at least max_rows x slots = " + std::to_string(max_rows * slots) + " (or 0 for that)");
    }
    if (nnz > (int64_t{1} << 32)) return dpi::invalid_argument("max_nnz must be at most 2^32");
    auto c = std::make_unique<dpi_context>();
    c->max_rows = max_rows;
    c->max_nnz = nnz;
    const auto size = [](int64_t n) { return static_cast<size_t>(n); };
    c->dense.resize(size(max_rows * l.n_columns));
    c->ids.resize(size(nnz));
    c->weights.resize(size(nnz), 1.0f);
    c->offsets.resize(size(max_rows * slots + 1));
    c->out.resize(size(max_rows * e.heads()));
    const int64_t chunk = std::min(max_rows, e.options().max_rows);
    DPI_ASSIGN_OR_RETURN(c->own, model->model->make_own_context(chunk, std::max(nnz, e.options().max_nnz)));
    c->model = model;
    dpi_model_retain(model);
    *out = c.release();
    return {};
  });
}

dpi_status dpi_context_get_view(dpi_context* context, dpi_context_view* view, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (context == nullptr || view == nullptr) return null_handle("context or view");
    dpi_context_view v{};
    v.max_rows = context->max_rows;
    v.max_nnz = context->max_nnz;
    v.dense = context->dense.data();
    v.ids = context->ids.data();
    v.offsets = context->offsets.data();
    v.weights = context->weights.data();
    v.out = context->out.data();
    return dpi::capi::write_struct(view, "dpi_context_view", dpi::capi::kContextView10, sizeof v, &v);
  });
}

dpi_status dpi_context_predict(dpi_context* context, int64_t rows, int64_t nnz, int32_t use_weights,
                               const dpi_run_options* run, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_handle("context");
    dpi::Model& model = *context->model->model;
    if (rows < 0 || rows > context->max_rows || nnz > context->max_nnz) {
      return model.refuse(dpi::invalid_argument(
          "rows = " + std::to_string(rows) + ", nnz = " + std::to_string(nnz) + ": the context holds " +
          std::to_string(context->max_rows) + " rows and " + std::to_string(context->max_nnz) + " ids"));
    }
    const int64_t slots = model.engine().schema().columns.n_slots;
    dpi::Batch b;
    b.item.rows = rows;
    b.item.dense = context->dense.data();
    b.item.ids = context->ids.data();
    b.item.offsets = nnz >= 0 ? context->offsets.data() : nullptr;
    b.item.nnz = nnz >= 0 ? nnz : rows * slots;
    b.item.weights = use_weights != 0 ? context->weights.data() : nullptr;
    return dpi::capi::predict(
        {context->model, context->own.get(), context->out.data(), context->out.size(), run}, b);
  });
}

dpi_status dpi_context_predict_batch(dpi_context* context, const dpi_batch* batch, float* out, size_t out_len,
                                     const dpi_run_options* run, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (context == nullptr) return null_handle("context");
    dpi::Batch b;
    Status readable = dpi::capi::to_batch(batch, &b);
    if (!readable.ok()) return context->model->model->refuse(std::move(readable));
    return dpi::capi::predict({context->model, context->own.get(), out, out_len, run}, b);
  });
}

void dpi_context_free(dpi_context* context) noexcept {
  if (context == nullptr) return;
  const dpi::FloatEnvironment standard;
  dpi_model* model = context->model;
  if (!model->model->forked()) {  // see dpi_model_free
    model->model->close_own_context(*context->own);
    delete context;
  }
  dpi_model_free(model);
}

}  // extern "C"
