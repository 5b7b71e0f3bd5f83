#include <string_view>

#include "handles.hpp"

using dpi::Status;
using dpi::capi::guard;

namespace {

/// Calls `body(RawRows&)` behind the wall, or says that the handle is null.
template <class Body>
dpi_status with_rows(dpi_rows* rows, dpi_error* error, Body&& body) noexcept {
  return guard(error, [&]() -> Status {
    if (rows == nullptr) return dpi::invalid_argument("rows is null");
    return body(*rows->rows);
  });
}

/// Calls `body(RawRows&, text)` with the caller's text.
template <class Body>
dpi_status with_text(dpi_rows* rows, const char* value, int64_t len, dpi_error* error, Body&& body) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) -> Status {
    if (value == nullptr && len != 0) return dpi::invalid_argument("value is null");
    return body(r, value == nullptr ? std::string_view()
                   : len < 0        ? std::string_view(value)
                                    : std::string_view(value, static_cast<size_t>(len)));
  });
}

}  // namespace

extern "C" {

dpi_status dpi_rows_create(dpi_model* model, dpi_rows** out, dpi_error* error) noexcept {
  return guard(error, [&]() -> Status {
    if (model == nullptr || out == nullptr) return dpi::invalid_argument("model or out is null");
    const dpi::capi::Visit visit(model);
    DPI_RETURN_IF_ERROR(visit.status());
    auto handle = std::make_unique<dpi_rows>();
    DPI_ASSIGN_OR_RETURN(handle->rows, dpi::RawRows::create(*model->model));
    handle->model = model;
    dpi_model_retain(model);
    *out = handle.release();
    return {};
  });
}

void dpi_rows_clear(dpi_rows* rows) noexcept {
  if (rows != nullptr) rows->rows->clear();
}

dpi_status dpi_rows_begin(dpi_rows* rows, dpi_error* error) noexcept {
  return with_rows(rows, error, [](dpi::RawRows& r) { return r.begin_row(); });
}

dpi_status dpi_rows_begin_shared(dpi_rows* rows, dpi_error* error) noexcept {
  return with_rows(rows, error, [](dpi::RawRows& r) { return r.begin_shared(); });
}

dpi_status dpi_rows_set_text(dpi_rows* rows, int32_t feature, const char* value, int64_t len,
                             dpi_error* error) noexcept {
  return with_text(rows, value, len, error,
                   [&](dpi::RawRows& r, std::string_view text) { return r.set_text(feature, text); });
}

dpi_status dpi_rows_add_text(dpi_rows* rows, int32_t feature, const char* value, int64_t len, float weight,
                             dpi_error* error) noexcept {
  return with_text(rows, value, len, error,
                   [&](dpi::RawRows& r, std::string_view text) { return r.add_text(feature, text, weight); });
}

dpi_status dpi_rows_set_number(dpi_rows* rows, int32_t feature, double value, dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) { return r.set_number(feature, value); });
}

dpi_status dpi_rows_set_integer(dpi_rows* rows, int32_t feature, int64_t value, dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) { return r.set_integer(feature, value); });
}

dpi_status dpi_rows_set_unsigned(dpi_rows* rows, int32_t feature, uint64_t value, dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) { return r.set_unsigned(feature, value); });
}

dpi_status dpi_rows_add_integers(dpi_rows* rows, int32_t feature, const int64_t* values, const float* weights,
                                 int64_t n, dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) { return r.add_integers(feature, values, weights, n); });
}

dpi_status dpi_rows_set_ids(dpi_rows* rows, int32_t feature, const int64_t* ids, const float* weights,
                            int64_t n, dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) { return r.set_ids(feature, ids, weights, n); });
}

dpi_status dpi_rows_set_floats(dpi_rows* rows, int32_t feature, const float* values, int64_t n,
                               dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) { return r.set_floats(feature, values, n); });
}

dpi_status dpi_rows_get_batch(dpi_rows* rows, dpi_batch* batch, dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) -> Status {
    if (batch == nullptr) return dpi::invalid_argument("batch is null");
    const dpi::Batch b = r.batch();
    dpi_batch o{};
    o.rows = b.item.rows;
    o.dense = b.item.dense;
    o.ids = b.item.ids;
    o.offsets = b.item.offsets;
    o.weights = b.item.weights;
    o.nnz = b.item.nnz;
    o.shared_rows = b.shared.rows;
    o.shared_offsets = b.shared_offsets;
    o.shared_dense = b.shared.dense;
    o.shared_ids = b.shared.ids;
    o.shared_bag_offsets = b.shared.offsets;
    o.shared_weights = b.shared.weights;
    o.shared_nnz = b.shared.nnz;
    return dpi::capi::write_struct(batch, "dpi_batch", DPI_BATCH_1_0_SIZE, sizeof o, &o);
  });
}

int64_t dpi_rows_count(const dpi_rows* rows) noexcept { return rows != nullptr ? rows->rows->rows() : 0; }

dpi_status dpi_rows_predict(dpi_rows* rows, float* out, size_t out_len, const dpi_run_options* run,
                            dpi_error* error) noexcept {
  return with_rows(rows, error, [&](dpi::RawRows& r) -> Status {
    return dpi::capi::predict({rows->model, nullptr, out, out_len, run}, r.batch());
  });
}

void dpi_rows_free(dpi_rows* rows) noexcept {
  if (rows == nullptr) return;
  dpi_model* model = rows->model;
  delete rows;
  dpi_model_free(model);
}

}  // extern "C"
