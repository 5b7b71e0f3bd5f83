/* dpi.h - C API of the DPIFrame SDK: score click-through-rate models inside a running service.
 *
 *   dpi_error e = DPI_ERROR_INIT;
 *   dpi_model *m = NULL;
 *   if (dpi_model_load("ctr.h5", NULL, &m, &e) != DPI_OK) { fputs(e.message, stderr); return 1; }
 *   dpi_batch b = DPI_BATCH_INIT;         (slots: num_slots of dpi_model_get_info, one id per bag)
 *   b.rows = 2; b.ids = ids; b.nnz = 2 * slots; b.dense = dense;
 *   float score[2];                       (rows x num_heads)
 *   if (dpi_predict(m, &b, score, 2, NULL, &e) != DPI_OK) fputs(e.message, stderr);
 *   dpi_model_free(m);
 *
 * Library libdpi.so.1. Self-contained C99, also valid C++11 to C++20, readable by SWIG and cgo.
 *
 * Conventions of every function:
 *  1. Errors. A call that can fail returns a dpi_status (0 = OK) and fills the caller's dpi_error, if given.
 *     A failed call leaves its output as it was, except that a predict in chunks may have written rows before
 *     the failing one, and all of them if scores are not finite (option nonfinite). The library throws
 *     nothing, prints nothing and never aborts.
 *  2. Threads. Any number of threads may use a dpi_env or dpi_model at once (dpi_model_free of the last
 *     reference excepted). dpi_options, dpi_context and dpi_rows belong to one thread at a time.
 *  3. Handles are freed by their *_free. *_free(NULL) does nothing.
 *  4. Structs start with struct_size, which the caller sets to its own sizeof (DPI_..._INIT does). Fields,
 *     codes and constants are only appended, never renumbered. A struct that the caller fills may be larger
 *     than the library knows if the unknown bytes are zero, else DPI_E_VERSION; the library zeroes them in
 *     one that it fills. Below its size in version 1.0 or above 4096 bytes it is DPI_E_INVALID_ARGUMENT,
 *     dpi_error excepted.
 *  5. Strings are UTF-8 and NUL-terminated. A returned const char* lives as long as the object it came from.
 *  6. Pointers. No call keeps a pointer of the caller after it returned, except dpi_env_set_log,
 *     dpi_env_set_memory and dpi_options_set_progress, which say how long. An exception that leaves a
 *     callback may end the process.
 *  7. *_json functions with a buffer return the bytes needed including the NUL: 0 for a null handle, a
 *     parent's model or without memory. They write at most `cap` bytes, NUL-terminated; 0 asks for the size.
 *  8. Floating point. A call rounds to nearest, with subnormals and without traps, whatever the calling
 *     thread has set (fesetround, flush-to-zero, feenableexcept), and restores the thread's settings.
 *  9. Stack. A successful predict on `ref` or `cpu` uses at most 16 KiB, so a fibre of 64 KiB may call it.
 * 10. After fork() the child gets DPI_E_FORKED from its parent's models, and 0 from their *_json functions:
 *     load in the child. Names, indices, dpi_model_get_info and dpi_model_get_feature still answer.
 */
#ifndef DPI_H
#define DPI_H
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(DPI_STATIC)
#  define DPI_API __attribute__((visibility("default")))
#else
#  define DPI_API
#endif
#if defined(__GNUC__) && !defined(SWIG)
#  define DPI_NODISCARD __attribute__((warn_unused_result))
#else
#  define DPI_NODISCARD
#endif
#if defined(__cplusplus)
#  define DPI_NOEXCEPT noexcept
extern "C" {
#else
#  define DPI_NOEXCEPT
#endif

#define DPI_VERSION_MAJOR 1 /* == SONAME */
#define DPI_VERSION_MINOR 2 /* grows when functions or trailing fields are added */
#define DPI_VERSION_PATCH 0
#define DPI_VERSION_NUMBER (DPI_VERSION_MAJOR * 10000 + DPI_VERSION_MINOR * 100 + DPI_VERSION_PATCH)

/* ---- status -------------------------------------------------------------------------------------------- */
typedef int32_t dpi_status;
enum {
  DPI_OK = 0,
  DPI_E_INVALID_ARGUMENT = 1, /* wrong input: null pointer, length, offset, id, NaN; see row, feature       */
  DPI_E_NOT_FOUND = 2,        /* no such file, option or stored table; a row not cached yet (miss=fail)     */
  DPI_E_IO = 3,               /* a file cannot be read (native_code = errno), or a store fails or lost rows */
  DPI_E_BAD_MODEL = 4,        /* not a bundle, damaged, or inconsistent; the text names the place in it     */
  DPI_E_UNSUPPORTED = 5,      /* a newer format, or an op, option or mode that this build lacks             */
  DPI_E_OUT_OF_MEMORY = 6,    /* host or device; models are forecast before their tables are read           */
  DPI_E_DEVICE = 7,           /* the device failed; native_code = its error                                 */
  DPI_E_NO_DEVICE = 8,        /* the device asked for cannot be used; the text says why                     */
  DPI_E_TIMEOUT = 9,          /* the deadline passed                                                        */
  DPI_E_CANCELLED = 10,       /* by the cancel flag, a ticket, or the close of a batcher                    */
  DPI_E_QUEUE_FULL = 11,      /* too much waits (store.fetch_queue, store.parked, batch.queue): retry       */
  DPI_E_CLOSED = 12,          /* the model is being freed, or the batcher is closed                         */
  DPI_E_FORKED = 13,          /* the handle belongs to the parent process                                   */
  DPI_E_VERSION = 14,         /* compiled with a newer header, and uses what this library lacks             */
  DPI_E_INTERNAL = 15         /* a defect of the library; please report the text                            */
};

/* Caller-owned, no allocation, may be NULL everywhere. Only struct_size must be set before a call. A size of
 * 0 or above 4096 was never set and stands for DPI_ERROR_1_0_SIZE, which every dpi_error has. Nothing is
 * written for another size below 40; otherwise the text is cut to what fits. */
typedef struct dpi_error {
  uint32_t struct_size;
  dpi_status code;
  int64_t row;         /* offending row of the batch, -1 if none; of the shared part if in_shared is 1      */
  int64_t feature;     /* index of the feature in the schema, -1 if none                                    */
  int32_t native_code; /* errno, cudaError_t ... 0 if none                                                  */
  uint32_t in_shared;
  char message[480];   /* one line; control characters and bytes that are not UTF-8 are escaped (\x1b)      */
} dpi_error;
#define DPI_ERROR_1_0_SIZE 512 /* sizeof(dpi_error) in version 1.0; never changes */
#ifndef SWIG /* initialisers, so that no compiler warns of members left out */
#  define DPI_ERROR_INIT {sizeof(dpi_error), DPI_OK, -1, -1, 0, 0, {0}}
#endif

DPI_API uint32_t dpi_version(void) DPI_NOEXCEPT; /* of the loaded library; compare with DPI_VERSION_NUMBER */
/* Static JSON: version, compiler, backends, libraries, path of the file. */
DPI_API const char* dpi_build_info_json(void) DPI_NOEXCEPT;
DPI_API const char* dpi_status_name(dpi_status status) DPI_NOEXCEPT; /* "DPI_E_IO"; never NULL */

/* ---- environment --------------------------------------------------------------------------------------- */
/* What models share: where messages go, where large blocks of memory come from, and the worker threads of
 * option `threads`. Models loaded without one share the process's, which NULL stands for below. Reference-
 * counted: options and models keep theirs. It may be used after fork(): the child starts its own threads. */
typedef struct dpi_env dpi_env;
DPI_API DPI_NODISCARD dpi_status dpi_env_create(dpi_env** out, dpi_error* error) DPI_NOEXCEPT;
/* Drops the caller's reference. Threads end with the last model; dlclose() keeps the library mapped. */
DPI_API void dpi_env_free(dpi_env* env) DPI_NOEXCEPT;
/* Keys (an unknown one is DPI_E_NOT_FOUND, a bad value DPI_E_INVALID_ARGUMENT):
 *   threads   0 ... 256     0       threads that one call may use, the caller included; 0 = option `threads`
 *   spin_us   0 ... 10000   10000   the longest busy-wait between calls, whatever models' `spin_us`; 0 = none
 * Set threads before models are loaded: all but one are started at first use (named dpi-pool, all signals but
 * those of faults blocked) and shared by all calls. spin_us: at any time, for loaded models too. */
DPI_API DPI_NODISCARD dpi_status dpi_env_set(dpi_env* env, const char* key, const char* value,
                                             dpi_error* error) DPI_NOEXCEPT;

enum { DPI_LOG_DEBUG = 0, DPI_LOG_INFO = 1, DPI_LOG_WARN = 2, DPI_LOG_ERROR = 3, DPI_LOG_OFF = 4 };
/* Components and their messages:
 *   load       debug: each stage and its time; info: the model is ready
 *   device     info: device=auto fell back to cpu, and why
 *   plugin     warn: a file that cannot be used as a plugin, or a folder of plugins that is not trusted
 *   tuning     warn: a table of measured choices, or a line of it, does not fit and is ignored
 *   graphs     warn: capturing failed, calls go on op by op
 *   tables     info: tables that store.peer_devices spreads; warn: they lie elsewhere, or equal ones differ
 *   contexts   warn: calls waited a millisecond or more for a context: how many, the longest, of how many
 *   store      warn, from threads that read rows: a store is down, or up again; at most one a second
 * A predict logs nothing. The model's next warm-up, info or counters JSON, or dpi_model_free reports what it
 * met (graphs, contexts), on that call's thread. Each message is one line, escaped as in dpi_error. */
typedef void (*dpi_log_fn)(void* user, int32_t level, const char* component, const char* message);
/* callback: NULL = none. Threads that load or manage models, and those that read rows, call it, several at
 * once, without a lock of the library held. It may call the library, but on a message of component store not
 * free a model or endpoint; messages that it causes are kept for polling only. Messages below min_level (at
 * first DPI_LOG_WARN) are dropped, for polling too. Returns once no other thread is in the previous callback,
 * whose user pointer may then go; called from a callback, it does not wait. */
DPI_API dpi_status dpi_env_set_log(dpi_env* env, dpi_log_fn callback, void* user, int32_t min_level,
                                   dpi_error* error) DPI_NOEXCEPT;
/* For languages that poll: takes the oldest of the last 256 messages as "component: message" and returns its
 * bytes including the NUL, 0 if there is none. A text has at most 4096 bytes, is cut to cap, and is not taken
 * if cap is 0. One of component log says how many were lost before. level may be NULL. */
DPI_API size_t dpi_env_poll_log(dpi_env* env, char* buf, size_t cap, int32_t* level) DPI_NOEXCEPT;

enum { DPI_BLOCK_TABLES = 0, DPI_BLOCK_WEIGHTS = 1, DPI_BLOCK_SCRATCH = 2, DPI_BLOCK_STAGING = 3 };
/* `bytes` (not 0) at a multiple of `alignment` (a power of two); NULL = out of memory. kind: DPI_BLOCK_*. */
typedef void* (*dpi_alloc_fn)(void* user, size_t bytes, size_t alignment, int32_t kind);
/* bytes and kind as at the block's allocation. */
typedef void (*dpi_free_fn)(void* user, void* block, size_t bytes, int32_t kind);
typedef struct dpi_memory_hooks {
  uint32_t struct_size;
  uint32_t flags;            /* 0 */
  dpi_alloc_fn alloc;
  dpi_free_fn free;
  void* user;
} dpi_memory_hooks;
/* Where models loaded from now on get the blocks that cpu and ref need in host memory: tables, constants,
 * contexts' scratch and staging. Packed weights and a model's description stay with the C library, a GPU's
 * blocks with its driver. hooks NULL = the C library again. Threads that make and free models and contexts
 * call the hooks, several at once, without a lock of the library held; a predict that first needs a context
 * is one of them. A hook must not call the library. Functions and user must stay valid until the last such
 * model is freed. The call that needed an allocation that fails gets DPI_E_OUT_OF_MEMORY. */
DPI_API DPI_NODISCARD dpi_status dpi_env_set_memory(dpi_env* env, const dpi_memory_hooks* hooks,
                                                    dpi_error* error) DPI_NOEXCEPT;

/* ---- options ------------------------------------------------------------------------------------------- */
/* String keys, so that a new option never changes the ABI. An unknown key is DPI_E_NOT_FOUND, a bad value
 * DPI_E_INVALID_ARGUMENT. Key, values, default, meaning; the page Options explains each:
 *   device                 cpu | cuda[:N] | auto | ref | name  auto      auto: cuda if usable, else cpu
 *   device_index           0 ... 1023                0         number of the device
 *   devices                0,1 ...                   none      each call runs on the least busy of these
 *   precision              fp32 | tf32 | fp16 | bf16 | int8  fp32      arithmetic of the layers
 *   threads                1 ... 256                 1         CPU threads per call, the caller included
 *   spin_us                0 ... 10000               200       how long idle pool threads busy-wait
 *   determinism            default | strict          default   strict: bits do not depend on the batch
 *   nonfinite              refuse | return           refuse    scores that are infinite or NaN
 *   max_rows               1 ... 1048576             4096      rows per chunk; larger batches take several
 *   max_nnz                1 ... 268435456           1048576   ids per sequence feature and chunk
 *   scratch_bytes          bytes                     0         most values of a chunk; 0: 256 MiB, GPU 1 GiB
 *   user_cache_bytes       bytes                     0         keeps the user's part of calls; cpu
 *   max_contexts           1 ... 1024                usable CPUs  calls at once; more wait in a queue
 *   slow_us                0 ... 2000000000          0         keeps calls that take as long; 0 = none
 *   verify                 off | golden              off       golden: recompute the bundle's golden rows
 *   require_signature      Ed25519 keys in hex       none      load only bundles that one of them signed
 *   backend_dir            absolute folder           none      where plugins are looked for first
 *   memory_limit           bytes                     0         most the model may take; 0 = what is free
 *   isa                    auto | scalar | avx2 | avx512[_bf16|_vnni] | amx | neon[_dot|_mmla]  auto      cpu
 *   in_flight              1 ... 8                   3         chunks of one call in flight on a GPU
 *   small_batch            on | off                  off       one kernel for small batches where possible
 *   tuning                 default | off | path      default   measured choices of the cuda kernels
 *   store.share            on | off                  on        models of a dpi_env share equal tables, tiers
 *   store.peer_devices     0,1,2,3 ...               none      spreads tables of 2 MiB per named GPU or more
 *   store.peer_copy_bytes  bytes                     0         per running GPU: copies of other GPUs' rows
 * Tables larger than memory: rows lie in the bundle's file (replace it, never write to it), RocksDB or
 * Redis, and the host tier caches some. Scores equal those of resident tables, or differ by rounding:
 *   store.host_bytes       bytes                     0         size of the host tier; 0 = none
 *   store.gpu_bytes        bytes                     0         copies of tier rows read often; one GPU only
 *   store.resident_bytes   bytes                     1048576   tables of at most this size stay resident
 *   store.hot_keys         path | off                none      fills the tier; none: bundle's, off: no list
 *   store.fetch_threads    1 ... 64                  2         threads that read rows for a tier (dpi-fetch)
 *   store.fetch_queue      1 ... 65536               64        most reads (of 256 rows) waiting and running
 *   store.fetch_bytes      65536 ...                 67108864  most bytes reserved for reads
 *   store.parked           0 ... 4096                0         calls that wait for rows; 0 = 4 * max_contexts
 *   store.down             as_miss | default | fail  as_miss   what uncached rows of a store that is down get
 *   store.down_failures    1 ... 1000                5         failed reads after which a store is down
 *   store.down_seconds     1 ... 3600                10        within which that many reads must fail
 *   store.rocksdb_path     absolute folder           none      RocksDB with rows that the bundle leaves out
 *   store.rocksdb_reads    pread | mmap | direct     pread     how RocksDB reads; mmap: disk error = SIGBUS
 *   store.redis_address    host:port,host:port       none      Redis, or a cluster's nodes, with such rows
 *   store.redis_user       text                      none      user of the Redis server (ACL)
 *   store.redis_password   text                      none      password of the Redis server
 *   store.redis_tls        on | off                  off       TLS; the server's certificate is checked
 *   store.redis_tls_ca     path                      none      CAs as PEM; none: the system's
 *   store.redis_tls_cert   path                      none      the client's certificate as PEM
 *   store.redis_tls_key    path                      none      private key of store.redis_tls_cert
 *   store.redis_replicas   on | off                  off       reads may go to a cluster's replicas
 *   store.redis_connections  0 ... 1024                0         per server at most; 0 = store.fetch_threads
 *   store.redis_connect_ms  1 ... 3600000             1000      to connect and log in
 *   store.redis_timeout_ms  1 ... 3600000             1000      a load's request; a call without a deadline
 *   table.NAME.tier        auto | resident | host    auto      where the table lies; auto: by its size
 *   table.NAME.miss        exact | default | fail    exact     row not cached: wait, default row, or fail
 *   table.NAME.default     number                    0         every column under miss=default, down=default
 *   table.NAME.update      refuse | stale            refuse    updated rows: call fails, or mixes old and new
 *   debug.fold             on | tiered | off         on        exact algebra that removes work
 *   debug.fuse             on | off                  on        operator fusion
 *   debug.skip             none | pass,pass          none      fusing passes to leave out
 *   debug.schedule         breadth | depth | single  breadth   issue order of ops
 *   debug.order            cost | ops | light        cost      which branch starts first
 *   debug.graphs           on | off                  on        capture and replay calls (CUDA graphs)
 *   debug.lookup           auto | output_first | input_first  auto      lookup kernel of cuda
 *   debug.fetch            kernel | copy | in_place  kernel    who reads small inputs in host memory
 *   debug.timestamps       on | off                  off       a timestamp per op (dpi bench --profile)
 * debug.* are for measuring and finding faults, not for services; later versions may drop them. */
typedef struct dpi_options dpi_options;
DPI_API dpi_options* dpi_options_create(void) DPI_NOEXCEPT; /* NULL when out of memory */
DPI_API DPI_NODISCARD dpi_status dpi_options_set(dpi_options* options, const char* key, const char* value,
                                                 dpi_error* error) DPI_NOEXCEPT;
/* The environment of models loaded with these options; NULL = the process's. */
DPI_API DPI_NODISCARD dpi_status dpi_options_set_env(dpi_options* options, dpi_env* env,
                                                     dpi_error* error) DPI_NOEXCEPT;
/* Loads with these options call progress (NULL = none) on the loading thread, at the begin and end of each
 * stage and about 100 times in between: `done` of `total`, in bytes for stage "tables" and, with
 * require_signature, "verify", else in steps. Stages in order: open, plan, tables, ops, verify (options
 * verify and require_signature). If *cancel (NULL = never) is not 0 at such a point or between blocks of 4
 * MiB, the load stops with DPI_E_CANCELLED and keeps nothing. All three must stay valid until the options are
 * freed or set anew, or no load with them runs or begins. */
typedef void (*dpi_progress_fn)(void* user, const char* stage, uint64_t done, uint64_t total);
DPI_API DPI_NODISCARD dpi_status dpi_options_set_progress(dpi_options* options, dpi_progress_fn progress,
                                                          void* user, const volatile int32_t* cancel,
                                                          dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_options_free(dpi_options* options) DPI_NOEXCEPT;

/* ---- models -------------------------------------------------------------------------------------------- */
typedef struct dpi_model dpi_model; /* immutable after load, reference-counted */

/* Reads, checks and prepares a bundle. options may be NULL; only their environment is kept. */
DPI_API DPI_NODISCARD dpi_status dpi_model_load(const char* path, const dpi_options* options, dpi_model** out,
                                                dpi_error* error) DPI_NOEXCEPT;
/* The same from `size` bytes in memory, which may be freed after the call. */
DPI_API DPI_NODISCARD dpi_status dpi_model_load_memory(
    const void* bytes, size_t size, const dpi_options* options, dpi_model** out,
    dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_model_retain(dpi_model* model) DPI_NOEXCEPT;
/* Drops one reference. The last one waits for running calls, those that wait for a context included, and
 * frees the model. No call may begin once the last reference is dropped. One that another thread was entering
 * at that moment finishes too, or gets DPI_E_CLOSED (0, -1 or NULL where there is no status). */
DPI_API void dpi_model_free(dpi_model* model) DPI_NOEXCEPT;
/* Creates all contexts of the model's pool (options max_contexts and, with a host tier, store.parked) and
 * runs batches of up to max_rows rows through each, so that no later call pays for a first time. With option
 * threads it then measures, for at most 60 ms, from which sizes on calls gain by them. */
DPI_API dpi_status dpi_model_warm_up(dpi_model* model, int64_t max_rows, dpi_error* error) DPI_NOEXCEPT;

enum { DPI_DEVICE_REF = 0, DPI_DEVICE_CPU = 1, DPI_DEVICE_CUDA = 2, DPI_DEVICE_OTHER = 3 };
typedef struct dpi_model_info {
  uint32_t struct_size;
  int32_t num_features;
  int32_t num_slots;         /* id features; ids of a batch without shared part: slots in schema order      */
  int32_t dense_dim;         /* floats per row of the dense matrix, likewise                                */
  int32_t num_item_slots;    /* the item and shared parts of a batch that has a shared part                 */
  int32_t num_shared_slots;
  int32_t item_dense_dim;
  int32_t shared_dense_dim;
  int32_t num_heads;         /* scores per row                                                              */
  int32_t device_kind;       /* DPI_DEVICE_*: what runs, after any fallback                                 */
  int32_t device_index;
  int32_t reserved;
  int64_t max_rows;          /* rows per chunk                                                              */
  uint64_t host_bytes;       /* tables and weights                                                          */
  uint64_t device_bytes;
  uint64_t content_digest;   /* changes with any byte of the bundle                                         */
  uint64_t version;          /* of the served content: 1, or its number in an endpoint (dpi/endpoint.h)     */
} dpi_model_info;
DPI_API dpi_status dpi_model_get_info(const dpi_model* model, dpi_model_info* info,
                                      dpi_error* error) DPI_NOEXCEPT;

enum { DPI_FEATURE_CATEGORICAL = 0, DPI_FEATURE_SEQUENCE = 1,
       DPI_FEATURE_NUMERIC = 2, DPI_FEATURE_DENSE = 3 };
typedef struct dpi_feature_info {
  uint32_t struct_size;
  int32_t kind;           /* DPI_FEATURE_*                                                                  */
  int32_t shared;         /* 1: belongs to the shared (user) part                                           */
  int32_t slot;           /* of a batch without shared part; -1 for numeric and dense                       */
  int32_t part_slot;      /* within its own part of a batch that has a shared part                          */
  int32_t dense_column;   /* first column; -1 for categorical and sequence                                  */
  int32_t part_column;
  int32_t dim;            /* floats of a dense feature; else 1                                              */
  int64_t vocab_size;     /* valid ids: 0 .. vocab_size-1; 0 if none, or if ids are keys: any int64         */
  int64_t max_len;        /* sequence: longer bags are cut, by the schema's `keep`; 0 = unlimited           */
  int32_t has_encoder;    /* raw values can be given (dpi_rows)                                             */
  int32_t weighted;
} dpi_feature_info;
DPI_API dpi_status dpi_model_get_feature(const dpi_model* model, int32_t index, dpi_feature_info* info,
                                         dpi_error* error) DPI_NOEXCEPT;
DPI_API int32_t dpi_model_feature_index(const dpi_model* model, const char* name) DPI_NOEXCEPT; /* -1: none */
DPI_API const char* dpi_model_feature_name(const dpi_model* model, int32_t index) DPI_NOEXCEPT; /* or NULL */
DPI_API const char* dpi_model_head_name(const dpi_model* model, int32_t index) DPI_NOEXCEPT;    /* or NULL */
/* Features (with slots, columns, rules), heads, provenance. */
DPI_API size_t dpi_model_schema_json(const dpi_model* model, char* buf, size_t cap) DPI_NOEXCEPT;
/* Device, and why; options; memory by table and device; place of spread tables; "stores" (above); plan. */
DPI_API size_t dpi_model_info_json(const dpi_model* model, char* buf, size_t cap) DPI_NOEXCEPT;
/* Counts since load: calls, rows, errors by code, waits for a context; lists by device, feature, table in the
 * host tier, store, and table on several devices. The page Observability explains every key. A refused call
 * counts too; dpi_rows counts unreadable values when given them. */
DPI_API size_t dpi_model_counters_json(const dpi_model* model, char* buf, size_t cap) DPI_NOEXCEPT;

/* Floats of a row of a table, as dpi_table_lookup reads it; -1 where that would refuse the table. */
DPI_API int32_t dpi_table_dim(const dpi_model* model, const char* table) DPI_NOEXCEPT;
/* Rows of one table as float32, [n, dim], as the model's lookups read them (option precision). table: its
 * name in the bundle. keys: any int64 where a key set finds the rows, and an absent one gives the default
 * row; else row numbers, and one outside the table is DPI_E_INVALID_ARGUMENT. The error of one key names its
 * value, and dpi_error.row is its position. out_len: at least n x dim. A table that the bundle lacks, or
 * whose rows the model does not keep, is DPI_E_NOT_FOUND; one on a device with its own memory is
 * DPI_E_UNSUPPORTED. The host tier follows table.NAME.miss: exact waits without a deadline
 * (dpi_table_lookup_run has one); default gives table.NAME.default for a late row, which only the counter
 * `defaulted` shows; fail is DPI_E_NOT_FOUND. */
DPI_API DPI_NODISCARD dpi_status dpi_table_lookup(const dpi_model* model, const char* table,
                                                  const int64_t* keys, size_t n, float* out, size_t out_len,
                                                  dpi_error* error) DPI_NOEXCEPT;

/* ---- batch --------------------------------------------------------------------------------------------- */
enum { DPI_LAYOUT_ROW_MAJOR = 0, DPI_LAYOUT_SLOT_MAJOR = 1 }; /* bag: row*slots + slot, slot*rows + row */
enum { DPI_MEM_HOST = 0 };

/* Rows to score. Without a shared part (shared_offsets == NULL) the item part holds every feature of the
 * schema. With one, user features are given once per shared row, and the item part holds item features only;
 * item rows shared_offsets[s] .. shared_offsets[s+1]-1 belong to shared row s, whose values are not read if
 * it has no item rows. Both ways give the same scores.
 * Ids: one outside its feature's vocabulary follows the feature's rule in the schema; every int64 is an id of
 * a feature of keys. Categorical bags have one id, or none = missing. NaN in dense = missing. rows >= 0. */
typedef struct dpi_batch {
  uint32_t struct_size;
  uint32_t flags;               /* 0 */
  int64_t rows;
  const float* dense;           /* [rows, dense columns], row-major in either layout; NULL if none          */
  int64_t dense_stride;         /* floats between rows; 0 = dense columns                                   */
  const int64_t* ids;           /* offsets == NULL: rows * slots ids, one per bag; else nnz ids             */
  const int64_t* offsets;       /* NULL, or rows*slots + 1, from 0: b = ids[offsets[b] .. offsets[b+1]-1]   */
  const float* weights;         /* NULL = all 1; else one per id; must be 1 unless the feature is weighted  */
  int64_t nnz;                  /* length of ids (and weights): rows * slots, or offsets[rows * slots]      */
  int32_t layout;               /* DPI_LAYOUT_*: order of the bags, of both parts                           */
  int32_t memory;               /* DPI_MEM_HOST                                                             */
  int64_t shared_rows;
  const int64_t* shared_offsets; /* NULL = no shared part; else shared_rows + 1, rising from 0 to rows      */
  const float* shared_dense;
  int64_t shared_dense_stride;
  const int64_t* shared_ids;
  const int64_t* shared_bag_offsets; /* as offsets, over the shared slots                                   */
  const float* shared_weights;
  int64_t shared_nnz;
} dpi_batch;
#define DPI_BATCH_1_0_SIZE (offsetof(dpi_batch, shared_nnz) + sizeof(int64_t))

typedef struct dpi_run_options {
  uint32_t struct_size;
  uint32_t flags;                 /* 0 */
  uint64_t deadline_ns;           /* CLOCK_MONOTONIC; 0 = none. Checked on entry, waiting, between chunks   */
  const volatile int32_t* cancel; /* non-zero = stop at the next such point; NULL = not cancellable         */
  float* logits;                  /* NULL, or rows x heads: values before activations; NaN without logit    */
  size_t logits_len;
  uint64_t* version;              /* NULL, or receives the version (dpi_model_info) that scored all rows    */
} dpi_run_options;
#ifndef SWIG
#  define DPI_BATCH_INIT \
     {sizeof(dpi_batch), 0, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, 0}
#  define DPI_RUN_OPTIONS_INIT {sizeof(dpi_run_options), 0, 0, NULL, NULL, 0, NULL}
#endif

/* out: rows x num_heads floats, row-major; out_len: its length. Allocates nothing in steady state. */
DPI_API DPI_NODISCARD dpi_status dpi_predict(dpi_model* model, const dpi_batch* batch, float* out,
                                             size_t out_len, const dpi_run_options* run,
                                             dpi_error* error) DPI_NOEXCEPT;
/* The same without structs, for cgo (Go pointers may not sit inside a struct) and JNI; no shared part.
 * Lengths in elements; offsets NULL: one id per bag; weights NULL: all 1; dense_stride 0: dense columns. */
DPI_API DPI_NODISCARD dpi_status dpi_predict_flat(
    dpi_model* model, int64_t rows, const float* dense, size_t dense_len, int64_t dense_stride,
    const int64_t* ids, size_t ids_len, const int64_t* offsets, size_t offsets_len, const float* weights,
    size_t weights_len, int32_t layout, float* out, size_t out_len, uint64_t deadline_ns,
    const volatile int32_t* cancel, dpi_error* error) DPI_NOEXCEPT;
/* dpi_table_lookup under run (NULL = none): deadline and flag count on entry and in waits; logits NULL. */
DPI_API DPI_NODISCARD dpi_status dpi_table_lookup_run(
    const dpi_model* model, const char* table, const int64_t* keys, size_t n, float* out, size_t out_len,
    const dpi_run_options* run, dpi_error* error) DPI_NOEXCEPT;

/* ---- contexts ------------------------------------------------------------------------------------------ */
/* Optional per-thread handle: own scratch, no hop through the model's pool, and writable memory for one
 * batch. Keeps the model alive. max_contexts does not count it, nor does store.parked; dpi_model_warm_up does
 * not warm it. max_rows, max_nnz: capacity of the view, not the options of these names (which bound a chunk);
 * max_nnz: ids of all slots together, <= 0 stands for max_rows * num_slots, which is the minimum. */
typedef struct dpi_context dpi_context;
DPI_API DPI_NODISCARD dpi_status dpi_context_create(dpi_model* model, int64_t max_rows, int64_t max_nnz,
                                                    dpi_context** out, dpi_error* error) DPI_NOEXCEPT;
typedef struct dpi_context_view {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t max_rows;
  int64_t max_nnz;
  float* dense;      /* [max_rows, dense_dim]                          */
  int64_t* ids;      /* [max_nnz]                                      */
  int64_t* offsets;  /* [max_rows * num_slots + 1]                     */
  float* weights;    /* [max_nnz]                                      */
  float* out;        /* [max_rows, num_heads]                          */
} dpi_context_view;
/* The context's memory, valid until dpi_context_free. Fill it, then call dpi_context_predict. */
DPI_API dpi_status dpi_context_get_view(dpi_context* context, dpi_context_view* view,
                                        dpi_error* error) DPI_NOEXCEPT;
/* Scores the view's first `rows` rows, row-major, without shared part. nnz < 0: one id per bag, offsets are
 * not read. use_weights: 1 reads view->weights. */
DPI_API DPI_NODISCARD dpi_status dpi_context_predict(dpi_context* context, int64_t rows, int64_t nnz,
                                                     int32_t use_weights, const dpi_run_options* run,
                                                     dpi_error* error) DPI_NOEXCEPT;
/* Any batch on this context's scratch. */
DPI_API DPI_NODISCARD dpi_status dpi_context_predict_batch(
    dpi_context* context, const dpi_batch* batch, float* out, size_t out_len, const dpi_run_options* run,
    dpi_error* error) DPI_NOEXCEPT;
/* Waits for a call that another thread still runs on it. */
DPI_API void dpi_context_free(dpi_context* context) DPI_NOEXCEPT;

/* ---- raw rows ------------------------------------------------------------------------------------------ */
/* Builds a batch from raw values with the bundle's own encoders, so that serving reads values exactly as
 * training did. A feature that is not set is missing. Keeps the model alive. dpi_rows_clear keeps the memory.
 * dpi_rows_set_text, _number, _integer and _unsigned give one raw value: a categorical or numeric feature
 * takes the last one, a sequence appends it. dpi_rows_add_* append to a sequence, and refuse others.
 *   text      as a cell of a CSV file ("3.0" is 3 to a vocabulary of integers). Elements of a text that the
 *             bundle splits (schema JSON: "splitter") are all appended, or none.
 *   integers  as their decimal digits, for every encoder and all 64 bits: 26 is the text "26".
 *   doubles   as a quantity. NaN is missing, infinities are refused, and so are magnitudes from 2^53 on for a
 *             feature whose ids name something (no encoder, or one without the step to_float).
 * A dense vector takes its floats, no raw value. A refused value is DPI_E_INVALID_ARGUMENT, names row and
 * feature, and changes nothing: the row may go on. The page Raw values says more. */
typedef struct dpi_rows dpi_rows;
DPI_API DPI_NODISCARD dpi_status dpi_rows_create(dpi_model* model, dpi_rows** out,
                                                 dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_rows_clear(dpi_rows* rows) DPI_NOEXCEPT;
/* Starts the next row. Shared features go to the shared row begun last; a batch that begins none has no
 * shared part, and the first shared row is begun before the first row. */
DPI_API dpi_status dpi_rows_begin(dpi_rows* rows, dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_begin_shared(dpi_rows* rows, dpi_error* error) DPI_NOEXCEPT;
/* len < 0: value is NUL-terminated. Empty text = missing: nothing is appended to a sequence, unless the
 * bundle has no splitter and an id for missing elements. Errors name row and feature. */
DPI_API dpi_status dpi_rows_set_text(dpi_rows* rows, int32_t feature, const char* value, int64_t len,
                                     dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_number(dpi_rows* rows, int32_t feature, double value,
                                       dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_integer(dpi_rows* rows, int32_t feature, int64_t value,
                                        dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_unsigned(dpi_rows* rows, int32_t feature, uint64_t value,
                                         dpi_error* error) DPI_NOEXCEPT;
/* One element of a sequence with its weight (1 unless the feature is weighted). */
DPI_API dpi_status dpi_rows_add_text(dpi_rows* rows, int32_t feature, const char* value, int64_t len,
                                     float weight, dpi_error* error) DPI_NOEXCEPT;
/* n elements of a sequence, all or none; weights NULL = all 1. n = 0 only asks if the feature takes lists. */
DPI_API dpi_status dpi_rows_add_integers(dpi_rows* rows, int32_t feature, const int64_t* values,
                                         const float* weights, int64_t n, dpi_error* error) DPI_NOEXCEPT;
/* Already encoded: ids of a categorical or sequence feature (they replace the whole bag; weights NULL = all
 * 1), floats of a numeric or dense one (n is 1, or dim). */
DPI_API dpi_status dpi_rows_set_ids(dpi_rows* rows, int32_t feature, const int64_t* ids, const float* weights,
                                    int64_t n, dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_floats(dpi_rows* rows, int32_t feature, const float* values, int64_t n,
                                       dpi_error* error) DPI_NOEXCEPT;
/* A batch over the rows' memory, valid until the next dpi_rows_* call. */
DPI_API dpi_status dpi_rows_get_batch(dpi_rows* rows, dpi_batch* batch, dpi_error* error) DPI_NOEXCEPT;
DPI_API int64_t dpi_rows_count(const dpi_rows* rows) DPI_NOEXCEPT;
DPI_API DPI_NODISCARD dpi_status dpi_rows_predict(dpi_rows* rows, float* out, size_t out_len,
                                                  const dpi_run_options* run, dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_rows_free(dpi_rows* rows) DPI_NOEXCEPT;

/* ---- devices ------------------------------------------------------------------------------------------- */
/* JSON list of the backends (ref, cpu, cuda): usable, or refused with the reason; each is opened briefly. A
 * plugin's entry lists under `searched` where it was looked for: backend_dir (an absolute folder or NULL),
 * DPI_BACKEND_DIR, dpi/backends-1 beside the library. A folder or plugin that anyone but root and the
 * process's user may change is refused. Returns the bytes needed with the NUL (cut to cap), 0 = no memory. */
DPI_API size_t dpi_devices_json(const char* backend_dir, char* buf, size_t cap) DPI_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif /* DPI_H */
