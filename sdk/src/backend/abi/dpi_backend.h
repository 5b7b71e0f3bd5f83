// The private interface between the engine and whatever executes its plans: `ref` and `cpu` inside
// libdpi.so.1, `cuda` and the test-only `cuda_emu` as plugins opened at run time. Nothing calls a backend
// past it. A C struct of function pointers with an exact-match version; arguments are plain structs, ops
// carry the attribute structs of <dpi/kernels/*.hpp>.
//
// Life of a model:  open -> alloc/upload tables and parameters -> op_prepare for each op of the plan
// Life of a call:   copy_in -> {event_wait, enqueue, event_record} in the plan's issue order -> copy_out ->
// synchronize; with DPI_BACKEND_CAPTURE that sequence is captured once per (context, flight, batch bucket)
// and replayed.
//
// Every function that can fail returns a DPI_E_* code (dpi::Code) and fills *err (never null). Nothing
// throws. Threads: a device may be used from any number of threads; a stream, an event and a capture belong
// to one context at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "ops/op_desc.h"

#define DPI_BACKEND_ABI 6u

extern "C" {

struct dpi_backend_error {
  int32_t native_code;  // cudaError_t, errno ... 0 if none
  char message[480];    // NUL-terminated
};

// What a block of memory is for; a backend may place each kind elsewhere.
enum dpi_memory_kind {
  DPI_MEMORY_TABLE = 0,   // embedding rows: written once by upload, read by lookups
  DPI_MEMORY_PARAM = 1,   // dense weights
  DPI_MEMORY_ARENA = 2,   // intermediate values of one context
  DPI_MEMORY_INPUT = 3,   // device copy of a request's packed input
  DPI_MEMORY_OUTPUT = 4,  // device side of the scores
  DPI_MEMORY_STAGING =
      5,  // host memory the device can copy from and to fast (pinned); always host-addressable
};

enum dpi_backend_flags {
  DPI_BACKEND_HOST_MEMORY =
      1u,  // every pointer of this backend may be read and written by the host; copies are not needed
  DPI_BACKEND_CAPTURE = 2u,  // capture_* and graph_* are present
  DPI_BACKEND_HALF = 8u,     // values between lookup, Dense and Elementwise may be kF16 or kBF16
  DPI_BACKEND_ROWS = 16u,    // rows of tables may be kI4, kI2 and kFp8
  DPI_BACKEND_FETCH = 4u,    // fetch_in is present: kernels read and write staging memory in place
};

struct dpi_backend_caps {
  uint32_t struct_size;
  uint32_t flags;       // dpi_backend_flags
  int32_t max_streams;  // streams worth using per context; 1 = issue order is execution order
  int32_t device_index;
  uint64_t memory_total;  // bytes, 0 = unknown
  uint64_t memory_free;
  uint32_t alignment;     // of alloc results and of arena offsets, a power of two >= 64
  char device_name[128];  // "AMD EPYC, avx512", "NVIDIA H200"
};

// Where a backend takes host memory from: kind as in dpi_memory_kind. Null from alloc = out of memory; free
// gets the bytes and the kind of the allocation.
struct dpi_backend_memory {
  void* self;
  void* (*alloc)(void* self, size_t bytes, size_t alignment, int32_t kind);
  void (*free)(void* self, void* p, size_t bytes, int32_t kind);
};

struct dpi_backend_options {
  uint32_t struct_size;
  int32_t device_index;  // -1 = default
  int32_t precision;     // 0 fp32, 1 tf32, 2 fp16, 3 bf16, 4 int8; a backend refuses what it lacks
  int32_t strict;        // determinism=strict: a row's bits must not depend on its batch
  int32_t debug;         // events carry timestamps
  const char* isa;       // "auto", "scalar", "avx2" .. "amx": see dpi.h; never null
  const char* lookup;    // "auto", "output_first", "input_first"; never null
  const char* fetch;     // "kernel", "in_place": see small_batch_prepare; null = "kernel"
  const char* tuning;    // "default", "off" or the path of a tuning table; never null
  // Where a backend tells what a user should know; level 0 debug ... 3 error. Null = nobody listens; valid as
  // long as the device; to be called while opening and preparing only, without a lock.
  void (*log)(void* log_sink, int32_t level, const char* component, const char* message);
  void* log_sink;
  const dpi_backend_memory*
      memory;  // null = the C library; of backends in host memory; lives as long as the device
  // Told of each block that alloc and range_alloc have taken (bytes > 0) and free and range_free have given
  // back (< 0): of the device's memory, or of the host's. From any thread; null = nobody counts.
  void (*held)(void* held_self, int64_t bytes, int32_t on_device);
  void* held_self;
};

// What a small batch has to know of a value.
struct dpi_small_batch_value {
  int32_t base;  // it is columns [column, column + its size) of this value's rows; -1 = on its own
  int32_t column;
  int32_t kept;  // 1: read outside the small batch too (scores, logits): written to where its call says
};

// All ops of a plan, in issue order, that a backend may run as one kernel for calls of few rows. Value
// numbers are the plan's: a value that one op writes and a later op reads has the same number in both; -1 =
// absent.
struct dpi_small_batch_desc {
  uint32_t struct_size;
  int32_t n_ops;
  const dpi_op_desc* ops;
  const int32_t* const* input_values;   // [n_ops][ops[i].n_inputs]
  const int32_t* const* output_values;  // [n_ops][ops[i].n_outputs]
  const dpi_small_batch_value* values;  // [n_values], by value number
  int32_t n_values;
};

// One run of bytes of the packed input, from the start of staging and of the device's copy. count_at >= 0:
// only 4 * (the int32 at staging + count_at) bytes of it, at most `bytes`. Offsets are multiples of 16.
struct dpi_fetch_range {
  int64_t offset;
  int64_t bytes;
  int64_t count_at;
};

// Memory that several devices read by one address: `owners` have it, in pieces as spread.hpp says (a device
// named twice has two shares), kernels of `readers` reach it.
struct dpi_range_desc {
  const int32_t* owners;
  int32_t n_owners;
  const int32_t* readers;
  int32_t n_readers;
};

// Where memory for such a range is to be had.
enum dpi_range_kind {
  DPI_RANGE_NONE = 0,   // nowhere but on one device: alloc is as good
  DPI_RANGE_PEERS = 1,  // on the owners
  DPI_RANGE_HOST = 2,   // in host memory that every device reads across the bus
};

typedef struct dpi_backend_device dpi_backend_device;
typedef struct dpi_backend_op dpi_backend_op;
typedef struct dpi_backend_stream dpi_backend_stream;
typedef struct dpi_backend_event dpi_backend_event;
typedef struct dpi_backend_graph dpi_backend_graph;

typedef struct dpi_backend_api {
  uint32_t abi_version;  // DPI_BACKEND_ABI, compared for equality
  uint32_t struct_size;
  const char* name;  // "ref", "cpu", "cuda", "cuda_emu"

  int32_t (*open)(const dpi_backend_options*, dpi_backend_device** out, dpi_backend_error* err);
  void (*close)(dpi_backend_device*);
  int32_t (*caps)(dpi_backend_device*, dpi_backend_caps* out, dpi_backend_error* err);

  // Load-time memory. alloc gives `alignment`-aligned bytes of unspecified content. upload and download are
  // synchronous.
  int32_t (*alloc)(dpi_backend_device*, size_t bytes, int32_t kind, void** out, dpi_backend_error* err);
  void (*free)(dpi_backend_device*, void* p, int32_t kind);
  int32_t (*upload)(dpi_backend_device*, void* dst, const void* src, size_t bytes, dpi_backend_error* err);
  int32_t (*download)(dpi_backend_device*, void* dst, const void* src, size_t bytes, dpi_backend_error* err);

  // Packs weights and picks the first implementation that accepts the op; `report` (may be null, cap bytes)
  // receives "chosen: <impl>; refused: <impl>: <reason>; ..." . An op no implementation accepts is
  // DPI_E_UNSUPPORTED.
  int32_t (*op_prepare)(dpi_backend_device*, const dpi_op_desc*, dpi_backend_op** out, char* report,
                        size_t cap, dpi_backend_error* err);
  void (*op_free)(dpi_backend_device*, dpi_backend_op*);
  size_t (*op_scratch_bytes)(const dpi_backend_op*, int64_t rows);

  int32_t (*stream_create)(dpi_backend_device*, int32_t priority, dpi_backend_stream** out,
                           dpi_backend_error* err);
  void (*stream_destroy)(dpi_backend_device*, dpi_backend_stream*);
  int32_t (*stream_synchronize)(dpi_backend_stream*, dpi_backend_error* err);
  int32_t (*event_create)(dpi_backend_device*, dpi_backend_event** out, dpi_backend_error* err);
  void (*event_destroy)(dpi_backend_device*, dpi_backend_event*);
  int32_t (*event_record)(dpi_backend_event*, dpi_backend_stream*, dpi_backend_error* err);
  int32_t (*event_wait)(dpi_backend_event*, dpi_backend_stream*,
                        dpi_backend_error* err);  // the stream waits, not the host

  // Stream-ordered. Never allocates on the host: calls come from predict.
  int32_t (*enqueue)(dpi_backend_stream*, const dpi_backend_op*, const dpi_op_call*, dpi_backend_error* err);
  int32_t (*copy_in)(dpi_backend_stream*, void* dst, const void* staging, size_t bytes,
                     dpi_backend_error* err);
  int32_t (*copy_out)(dpi_backend_stream*, void* staging, const void* src, size_t bytes,
                      dpi_backend_error* err);

  // Optional (null without DPI_BACKEND_CAPTURE). Everything enqueued on `origin` and on streams that wait for
  // it between begin and end becomes one graph; launch replays it on a stream with the same pointers.
  int32_t (*capture_begin)(dpi_backend_stream* origin, dpi_backend_error* err);
  int32_t (*capture_end)(dpi_backend_stream* origin, dpi_backend_graph** out, dpi_backend_error* err);
  int32_t (*graph_launch)(dpi_backend_graph*, dpi_backend_stream*, dpi_backend_error* err);
  void (*graph_free)(dpi_backend_device*, dpi_backend_graph*);

  // One line per node of a captured graph, in the order of capture: "<number> <what> <- <numbers it waits
  // for>". Cut to cap bytes, NUL-terminated.
  int32_t (*graph_text)(dpi_backend_graph*, char* text, size_t cap, dpi_backend_error* err);

  // Optional (null = not available): milliseconds between two recorded events, for debug mode.
  int32_t (*event_elapsed)(dpi_backend_event* from, dpi_backend_event* to, float* ms, dpi_backend_error* err);

  // Optional (null without DPI_BACKEND_FETCH): a kernel that copies ranges of staging memory to the same
  // offsets of `dst`, reading across the bus in place: cheaper than a copy for small batches, and part of a
  // graph. With this flag ops may also write their output straight to staging memory.
  int32_t (*fetch_in)(dpi_backend_stream*, void* dst, const void* staging, const dpi_fetch_range* ranges,
                      int32_t n_ranges, dpi_backend_error* err);

  // Optional (null without DPI_BACKEND_FETCH): a kernel that reads n_rows packed rows of row_bytes from
  // staging memory in place and writes them dst_stride bytes apart. Bytes between the rows stay as they are.
  int32_t (*place_rows)(dpi_backend_stream*, void* dst, size_t dst_stride, const void* staging,
                        size_t row_bytes, int64_t n_rows, dpi_backend_error* err);

  // Optional (null = the backend has no such kernel). Prepares one op that does what all ops of a plan do,
  // for up to *max_rows rows; DPI_E_UNSUPPORTED with the reason in `report` when no implementation accepts
  // it. Values that only these ops use are not written. enqueue takes the calls of all its ops, as they would
  // be enqueued one by one; freed with op_free. *in_place: 1 where its calls are best given their inputs in
  // staging memory, without a fetch_in before (option `fetch`, DPI_BACKEND_FETCH), else 0.
  int32_t (*small_batch_prepare)(dpi_backend_device*, const dpi_small_batch_desc*, dpi_backend_op** out,
                                 int64_t* max_rows, int32_t* in_place, char* report, size_t cap,
                                 dpi_backend_error* err);
  int32_t (*small_batch_enqueue)(dpi_backend_stream*, const dpi_backend_op*, const dpi_op_call* calls,
                                 int32_t n_calls, dpi_backend_error* err);

  // Bytes of weights that a prepared op keeps, in host memory and on the device, as it has packed them.
  size_t (*op_bytes)(const dpi_backend_op*);

  // Optional (null = ops run whole), with DPI_BACKEND_HOST_MEMORY only: into how many parts a call of the op
  // may be cut at most, each of which writes outputs of its own (of a product some columns). 1 = none.
  int32_t (*op_parts)(const dpi_backend_op*);

  // Runs part `part` of `parts`, which is 1 .. op_parts, of a call that an enqueue of the op took before
  // (`checked`). All parts, in any order and on any threads, each with scratch of its own, do what that
  // enqueue does, to the bit.
  void (*run_part)(const dpi_backend_op*, const dpi_op_call*, int32_t part, int32_t parts);

  // Optional (null = the backend has one memory only). range_plan says what range_alloc will do: *kind, the
  // granularity of pieces, and in `why` (cap bytes) why it is not DPI_RANGE_PEERS. An owner or reader that
  // does not exist is DPI_E_NO_DEVICE, but on a machine with one device DPI_RANGE_NONE. The memory of
  // range_alloc is of unspecified content and goes with range_free; upload, download and place_rows take its
  // addresses as any others.
  int32_t (*range_plan)(dpi_backend_device*, const dpi_range_desc*, int32_t* kind, uint64_t* granularity,
                        char* why, size_t cap, dpi_backend_error* err);
  int32_t (*range_alloc)(dpi_backend_device*, const dpi_range_desc*, int32_t kind, size_t bytes, void** out,
                         dpi_backend_error* err);
  void (*range_free)(dpi_backend_device*, void* p);

  // Optional (null without DPI_BACKEND_FETCH): kernels of few blocks that change lines of a row cache
  // (<dpi/kernels/row_cache.hpp>). rows and changes are staging memory, which stays as it is until the stream
  // is done. cache_rows copies row tag - 1 of `rows` to each line with a tag; row_bytes is a multiple of 4.
  // cache_tags writes the tags: an op that sees one sees all that the stream has done before.
  int32_t (*cache_rows)(dpi_backend_stream*, void* lines, const void* rows, size_t row_bytes,
                        const dpi::kernels::CacheChange* changes, int32_t n, dpi_backend_error* err);
  int32_t (*cache_tags)(dpi_backend_stream*, uint32_t* tags, const dpi::kernels::CacheChange* changes,
                        int32_t n, dpi_backend_error* err);
} dpi_backend_api;

// The three symbols a plugin exports. layout: DPI_BACKEND_LAYOUT, which the build defines for the host and
// for plugins: the number above and a digest of all that these headers declare (layout.cmake). It is asked
// first, and a plugin with another is not called, whatever its number. score: 0 = unusable on this machine,
// `why` (cap bytes) says so; higher is better.
typedef const char* (*dpi_backend_layout_fn)(void);
typedef int32_t (*dpi_backend_init_fn)(uint32_t core_abi, dpi_backend_api* out);
typedef int32_t (*dpi_backend_score_fn)(char* why, size_t cap);
#define DPI_BACKEND_LAYOUT_SYMBOL "dpi_backend_layout_v1"
#define DPI_BACKEND_INIT_SYMBOL "dpi_backend_init_v1"
#define DPI_BACKEND_SCORE_SYMBOL "dpi_backend_score_v1"

}  // extern "C"
