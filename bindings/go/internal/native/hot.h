/* hot.h - what the Go package calls besides the generated wrappers: one block of C memory per running call,
 * and predict with handles as integers. Go 1.19 boxes a pointer to an incomplete struct for cgo's check (8
 * bytes, one allocation a call) and SWIG packs its arguments a second time; tests/bench/bindings/go measures
 * both against these functions. */
#ifndef DPI_GO_HOT_H
#define DPI_GO_HOT_H
#include <dpi/endpoint.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Reused from call to call, so that a failing or a cancellable call allocates nothing on the way. */
typedef struct dpi_go_call {
  dpi_error error;
  dpi_run_options run;
  uint64_t version;
  int32_t cancel; /* written by a goroutine while the call runs */
} dpi_go_call;

/* Of zeroed memory. */
static inline void dpi_go_call_init(dpi_go_call* c) {
  c->error.struct_size = sizeof c->error;
  c->run.struct_size = sizeof c->run;
  c->run.cancel = &c->cancel;
  c->run.version = &c->version;
}

static inline dpi_go_call* dpi_go_call_new(void) {
  dpi_go_call* c = calloc(1, sizeof *c);
  if (c != NULL) dpi_go_call_init(c);
  return c;
}

/* timeout_ns from now, 0 = none. */
static inline uint64_t dpi_go_deadline(int64_t timeout_ns) {
  struct timespec now;
  if (timeout_ns <= 0 || clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + (uint64_t)timeout_ns;
}

static inline void dpi_go_prepare(uintptr_t call, int64_t timeout_ns) {
  dpi_go_call* c = (dpi_go_call*)call;
  c->run.deadline_ns = dpi_go_deadline(timeout_ns);
}

/* Lengths are checked by dpi_predict_flat. Nothing of Go's memory is kept. */
static inline int32_t dpi_go_predict(uintptr_t model, uintptr_t call, int64_t rows, const float* dense,
                                     int64_t dense_len, int64_t dense_stride, const int64_t* ids,
                                     int64_t ids_len, const int64_t* offsets, int64_t offsets_len,
                                     const float* weights, int64_t weights_len, int32_t layout, float* out,
                                     int64_t out_len, int64_t timeout_ns, int32_t cancellable) {
  dpi_go_call* c = (dpi_go_call*)call;
  return dpi_predict_flat((dpi_model*)model, rows, dense, (size_t)dense_len, dense_stride, ids,
                          (size_t)ids_len, offsets, (size_t)offsets_len, weights, (size_t)weights_len, layout,
                          out, (size_t)out_len, dpi_go_deadline(timeout_ns), cancellable ? &c->cancel : NULL,
                          &c->error);
}

/* The struct with Go's pointers lives on the C stack for the length of a call only. */
static inline void dpi_go_fill_batch(dpi_batch* b, int64_t rows, const float* dense, int64_t dense_stride,
                                     const int64_t* ids, int64_t nnz, const int64_t* offsets,
                                     const float* weights, int32_t layout, int64_t shared_rows,
                                     const int64_t* shared_offsets, const float* shared_dense,
                                     int64_t shared_dense_stride, const int64_t* shared_ids,
                                     int64_t shared_nnz, const int64_t* shared_bag_offsets,
                                     const float* shared_weights) {
  const dpi_batch none = {0};
  *b = none;
  b->struct_size = sizeof *b;
  b->rows = rows;
  b->dense = dense;
  b->dense_stride = dense_stride;
  b->ids = ids;
  b->offsets = offsets;
  b->weights = weights;
  b->nnz = nnz;
  b->layout = layout;
  b->memory = DPI_MEM_HOST;
  b->shared_rows = shared_rows;
  b->shared_offsets = shared_offsets;
  b->shared_dense = shared_dense;
  b->shared_dense_stride = shared_dense_stride;
  b->shared_ids = shared_ids;
  b->shared_nnz = shared_nnz;
  b->shared_bag_offsets = shared_bag_offsets;
  b->shared_weights = shared_weights;
}

/* A batch with a shared part, or any batch on a context or an endpoint (not 0). The caller has checked the
 * lengths. */
static inline int32_t dpi_go_predict_batch(uintptr_t model, uintptr_t context, uintptr_t endpoint,
                                           uintptr_t call, int64_t rows, const float* dense,
                                           int64_t dense_stride, const int64_t* ids, int64_t nnz,
                                           const int64_t* offsets, const float* weights, int32_t layout,
                                           int64_t shared_rows, const int64_t* shared_offsets,
                                           const float* shared_dense, int64_t shared_dense_stride,
                                           const int64_t* shared_ids, int64_t shared_nnz,
                                           const int64_t* shared_bag_offsets, const float* shared_weights,
                                           float* out, int64_t out_len, int64_t timeout_ns) {
  dpi_go_call* c = (dpi_go_call*)call;
  dpi_batch b;
  dpi_go_fill_batch(&b, rows, dense, dense_stride, ids, nnz, offsets, weights, layout, shared_rows,
                    shared_offsets, shared_dense, shared_dense_stride, shared_ids, shared_nnz,
                    shared_bag_offsets, shared_weights);
  c->run.deadline_ns = dpi_go_deadline(timeout_ns);
  if (context != 0)
    return dpi_context_predict_batch((dpi_context*)context, &b, out, (size_t)out_len, &c->run, &c->error);
  if (endpoint != 0)
    return dpi_endpoint_predict((dpi_endpoint*)endpoint, &b, out, (size_t)out_len, &c->run, &c->error);
  return dpi_predict((dpi_model*)model, &b, out, (size_t)out_len, &c->run, &c->error);
}

static inline int32_t dpi_go_context_predict(uintptr_t context, uintptr_t call, int64_t rows, int64_t nnz,
                                             int32_t weights, int64_t timeout_ns) {
  dpi_go_call* c = (dpi_go_call*)call;
  c->run.deadline_ns = dpi_go_deadline(timeout_ns);
  return dpi_context_predict((dpi_context*)context, rows, nnz, weights, &c->run, &c->error);
}
#endif
