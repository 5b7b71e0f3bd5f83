/* batcher.h - concurrent small requests scored together, and requests that are submitted and complete later.
 * Beside dpi.h, whose conventions hold here too, with two exceptions under Pointers. Since version 1.2
 * (symbols DPI_1.2).
 *
 *   dpi_batcher *b = NULL;
 *   if (dpi_batcher_create(model, NULL, &b, &e) != DPI_OK) ...;
 *   dpi_batcher_predict(b, &batch, score, 1, NULL, &e);                  (as dpi_predict, from any thread)
 *
 *   uint64_t ticket;
 *   dpi_batcher_submit(b, &batch, score, 1, NULL, 7, &ticket, &e);       (returns before the scores are here)
 *   dpi_completion done = DPI_COMPLETION_INIT;
 *   size_t n;
 *   dpi_batcher_poll(b, &done, 1, 1000, &n, &e);                         (done.user is 7, done.status DPI_OK)
 *   dpi_batcher_free(b);
 *
 * Merging. A request that finds a place (batch.running) and nobody waiting runs at once, as by dpi_predict.
 * One that finds none joins a chunk of waiting requests: its ids are resolved straight into the chunk's
 * memory. The chunk runs when a place comes free. After a chunk of several requests even one that finds a
 * place opens a chunk, which gives up its processor (sched_yield) before it runs, as long as callers join
 * that were ready and had none; a chunk of one request ends that. Chunks run in the order in which they were
 * begun, so no request waits for one that came after it, unless that joined its chunk. A chunk holds requests
 * of one version, all with a shared part or all without one. Requests of more than batch.max_rows rows (or
 * shared rows), and those of no rows, run by themselves, and submitted ones of this kind are refused.
 * A chunk holds at most batch.max_rows rows, as many shared rows, and max_nnz ids per sequence feature. It
 * runs on one CPU thread; option threads counts for requests that run by themselves. On a GPU the packed rows
 * of a chunk are copied once more, to where captured graphs read them.
 * What a request gets does not depend on its neighbours: its own scores (with determinism=strict the bits of
 * dpi_predict; else as in a larger batch), its own error, whose row counts in its own batch, and its own
 * verdict of option nonfinite. If a chunk fails for a cause that is no request's own (memory, device, rows of
 * a tiered table that are not cached), each of its requests runs once more by itself, within its deadline.
 * A call through a batcher takes no lock and allocates nothing in steady state, but writes a cache line
 * that all calls through this batcher share. Opening a version's first chunk allocates.
 *
 * Deadlines and cancel flags of the run options count while a request waits. A request that would have to
 * wait is DPI_E_TIMEOUT at once if its deadline comes sooner than a chunk takes, as measured in the last
 * 100 ms.
 *
 * Pointers. dpi_batcher_submit resolves the batch before it returns, so the batch may then be reused. The
 * library keeps `out`, and the run options' `logits`, `version` and `cancel`, until the completion was taken
 * (dpi_batcher_poll), its callback was called, or dpi_batcher_cancel returned DPI_OK. The callback of
 * dpi_batcher_set_callback is kept until dpi_batcher_free.
 *
 * Thread safety: everything but dpi_batcher_free may be called from any number of threads at once. After
 * fork() the child gets DPI_E_FORKED (0 and -1 where there is no status), and dpi_batcher_free releases
 * nothing there.
 */
#ifndef DPI_BATCHER_H
#define DPI_BATCHER_H
#include <dpi/dpi.h>
#include <dpi/endpoint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* ---- batchers ------------------------------------------------------------------------------------------ */
typedef struct dpi_batcher dpi_batcher;

/* Keys of dpi_options_set that a batcher reads; a model ignores them. options may be NULL and may be freed;
 * of its other keys none is used.
 *   batch.max_rows      1 ... 4096      128   rows of a chunk, at most; also at most max_rows of the model
 *   batch.max_delay_us  0 ... 1000000   0     how long a request waits for others; 0: see below
 *   batch.running       0 ... 40        0     chunks and single requests at once; 0 = max_contexts of the
 *                                             model on a CPU, 1 per device on a GPU, 40 at most
 *   batch.queue         1 ... 16        4     chunks that wait; a request beyond them is DPI_E_QUEUE_FULL
 *   batch.threads       1 ... 64        1     threads (dpi-batch) that run what is submitted
 * batch.max_delay_us: with 0 a request waits only while batch.running others run. Otherwise the first request
 * of a chunk waits so long for others, even on an idle machine, or until the chunk is full.
 * The threads start with the batcher, with all signals but those of faults blocked. A model has at most 16
 * batchers (DPI_E_UNSUPPORTED). A batcher keeps its model alive. Memory per version: the packed rows
 * and scores of batch.queue + 2 x batch.running + 2 chunks, from the C library. memory_limit and most_bytes
 * do not count it; memory_bytes of dpi_batcher_status_json does. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_create(dpi_model* model, const dpi_options* options,
                                                    dpi_batcher** out, dpi_error* error) DPI_NOEXCEPT;
/* Each request is scored by the version that serves when it is passed, whose number the run options' version
 * and the completion receive. A version that is replaced is freed once its chunks have run. The endpoint must
 * outlive the batcher. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_create_endpoint(dpi_endpoint* endpoint,
                                                             const dpi_options* options, dpi_batcher** out,
                                                             dpi_error* error) DPI_NOEXCEPT;

/* dpi_predict, dpi_predict_flat and dpi_rows_predict through the batcher. DPI_E_QUEUE_FULL: as many chunks
 * wait as may. DPI_E_CLOSED after dpi_batcher_close. Rows must be of the batcher's model, else
 * DPI_E_INVALID_ARGUMENT; over an endpoint, the version that they were made of scores them. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_predict(dpi_batcher* batcher, const dpi_batch* batch, float* out,
                                                     size_t out_len, const dpi_run_options* run,
                                                     dpi_error* error) DPI_NOEXCEPT;
DPI_API DPI_NODISCARD dpi_status dpi_batcher_predict_flat(
    dpi_batcher* batcher, int64_t rows, const float* dense, size_t dense_len, int64_t dense_stride,
    const int64_t* ids, size_t ids_len, const int64_t* offsets, size_t offsets_len, const float* weights,
    size_t weights_len, int32_t layout, float* out, size_t out_len, uint64_t deadline_ns,
    const volatile int32_t* cancel, uint64_t* version, dpi_error* error) DPI_NOEXCEPT;
DPI_API DPI_NODISCARD dpi_status dpi_batcher_rows_predict(dpi_batcher* batcher, dpi_rows* rows, float* out,
                                                          size_t out_len, const dpi_run_options* run,
                                                          dpi_error* error) DPI_NOEXCEPT;

/* ---- submitted requests -------------------------------------------------------------------------------- */
/* Resolves the request and returns; a thread of the batcher, or a blocking call that began the same chunk,
 * scores it. If the status is DPI_OK there is exactly one completion for it, whatever happens; otherwise
 * there is none and `ticket` is unchanged. user: comes back in the completion. ticket: not NULL; receives a
 * number, never 0, for dpi_batcher_cancel, and is written before the completion can be seen. Errors beyond
 * those of dpi_batcher_predict: more than batch.max_rows rows or shared rows, or more ids than max_nnz, or no
 * rows are DPI_E_INVALID_ARGUMENT. Submitted requests whose completions were not taken count towards
 * DPI_E_QUEUE_FULL: at most (batch.queue + 2) x batch.max_rows of them. One that misses a row of a tiered
 * table is run by a thread of the batcher, which waits for the row. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_submit(dpi_batcher* batcher, const dpi_batch* batch, float* out,
                                                    size_t out_len, const dpi_run_options* run, uint64_t user,
                                                    uint64_t* ticket, dpi_error* error) DPI_NOEXCEPT;
/* Without structs and logits. cancel and version, if given, are kept like those of the run options. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_submit_flat(
    dpi_batcher* batcher, int64_t rows, const float* dense, size_t dense_len, int64_t dense_stride,
    const int64_t* ids, size_t ids_len, const int64_t* offsets, size_t offsets_len, const float* weights,
    size_t weights_len, int32_t layout, float* out, size_t out_len, uint64_t deadline_ns,
    const volatile int32_t* cancel, uint64_t* version, uint64_t user, uint64_t* ticket,
    dpi_error* error) DPI_NOEXCEPT;
/* The rows may be cleared or freed when it returns. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_rows_submit(dpi_batcher* batcher, dpi_rows* rows, float* out,
                                                         size_t out_len, const dpi_run_options* run,
                                                         uint64_t user, uint64_t* ticket,
                                                         dpi_error* error) DPI_NOEXCEPT;

/* What became of a submitted request. */
typedef struct dpi_completion {
  uint32_t struct_size;
  dpi_status status;    /* as dpi_predict would give; DPI_E_CANCELLED after dpi_batcher_cancel              */
  uint64_t user;
  uint64_t ticket;
  uint64_t version;     /* that scored it (dpi_model_info), 0 unless status is DPI_OK                       */
  uint64_t queued_ns;   /* from submit until its chunk began to run, or until it ended without              */
  uint64_t run_ns;      /* of the chunk; 0 if it did not run                                                */
  dpi_error error;      /* error.code == status; the text names the request's own row                       */
} dpi_completion;
#define DPI_COMPLETION_1_2_SIZE 560 /* sizeof(dpi_completion) in version 1.2; never changes */
#ifndef SWIG
#  define DPI_COMPLETION_INIT {sizeof(dpi_completion), DPI_OK, 0, 0, 0, 0, 0, DPI_ERROR_INIT}
#endif

/* DPI_OK: from now on neither out nor logits nor version is written, and the completion (DPI_E_CANCELLED) is
 * there. DPI_E_NOT_FOUND: the request is done, its scores are being written, or no such ticket was given. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_cancel(dpi_batcher* batcher, uint64_t ticket,
                                                    dpi_error* error) DPI_NOEXCEPT;
/* Takes up to n completions, in the order in which requests ended, and waits up to timeout_us (0 = does not
 * wait) for the first. completions: an array whose first element has struct_size set, which holds for all.
 * count: receives how many were taken; DPI_OK with 0 when the time is over. DPI_E_CLOSED: the batcher is
 * closed and every completion was taken. DPI_E_INVALID_ARGUMENT: a negative time, n = 0, or a batcher with
 * a callback. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_poll(dpi_batcher* batcher, dpi_completion* completions, size_t n,
                                                  int64_t timeout_us, size_t* count,
                                                  dpi_error* error) DPI_NOEXCEPT;
/* An eventfd for poll(2), epoll or select: readable while completions wait for dpi_batcher_poll, and once the
 * batcher is closed. It may be readable once more after the last was taken: a poll takes 0 and ends that.
 * Neither read nor close it; it goes with the batcher. -1 without a batcher. */
DPI_API int32_t dpi_batcher_fd(const dpi_batcher* batcher) DPI_NOEXCEPT;

/* completion: valid during the call. Threads of the batcher (dpi-batch) call it, several at once if
 * batch.threads says so, without a lock of the library held. It may submit and cancel. dpi_batcher_close and
 * dpi_batcher_predict are DPI_E_INVALID_ARGUMENT in it; dpi_batcher_free must not be called. */
typedef void (*dpi_completion_fn)(void* user, const dpi_completion* completion);
/* Every completion goes to the callback instead of to dpi_batcher_poll. user: its first argument. Once, and
 * before anything is submitted, else DPI_E_INVALID_ARGUMENT. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_set_callback(dpi_batcher* batcher, dpi_completion_fn callback,
                                                          void* user, dpi_error* error) DPI_NOEXCEPT;

/* ---- the end ------------------------------------------------------------------------------------------- */
/* From now on requests are DPI_E_CLOSED. Returns when those that were passed before have ended and every
 * callback has returned. deadline_ns (CLOCK_MONOTONIC, 0 = none): what still waits for its turn then is
 * cancelled, requests of blocking calls too, and the status is DPI_E_TIMEOUT; what runs is waited for.
 * Completions that were not taken stay for dpi_batcher_poll. A second call waits as well. */
DPI_API DPI_NODISCARD dpi_status dpi_batcher_close(dpi_batcher* batcher, uint64_t deadline_ns,
                                                   dpi_error* error) DPI_NOEXCEPT;
/* dpi_batcher_close that cancels at once, then joins the threads and frees. Completions that were not taken
 * are dropped, never called back later. Only running calls of dpi_batcher_predict and its forms may overlap
 * it. */
DPI_API void dpi_batcher_free(dpi_batcher* batcher) DPI_NOEXCEPT;

/* An object: closed, callback, max_rows (in force), max_delay_us, running, queue, threads; memory_bytes, of
 * the chunks of all versions that it scores with and of submitted requests; and counts since it was made:
 *   calls         requests passed, of which singles ran at once or by themselves without waiting
 *   chunks        that ran, with chunk_requests and chunk_rows in them, and largest_chunk (rows)
 *   again         requests that ran once more by themselves after their chunk failed or missed rows
 *   full, late    refused: DPI_E_QUEUE_FULL; DPI_E_TIMEOUT on arrival
 *   submitted, completed, cancelled   requests of dpi_batcher_submit; completed counts cancelled ones too
 *   waiting       completions not taken
 *   service_ns    time of a chunk as measured last; 0 = none in the last 100 ms */
DPI_API size_t dpi_batcher_status_json(const dpi_batcher* batcher, char* buf, size_t cap) DPI_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif /* DPI_BATCHER_H */
