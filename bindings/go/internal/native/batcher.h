/* batcher.h - the batcher's calls as Go makes them: a batch from its parts on the C stack, and the C memory
 * that the library keeps between a submit and its completion. */
#ifndef DPI_GO_BATCHER_H
#define DPI_GO_BATCHER_H
#include <dpi/batcher.h>

#include "hot.h"

/* What one submitted request leaves with the library: scores, version and cancel flag. Go's memory is read
 * until the submit returns, and never after. */
typedef struct dpi_go_job {
  dpi_go_call call;
  uint64_t ticket;
  uint64_t out_len;
  float out[];
} dpi_go_job;

enum { DPI_GO_COMPLETIONS = 32 };

static inline dpi_go_job* dpi_go_job_new(uint64_t out_len) {
  dpi_go_job* j = calloc(1, sizeof *j + (size_t)out_len * sizeof(float));
  if (j != NULL) {
    dpi_go_call_init(&j->call);
    j->out_len = out_len;
  }
  return j;
}

/* Scores a batch through the batcher (job 0), or leaves it there with a job. The caller has checked the
 * lengths. */
static inline int32_t dpi_go_batcher_batch(uintptr_t batcher, uintptr_t job, uintptr_t call, int64_t rows,
                                           const float* dense, int64_t dense_stride, const int64_t* ids,
                                           int64_t nnz, const int64_t* offsets, const float* weights,
                                           int32_t layout, int64_t shared_rows, const int64_t* shared_offsets,
                                           const float* shared_dense, int64_t shared_dense_stride,
                                           const int64_t* shared_ids, int64_t shared_nnz,
                                           const int64_t* shared_bag_offsets, const float* shared_weights,
                                           float* out, int64_t out_len, int64_t timeout_ns) {
  dpi_go_job* j = (dpi_go_job*)job;
  dpi_go_call* c = j != NULL ? &j->call : (dpi_go_call*)call;
  dpi_batch b;
  dpi_go_fill_batch(&b, rows, dense, dense_stride, ids, nnz, offsets, weights, layout, shared_rows,
                    shared_offsets, shared_dense, shared_dense_stride, shared_ids, shared_nnz,
                    shared_bag_offsets, shared_weights);
  c->run.deadline_ns = dpi_go_deadline(timeout_ns);
  if (j != NULL)
    return dpi_batcher_submit((dpi_batcher*)batcher, &b, j->out, (size_t)j->out_len, &c->run, (uint64_t)job,
                              &j->ticket, &c->error);
  return dpi_batcher_predict((dpi_batcher*)batcher, &b, out, (size_t)out_len, &c->run, &c->error);
}

/* How many completions came within the time. */
static inline int64_t dpi_go_batcher_poll(uintptr_t batcher, dpi_completion* completions,
                                          int64_t timeout_us) {
  size_t n = 0;
  completions->struct_size = sizeof *completions;
  const dpi_status status =
      dpi_batcher_poll((dpi_batcher*)batcher, completions, DPI_GO_COMPLETIONS, timeout_us, &n, NULL);
  return status == DPI_OK ? (int64_t)n : 0;
}

static inline int32_t dpi_go_batcher_rows_submit(uintptr_t batcher, uintptr_t rows, uintptr_t job,
                                                 int64_t timeout_ns) {
  dpi_go_job* j = (dpi_go_job*)job;
  j->call.run.deadline_ns = dpi_go_deadline(timeout_ns);
  return dpi_batcher_rows_submit((dpi_batcher*)batcher, (dpi_rows*)rows, j->out, (size_t)j->out_len,
                                 &j->call.run, (uint64_t)job, &j->ticket, &j->call.error);
}
#endif
