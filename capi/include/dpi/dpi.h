/* dpi.h - C API of the DPIFrame SDK: score click-through-rate models inside a running service.
 *
 *   dpi_error e = DPI_ERROR_INIT;
 *   dpi_model *m = NULL;
 *   if (dpi_model_load("ctr.h5", NULL, &m, &e) != DPI_OK) { fputs(e.message, stderr); return 1; }
 *   dpi_batch b = DPI_BATCH_INIT;
 *   b.rows = 2; b.ids = ids; b.nnz = 2 * slots; b.dense = dense;    (slots: num_slots of dpi_model_get_info, one id per bag)
 *   float score[2];                                                 (rows x num_heads)
 *   if (dpi_predict(m, &b, score, 2, NULL, &e) != DPI_OK) fputs(e.message, stderr);
 *   dpi_model_free(m);
 *
 * Library libdpi.so.1. Self-contained C99, also valid C++11 to C++20, readable by SWIG and cgo.
 *
 * Conventions, valid for every function:
 *  - A call that can fail returns a dpi_status (0 = OK) and fills the caller's dpi_error when one is given. On error no output is
 *    touched, except that a chunked predict may have written rows before the failing one, and all of them when scores are not finite
 *    (option nonfinite). No exception leaves the library, nothing is printed, nothing aborts.
 *  - Floating point: a call computes to nearest, with subnormals and without traps, whatever the calling thread has set (fesetround,
 *    flush-to-zero, feenableexcept), and gives the thread's environment back as it was.
 *  - Strings are UTF-8 and NUL-terminated. Returned const char* stay valid as long as the object they came from (static if none).
 *  - Handles are freed by their *_free; *_free(NULL) does nothing.
 *  - Every public struct starts with struct_size, set by the caller to its own sizeof (DPI_..._INIT does). Fields are only appended. A struct that the caller
 *    fills may be larger than the library knows when the unknown bytes are zero, else DPI_E_VERSION; one that the library fills gets
 *    zeros there. No struct may be smaller than in version 1.0 or larger than 4096 bytes (DPI_E_INVALID_ARGUMENT), but dpi_error, which takes what fits.
 *  - Status codes and constants are only appended, never renumbered.
 *  - Calls keep no pointer of the caller after they return, but for the callbacks, user pointers and flags of dpi_env_set_log,
 *    dpi_env_set_memory and dpi_options_set_progress, which say until when. A callback throws nothing: an exception that leaves it may end the process.
 *  - *_json functions with a buffer return the bytes needed including the NUL (0 on a null handle, on a parent's model or without memory) and write at most `cap` bytes, always
 *    NUL-terminated when cap > 0; call once with cap 0 to learn the size.
 * Thread safety: dpi_model and everything that takes it may be used from any number of threads at once (dpi_model_free of the
 * last reference excepted, see there), and so may dpi_env. dpi_options, dpi_context and dpi_rows belong to one thread at a time.
 * After fork() a child gets DPI_E_FORKED from models loaded by its parent, and 0 from their *_json functions; load in the child instead. Names, indices,
 * dpi_model_get_info and dpi_model_get_feature answer as before.
 * Stack: a predict on `ref` or `cpu` that succeeds uses at most 16 KiB of the caller's, so a fibre with 64 KiB may call it.
 */
#ifndef DPI_H
#define DPI_H
#include <stddef.h>
#include <stdint.h>

#if defined(DPI_STATIC)
#  define DPI_API
#elif defined(__GNUC__)
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
#define DPI_VERSION_MINOR 0 /* grows when functions or trailing fields are added */
#define DPI_VERSION_PATCH 0
#define DPI_VERSION_NUMBER (DPI_VERSION_MAJOR * 10000 + DPI_VERSION_MINOR * 100 + DPI_VERSION_PATCH)

/* ---- status ------------------------------------------------------------------------------------------------------------ */
typedef int32_t dpi_status;
enum {
  DPI_OK = 0,
  DPI_E_INVALID_ARGUMENT = 1, /* the caller's input: null pointer, length, offset, id, NaN; row and feature in dpi_error      */
  DPI_E_NOT_FOUND = 2,        /* no such file, no such option                                                               */
  DPI_E_IO = 3,               /* the file exists but cannot be read; native_code = errno                                     */
  DPI_E_BAD_MODEL = 4,        /* not a bundle, damaged, or inconsistent; the text names the place inside the file             */
  DPI_E_UNSUPPORTED = 5,      /* well-formed, but of a newer format or an op, option or mode this build lacks                 */
  DPI_E_OUT_OF_MEMORY = 6,    /* host or device; models are forecast before their tables are read                            */
  DPI_E_DEVICE = 7,           /* the device failed; native_code = its error                                                  */
  DPI_E_NO_DEVICE = 8,        /* the device asked for cannot be used; the text says why                                      */
  DPI_E_TIMEOUT = 9,          /* the deadline passed                                                                         */
  DPI_E_CANCELLED = 10,       /* the cancel flag was set                                                                     */
  DPI_E_QUEUE_FULL = 11,      /* the host tier fetches as many rows as it may (options store.*): try again                   */
  DPI_E_CLOSED = 12,          /* the model is being freed                                                                    */
  DPI_E_FORKED = 13,          /* the handle belongs to the parent process                                                    */
  DPI_E_VERSION = 14,         /* the caller was compiled against a newer header and uses what this library lacks              */
  DPI_E_INTERNAL = 15         /* a defect of the library; please report the text                                             */
};

/* Caller-owned, no allocation, may be NULL everywhere. One call carries code and text together, so a goroutine that moves to another
 * OS thread still sees its own error. Only struct_size must be set before a call. A size of 0 or beyond 4096 was never set and stands
 * for DPI_ERROR_1_0_SIZE, which every dpi_error has; with another size below 40 nothing is written; else the text is cut to what fits. */
typedef struct dpi_error {
  uint32_t struct_size;
  dpi_status code;
  int64_t row;         /* offending row of the batch, -1 if none; a row of the shared part when in_shared is 1                */
  int64_t feature;     /* index of the feature in the schema, -1 if none                                                     */
  int32_t native_code; /* errno, cudaError_t ... 0 if none                                                                    */
  uint32_t in_shared;
  char message[480];   /* one line, NUL-terminated; control characters and bytes that are not UTF-8 are spelled out (\x1b)     */
} dpi_error;
#define DPI_ERROR_1_0_SIZE 512 /* sizeof(dpi_error) in version 1.0; never changes */
#ifndef SWIG /* initialisers, so that no compiler warns of members left out */
#  define DPI_ERROR_INIT {sizeof(dpi_error), DPI_OK, -1, -1, 0, 0, {0}}
#endif

DPI_API uint32_t dpi_version(void) DPI_NOEXCEPT;           /* of the loaded library; compare with DPI_VERSION_NUMBER */
DPI_API const char* dpi_build_info_json(void) DPI_NOEXCEPT; /* static: version, compiler, backends, libraries, path of the file */
DPI_API const char* dpi_status_name(dpi_status status) DPI_NOEXCEPT; /* "DPI_E_IO"; never NULL                          */

/* ---- environment ------------------------------------------------------------------------------------------------------- */
/* What models share: where messages go, where large blocks of memory come from, and the worker threads of option `threads`. Models
 * loaded without one share the process's environment, which NULL stands for below. Reference-counted: options and models keep theirs. It may be used after fork(): the child
 * starts threads of its own. */
typedef struct dpi_env dpi_env;
DPI_API DPI_NODISCARD dpi_status dpi_env_create(dpi_env** out, dpi_error* error) DPI_NOEXCEPT;
/* Drops the caller's reference. Threads end with the last model of an environment, the process's too. dlclose() keeps the library mapped. */
DPI_API void dpi_env_free(dpi_env* env) DPI_NOEXCEPT;
/* Keys (an unknown one is DPI_E_NOT_FOUND, a bad value DPI_E_INVALID_ARGUMENT):
 *   threads   0 ... 256     0       threads that one call may use at most, the caller's included; 0 = what its model's option `threads` says. The largest of all models less one are
 *                                   started when first asked for (named dpi-pool, all signals but those of faults blocked) and shared by all calls. Set it before models are loaded
 *   spin_us   0 ... 10000   10000   the longest that these look for work between calls, whatever models' `spin_us` say; 0 = none does. At any time, of loaded models too */
DPI_API DPI_NODISCARD dpi_status dpi_env_set(dpi_env* env, const char* key, const char* value, dpi_error* error) DPI_NOEXCEPT;

enum { DPI_LOG_DEBUG = 0, DPI_LOG_INFO = 1, DPI_LOG_WARN = 2, DPI_LOG_ERROR = 3, DPI_LOG_OFF = 4 };
/* Components, and what they tell of:
 *   load       debug: each stage and its time; info: the model is ready
 *   device     info: device=auto fell back to cpu, and why
 *   plugin     warn: a file that is there and cannot be used as a plugin, or a folder of plugins that is not trusted
 *   tuning     warn: a table of measured choices, or a line of it, that does not fit and is ignored
 *   graphs     warn: capturing failed, calls go on op by op
 *   tables     info: what store.peer_devices shares out; warn: it lies elsewhere, or tables said to be equal are not
 *   contexts   warn: calls waited a millisecond or more for a context: how many, the longest, out of how many contexts
 * A predict logs nothing. What it meets (graphs, contexts) is told by the model's next dpi_model_warm_up, dpi_model_info_json,
 * dpi_model_counters_json or dpi_model_free, on that call's thread. */
/* message: one line, spelled out as dpi_error's. */
typedef void (*dpi_log_fn)(void* user, int32_t level, const char* component, const char* message);
/* callback: NULL = none; called from any thread that loads or manages models, by several at once, without a lock of the library held. It
 * may call the library; messages that this causes are kept for polling only. Messages below min_level (at first DPI_LOG_WARN) are dropped,
 * for polling too. Returns when no other thread is in the previous callback, whose user pointer may then go; called from a callback it
 * does not wait. */
DPI_API dpi_status dpi_env_set_log(dpi_env* env, dpi_log_fn callback, void* user, int32_t min_level, dpi_error* error) DPI_NOEXCEPT;
/* For languages that poll: takes the oldest of the last 256 messages as "component: message" and returns its bytes including the NUL, 0
 * when there is none. A text has at most 4096 bytes; it is cut to cap, and not taken when cap is 0. Where messages were lost before
 * they were polled, one of component log says how many. level may be NULL. */
DPI_API size_t dpi_env_poll_log(dpi_env* env, char* buf, size_t cap, int32_t* level) DPI_NOEXCEPT;

enum { DPI_BLOCK_TABLES = 0, DPI_BLOCK_WEIGHTS = 1, DPI_BLOCK_SCRATCH = 2, DPI_BLOCK_STAGING = 3 };
/* `bytes` (never 0, any number) at a multiple of `alignment` (a power of two), any content; NULL = out of memory. kind: DPI_BLOCK_*. */
typedef void* (*dpi_alloc_fn)(void* user, size_t bytes, size_t alignment, int32_t kind);
typedef void (*dpi_free_fn)(void* user, void* block, size_t bytes, int32_t kind); /* bytes and kind as at its allocation */
typedef struct dpi_memory_hooks {
  uint32_t struct_size;
  uint32_t flags;            /* 0 */
  dpi_alloc_fn alloc;
  dpi_free_fn free;
  void* user;
} dpi_memory_hooks;
/* Where models that are loaded from now on take the blocks that cpu and ref need in host memory: tables, constants, contexts' scratch and
 * staging. Packed weights and what describes a model stay with the C library, a GPU's blocks with its driver. hooks NULL = the C library
 * again. Called from any thread, by several at once, without a lock of the library held, while models and contexts are made and freed, also
 * by the predict that first needs a context; must not call back into the library. The functions and user must stay valid until the last
 * such model is freed. An allocation that fails is DPI_E_OUT_OF_MEMORY for the call that needed it. */
DPI_API DPI_NODISCARD dpi_status dpi_env_set_memory(dpi_env* env, const dpi_memory_hooks* hooks, dpi_error* error) DPI_NOEXCEPT;

/* ---- options ----------------------------------------------------------------------------------------------------------- */
/* String keys, so that a new option never changes the ABI. dpi_options_set refuses unknown keys (DPI_E_NOT_FOUND) and bad values
 * (DPI_E_INVALID_ARGUMENT). Keys, values, defaults:
 *   device             cpu | cuda[:N] | auto | ref | name   auto   auto: cuda, else cpu, and dpi_model_info_json says why; ref = slow reference;
 *                                                                 name = any plugin: libdpi_<name>.so; N is device_index
 *   device_index       0 ...                               0
 *   devices            0,1 ...                             none   in place of device_index: each call runs on the one with the fewest in use; max_contexts is of all
 *   precision          fp32 | tf32 | fp16 | bf16 | int8    fp32   cuda: all but int8; cpu: fp32, bf16, int8. What a backend lacks is DPI_E_UNSUPPORTED
 *   threads            1 ... 256                           1      threads that share a call on a backend in host memory, where it gains by it and callers leave
 *                                                                 them a processor (rows, or columns of large layers), and, 8 at most, the reading of a bundle; 1 = the caller's
 *   spin_us            0 ... 10000                         200    how long the environment's threads look for work between calls, while callers leave them a processor; the longest of its models counts; 0 = not
 *   determinism        default | strict                    default   strict: a row's bits do not depend on its batch, nor on the thread's
 *                                                                 rounding mode, flush-to-zero or traps (see Conventions)
 *   nonfinite          refuse | return                     refuse    scores that are infinite or NaN although all input is finite (3e38 in a dense column overflows):
 *                                                                 refuse = the call is DPI_E_INVALID_ARGUMENT and names the first such row, its scores stay in out; return
 *                                                                 = they pass, to be looked for by the caller, since NaN breaks most sorts. Counted either way
 *                                                                 (nonfinite_rows of dpi_model_counters_json)
 *   max_rows           1 ... 1048576                       4096   rows per internal chunk at most; larger batches run in several
 *   max_nnz            1 ... 268435456                     1048576   ids per sequence feature and chunk
 *   max_contexts       1 ... 1024                          hardware threads; callers beyond it wait in a queue
 *   verify             off | golden                        off    golden: recompute the bundle's golden rows while loading
 *   require_signature  hex Ed25519 public keys, by commas  none   load only bundles that one of them signed; every byte, of tables and rows
 *                                                                 that nothing uses too, is then compared with the hash signed, by `threads`
 *   backend_dir        absolute folder                     none   where plugins are looked for first
 *   memory_limit       bytes                               0      the most that the model may take at any moment, host and device memory together: tables, weights, indexes of
 *                                                                 keys, vocabularies, what describes it, all contexts, blocks while loading. A load whose forecast (most_bytes
 *                                                                 of dpi_model_info_json) is above it is refused before tables are read. Not counted: dpi_context_create,
 *                                                                 dpi_rows, threads. 0 = tables must fit into what the host has free, or all with one call the device
 *   isa                auto | scalar | avx2 | avx512 | avx512_bf16 | avx512_vnni | amx   auto   of the cpu backend; the last three matter to precision=bf16 and int8 only, where amx and auto may ask for tile registers: then small signal stacks (sigaltstack) are refused
 *   in_flight          1 ... 8                             3      chunks of one call in flight on a device with its own memory
 *   small_batch        on | off                            off    one kernel for small batches where the device has one
 *   tuning             default | off | path                default   measured choices of the cuda backend's kernels
 *   store.share        on | off                            on     tables with models of the same environment, hooks and device whose tables are equal:
 *                                                                 one copy, freed with the last; the host tier too where all its tables and the options
 *                                                                 store.* are. A load waits for another of the same tables, and compares every row
 *   store.peer_devices  0,1,2,3 ...                        none   tables of 2 MiB or more a device named are shared out over the memory of these, and any reads them.
 *                                                                 Else they are in host memory, or on a machine with one device in its own: dpi_model_info_json says it
 *   store.peer_copy_bytes  bytes                           0      of each device the model runs on: copies of the hottest of others' rows (store.hot_keys), by reads saved a byte; 0 = none
 * For tables larger than memory. The rows of tables in the host tier stay in the bundle's file, and a cache of fixed size holds those that calls
 * need; scores are those of resident tables, to the bit where debug.fold is tiered (or off) for both, else within rounding. The
 * file may be replaced by another of its name, but not written to: then a row that is not in the cache yet is DPI_E_IO for the call. dpi_model_load_memory
 * has no file, and refuses a host tier with DPI_E_UNSUPPORTED, as does a device whose kernels cannot read host memory:
 *   store.host_bytes      bytes                            0      the host tier: rows, directories, what the index of both takes; 0 = none. A call whose distinct rows do not fit at once is DPI_E_OUT_OF_MEMORY
 *   store.gpu_bytes       bytes                            0      of a GPU: copies of the tier's warm rows (other rows it reads in host memory); elsewhere, and with devices=0,1, refused
 *   store.resident_bytes  bytes                            1048576   a table of at most so many stays resident, as does one whose zero rows a mask asks for
 *   store.hot_keys        path | off                       none   a list that `dpi store hot-keys` wrote for this bundle; none: the one in it, if any. It fills the tier at load, hottest
 *                                                                 first, then first rows as without; no score changes. One that is damaged, empty or of other tables is refused by name
 *   store.fetch_threads   1 ... 64                         2      threads of the model that read rows (named dpi-fetch)
 *   store.fetch_queue     1 ... 65536                      64     reads of up to 256 rows that may wait or run; more are DPI_E_QUEUE_FULL
 *   store.fetch_bytes     65536 ...                        67108864   bytes that may be under way; more are DPI_E_QUEUE_FULL
 *   store.rocksdb_path    absolute folder                  none   where the rows of external tables are (`dpi store load` brings them there), and
 *   store.rocksdb_reads   pread | mmap | direct            pread  mmap: faster where many rows miss, but a disk that fails ends the process (SIGBUS)
 *   store.redis_address   host:port, by commas             none   the server, or nodes of a cluster: with it, store.redis_password. With both stores a table is read from
 *                                                                 RocksDB where it is there, else from Redis. The plugins libdpi_rocksdb.so and libdpi_redis.so are looked
 *                                                                 for as backends are. A table must state its rows (a keyed one: or its set's keys) and the digest it is
 *                                                                 looked for by: what is nowhere whole is DPI_E_NOT_FOUND. Keys it lacks get its default row, counted as
 *                                                                 `absent`. A call waits for a store as for a file; one that does not answer is DPI_E_IO or DPI_E_TIMEOUT.
 *                                                                 `dpi store verify` compares rows, which are believed
 *   store.redis_password  text                             none
 *   table.NAME.tier       auto | resident | host           auto   of one table; auto = by its size
 *   table.NAME.miss       exact | default | fail           exact  a row that is not in the tier yet: exact = the call waits, until its deadline (DPI_E_TIMEOUT); default = its
 *                                                                 columns are table.NAME.default this time, and it is fetched behind; fail = DPI_E_NOT_FOUND, and it is fetched behind
 *   table.NAME.default    number                           0      of every column, for miss=default; an external keyed table refuses it
 *   table.NAME.update     refuse | stale                   refuse external: `dpi store update` changes its rows. refuse: a newer row is DPI_E_BAD_MODEL;
 *                                                                 stale: rows mix versions, newest within 2 s + a fetch, those of padding at load
 * For measuring and for finding faults; services have no use for them, and later versions may drop them:
 *   debug.fold         on | tiered | off                   on     exact algebra that removes work; tiered = what tables in a host tier have of it
 *   debug.fuse         on | off                            on     operator fusion; off = primitives one by one
 *   debug.skip         none | lookup,elementwise,merge,tail,hoist,attention,cin,mixture  none   fusing passes left out
 *   debug.schedule     breadth | depth | single            breadth   issue order of ops
 *   debug.order        cost | ops | light                  cost   which branch starts: most work left, most ops left, least work left
 *   debug.graphs       on | off                            on     capture and replay calls where the device can (CUDA graphs)
 *   debug.lookup       auto | output_first | input_first   auto   of the cuda backend; input_first: builds with DPI_MEASURE only
 *   debug.fetch        kernel | copy | in_place            kernel   who reads inputs of up to 1 MiB in host memory: a kernel, the copy engine, or small_batch=on itself (not bags); in_place: builds with DPI_MEASURE only
 *   debug.timestamps   on | off                            off    a timestamp per op (dpi bench --profile)                         */
typedef struct dpi_options dpi_options;
DPI_API dpi_options* dpi_options_create(void) DPI_NOEXCEPT; /* NULL when out of memory */
DPI_API DPI_NODISCARD dpi_status dpi_options_set(dpi_options* options, const char* key, const char* value,
                                                 dpi_error* error) DPI_NOEXCEPT;
/* The environment of models loaded with these options; NULL = the process's. */
DPI_API DPI_NODISCARD dpi_status dpi_options_set_env(dpi_options* options, dpi_env* env, dpi_error* error) DPI_NOEXCEPT;
/* Loads with these options call progress (NULL = not) on the loading thread, at the begin and end of each stage and about 100 times in
 * between: `done` of `total`, in bytes for stage "tables" and, with require_signature, "verify", else in steps. Stages in this order: open, plan, tables,
 * ops, verify (options verify and require_signature). A load stops with DPI_E_CANCELLED, keeping nothing, when *cancel (NULL = never) is not 0 at such a point or between blocks of
 * 4 MiB. progress, user and cancel must stay valid until the options are freed or set anew, or no load with them runs or begins. */
typedef void (*dpi_progress_fn)(void* user, const char* stage, uint64_t done, uint64_t total);
DPI_API DPI_NODISCARD dpi_status dpi_options_set_progress(dpi_options* options, dpi_progress_fn progress, void* user,
                                                          const volatile int32_t* cancel, dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_options_free(dpi_options* options) DPI_NOEXCEPT;

/* ---- models ------------------------------------------------------------------------------------------------------------ */
typedef struct dpi_model dpi_model; /* immutable after load, reference-counted */

/* Reads, checks and prepares a bundle. options may be NULL; only their environment is kept. Blocks for the time of reading the file. */
DPI_API DPI_NODISCARD dpi_status dpi_model_load(const char* path, const dpi_options* options, dpi_model** out,
                                                dpi_error* error) DPI_NOEXCEPT;
/* The same from `size` bytes in memory, which may be freed after the call. */
DPI_API DPI_NODISCARD dpi_status dpi_model_load_memory(const void* bytes, size_t size, const dpi_options* options,
                                                       dpi_model** out, dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_model_retain(dpi_model* model) DPI_NOEXCEPT;
/* Drops one reference; the last one waits for running calls, those that wait for a context included, and frees the model. No call may
 * begin once the last reference is dropped. One that another thread was entering at that moment is finished as well or gets
 * DPI_E_CLOSED (0, -1 or NULL where there is no status). */
DPI_API void dpi_model_free(dpi_model* model) DPI_NOEXCEPT;
/* Creates all contexts of the model's pool (option max_contexts) and runs batches of up to max_rows rows through each, so that no later
 * call pays for a first time. With option threads it then measures, for 60 ms at most, from which sizes calls gain by them. */
DPI_API dpi_status dpi_model_warm_up(dpi_model* model, int64_t max_rows, dpi_error* error) DPI_NOEXCEPT;

enum { DPI_DEVICE_REF = 0, DPI_DEVICE_CPU = 1, DPI_DEVICE_CUDA = 2, DPI_DEVICE_OTHER = 3 };
typedef struct dpi_model_info {
  uint32_t struct_size;
  int32_t num_features;
  int32_t num_slots;         /* id features; ids of a batch without shared part: slots in schema order                         */
  int32_t dense_dim;         /* floats per row of the dense matrix, likewise                                                  */
  int32_t num_item_slots;    /* the item and shared parts of a batch that has a shared part                                   */
  int32_t num_shared_slots;
  int32_t item_dense_dim;
  int32_t shared_dense_dim;
  int32_t num_heads;         /* scores per row                                                                               */
  int32_t device_kind;       /* DPI_DEVICE_*: what runs, after any fallback                                                   */
  int32_t device_index;
  int32_t reserved;
  int64_t max_rows;          /* rows per internal chunk                                                                      */
  uint64_t host_bytes;       /* tables and weights                                                                           */
  uint64_t device_bytes;
  uint64_t content_digest;   /* changes with any byte of the bundle                                                          */
  uint64_t version;          /* of the content as it is served: 1, or its number in an endpoint (dpi/endpoint.h)              */
} dpi_model_info;
DPI_API dpi_status dpi_model_get_info(const dpi_model* model, dpi_model_info* info, dpi_error* error) DPI_NOEXCEPT;

enum { DPI_FEATURE_CATEGORICAL = 0, DPI_FEATURE_SEQUENCE = 1, DPI_FEATURE_NUMERIC = 2, DPI_FEATURE_DENSE = 3 };
typedef struct dpi_feature_info {
  uint32_t struct_size;
  int32_t kind;           /* DPI_FEATURE_*                                                                                   */
  int32_t shared;         /* 1: belongs to the shared (user) part                                                            */
  int32_t slot;           /* of a batch without shared part; -1 for numeric and dense                                         */
  int32_t part_slot;      /* within its own part of a batch that has a shared part                                            */
  int32_t dense_column;   /* first column; -1 for categorical and sequence                                                    */
  int32_t part_column;
  int32_t dim;            /* floats, dense features; else 1                                                                   */
  int64_t vocab_size;     /* valid ids are 0 .. vocab_size-1; 0 for numeric and dense, and where ids are keys ("keys" of the schema's */
                          /* JSON names the key set): then every int64 is valid                                                */
  int64_t max_len;        /* sequence: longer bags are cut at the end that the schema's `keep` does not name; 0 = unlimited   */
  int32_t has_encoder;    /* raw values can be given (dpi_rows)                                                              */
  int32_t weighted;
} dpi_feature_info;
DPI_API dpi_status dpi_model_get_feature(const dpi_model* model, int32_t index, dpi_feature_info* info,
                                         dpi_error* error) DPI_NOEXCEPT;
DPI_API int32_t dpi_model_feature_index(const dpi_model* model, const char* name) DPI_NOEXCEPT; /* -1 = no such feature */
DPI_API const char* dpi_model_feature_name(const dpi_model* model, int32_t index) DPI_NOEXCEPT; /* NULL = out of range */
DPI_API const char* dpi_model_head_name(const dpi_model* model, int32_t index) DPI_NOEXCEPT;    /* NULL = out of range */
/* Features (with slots, columns, rules), heads, provenance. */
DPI_API size_t dpi_model_schema_json(const dpi_model* model, char* buf, size_t cap) DPI_NOEXCEPT;
/* Device, why it was chosen or refused, options in force, memory by table and by device, where store.peer_devices has put tables, plan summary. */
DPI_API size_t dpi_model_info_json(const dpi_model* model, char* buf, size_t cap) DPI_NOEXCEPT;
/* Since load: "calls", "rows", "nonfinite_rows" (with a score that is not finite: option nonfinite), "errors" by code, "waits" for a context
 * of a millisecond or more and the longest in "longest_wait_ms", in the list "devices" the "calls" by "name", "saturated" (values between layers that fp16 or bf16
 * could not hold: counted with debug.timestamps=on only); in the list "features" one object per feature, its "name" and how many values were, by cause:
 *   missing       no id, missing_id, NaN, never set; elements of a sequence that leave their bag; empty bags unless the rule is pad
 *   out_of_range  encoded ids outside 0 .. vocab_size-1, those that an encoder computed included
 *   unknown       raw values that the vocabulary of the feature's encoder does not hold, whatever the rule makes of them
 *   unparsable    raw values refused: no number, no integer, outside a step's domain
 *   cut           bags longer than max_len
 *   absent        ids of a feature of keys that its key set does not hold: they read the default row of its tables
 * In the list "tiers" one object per table in the host tier, its "name" and how many ids were looked up that
 *   hits          found their row there
 *   late          waited for it
 *   absent        have none in the file
 *   defaulted     were late and got the default row (miss=default)
 *   dropped       of those, whose row was not even fetched behind: no place or no fetch was free
 * and of fetches: rows "fetched", "missing" and "failed", "fetched_bytes", and "fetch_p50_us" and "fetch_p99_us" of a fetch of up to 256 rows.
 * dpi_table_lookup counts there too. "device_hits" of the lookups that were sampled, "device_sampled", found their row on the GPU (store.gpu_bytes).
 * In the list "peers" one object per table on several devices: of the "sampled" lookups those in the device's "own" share, "copied" there, and "remote".
 * unknown, unparsable and missing elements of raw rows count when dpi_rows is given the value, all else when a call reads it; a call that
 * is refused has counted what it read. */
DPI_API size_t dpi_model_counters_json(const dpi_model* model, char* buf, size_t cap) DPI_NOEXCEPT;

/* Floats of a row of a table that dpi_table_lookup reads; -1 where it would refuse the table whatever the keys. */
DPI_API int32_t dpi_table_dim(const dpi_model* model, const char* table) DPI_NOEXCEPT;
/* Rows of one table as float32, [n, dim], as the model's lookups read them (rounded where the option precision rounds): for services that keep the
 * dense part elsewhere, to look at embeddings, to compare them with training. table: its name in the bundle. Where a key set finds the table's rows,
 * keys are any int64 and an absent one gives the default row; else keys are row numbers, and one outside the table is DPI_E_INVALID_ARGUMENT. An error of
 * one key names its value; dpi_error.row is its number in the call. out_len: floats of out, at least n x dim. A table that the bundle has not, or of which the
 * model keeps no rows, is DPI_E_NOT_FOUND; one on a device with memory of its own DPI_E_UNSUPPORTED. A table in the host tier is read through it on every
 * device, by its policy table.NAME.miss: exact waits without a deadline (dpi_table_lookup_run has one); default = a late row is table.NAME.default in every
 * column, only the counter `defaulted` tells; fail = DPI_E_NOT_FOUND. A call that fails leaves out as it is. Counted as "tiers" of dpi_model_counters_json. */
DPI_API DPI_NODISCARD dpi_status dpi_table_lookup(const dpi_model* model, const char* table, const int64_t* keys, size_t n, float* out,
                                                  size_t out_len, dpi_error* error) DPI_NOEXCEPT;

/* ---- batch ------------------------------------------------------------------------------------------------------------- */
enum { DPI_LAYOUT_ROW_MAJOR = 0 /* bag = row * slots + slot */, DPI_LAYOUT_SLOT_MAJOR = 1 /* bag = slot * rows + row */ };
enum { DPI_MEM_HOST = 0 };

/* Rows to score. Without a shared part (shared_offsets == NULL) the item part holds every feature of the schema. With one, user
 * features are given once per shared row and the item part holds item features only; item rows
 * shared_offsets[s] .. shared_offsets[s+1]-1 belong to shared row s, whose values nobody looks at when there are none. Both ways give the same scores.
 * Ids: an id outside its feature's vocabulary follows the feature's rule in the schema, and of a feature of keys every int64 is an id; a bag of a categorical feature has one id, or
 * none when it is missing. NaN in dense = missing. No rows at all is a batch too. */
typedef struct dpi_batch {
  uint32_t struct_size;
  uint32_t flags;               /* 0 */
  int64_t rows;
  const float* dense;           /* [rows, dense columns], row-major in either layout; NULL when there are none                */
  int64_t dense_stride;         /* floats between rows; 0 = dense columns                                                     */
  const int64_t* ids;           /* offsets == NULL: rows * slots ids, one per bag; else nnz ids                                 */
  const int64_t* offsets;       /* NULL, or rows * slots + 1: bag b = ids[offsets[b]] .. ids[offsets[b+1]-1], offsets[0] == 0   */
  const float* weights;         /* NULL = all 1; else one per id. Only bags of weighted features may have weights other than 1  */
  int64_t nnz;                  /* length of ids (and weights): rows * slots, or offsets[rows * slots]                         */
  int32_t layout;               /* DPI_LAYOUT_*: order of the bags, of both parts                                             */
  int32_t memory;               /* DPI_MEM_HOST                                                                              */
  int64_t shared_rows;
  const int64_t* shared_offsets; /* NULL = no shared part; else shared_rows + 1, [0] == 0, non-decreasing, last == rows          */
  const float* shared_dense;
  int64_t shared_dense_stride;
  const int64_t* shared_ids;
  const int64_t* shared_bag_offsets; /* as offsets, over the shared slots                                                     */
  const float* shared_weights;
  int64_t shared_nnz;
} dpi_batch;
#define DPI_BATCH_1_0_SIZE (offsetof(dpi_batch, shared_nnz) + sizeof(int64_t))
#ifndef SWIG
#  define DPI_BATCH_INIT {sizeof(dpi_batch), 0, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, NULL, 0}
#endif

typedef struct dpi_run_options {
  uint32_t struct_size;
  uint32_t flags;                  /* 0 */
  uint64_t deadline_ns;            /* a moment of CLOCK_MONOTONIC in nanoseconds, 0 = none; looked at on entry, while waiting, between chunks */
  const volatile int32_t* cancel;  /* non-zero = stop at the next such point; NULL = not cancellable                                */
  float* logits;                   /* NULL, or rows x heads: values before the heads' activations (NaN for a head without logit)    */
  size_t logits_len;
  uint64_t* version;               /* NULL, or receives the version of the model (dpi_model_info) that scored all rows of the call   */
} dpi_run_options;
#ifndef SWIG
#  define DPI_RUN_OPTIONS_INIT {sizeof(dpi_run_options), 0, 0, NULL, NULL, 0, NULL}
#endif

/* out: rows x num_heads floats, row-major, caller-owned; out_len = its length in floats, at least that. Allocates nothing in steady state. */
DPI_API DPI_NODISCARD dpi_status dpi_predict(dpi_model* model, const dpi_batch* batch, float* out, size_t out_len,
                                             const dpi_run_options* run, dpi_error* error) DPI_NOEXCEPT;
/* The same call without structs, for cgo (Go pointers may not sit inside a struct) and JNI; no shared part. Lengths in elements;
 * offsets NULL = one id per bag; weights NULL = all 1; dense_stride 0 = dense columns. */
DPI_API DPI_NODISCARD dpi_status dpi_predict_flat(dpi_model* model, int64_t rows, const float* dense, size_t dense_len, int64_t dense_stride,
                                                  const int64_t* ids, size_t ids_len, const int64_t* offsets, size_t offsets_len,
                                                  const float* weights, size_t weights_len, int32_t layout, float* out, size_t out_len,
                                                  uint64_t deadline_ns, const volatile int32_t* cancel, dpi_error* error) DPI_NOEXCEPT;
/* dpi_table_lookup under run (NULL = without): its deadline and flag are looked at on entry and while rows are waited for; logits must be NULL. */
DPI_API DPI_NODISCARD dpi_status dpi_table_lookup_run(const dpi_model* model, const char* table, const int64_t* keys, size_t n, float* out,
                                                      size_t out_len, const dpi_run_options* run, dpi_error* error) DPI_NOEXCEPT;

/* ---- contexts ---------------------------------------------------------------------------------------------------------- */
/* Optional per-thread handle: own scratch, no hop through the model's pool, and writable memory for one batch. Keeps the model alive.
 * Not counted by option max_contexts and not warmed by dpi_model_warm_up. max_rows, max_nnz: capacity of the view, not the options of
 * these names (which bound a chunk); max_nnz: ids of all slots together, <= 0 stands for max_rows * num_slots, the least there is. */
typedef struct dpi_context dpi_context;
DPI_API DPI_NODISCARD dpi_status dpi_context_create(dpi_model* model, int64_t max_rows, int64_t max_nnz, dpi_context** out,
                                                    dpi_error* error) DPI_NOEXCEPT;
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
DPI_API dpi_status dpi_context_get_view(dpi_context* context, dpi_context_view* view, dpi_error* error) DPI_NOEXCEPT;
/* Scores the view's first `rows` rows, row-major, without shared part. nnz < 0: one id per bag, offsets are not read.
 * use_weights: 1 reads view->weights. */
DPI_API DPI_NODISCARD dpi_status dpi_context_predict(dpi_context* context, int64_t rows, int64_t nnz, int32_t use_weights,
                                                     const dpi_run_options* run, dpi_error* error) DPI_NOEXCEPT;
/* Any batch on this context's scratch. */
DPI_API DPI_NODISCARD dpi_status dpi_context_predict_batch(dpi_context* context, const dpi_batch* batch, float* out,
                                                           size_t out_len, const dpi_run_options* run,
                                                           dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_context_free(dpi_context* context) DPI_NOEXCEPT; /* waits for a call that another thread still runs on it */

/* ---- raw rows ---------------------------------------------------------------------------------------------------------- */
/* Builds a batch from raw values with the bundle's own encoders, so that serving reads values exactly as training did. A feature that
 * is not set is missing. Keeps the model alive. Reusable: dpi_rows_clear keeps the memory.
 *
 * dpi_rows_set_text, _number, _integer and _unsigned give one raw value: a categorical or numeric feature takes the last one, a sequence
 * appends it. dpi_rows_add_* give elements of a sequence, and refuse any other feature. How values are read:
 *   text      as a cell of a CSV file ("3.0" is 3 to a vocabulary of integers). Numbers that come as text are best handed over as such. Where
 *             the bundle says how a bag's text is split (schema JSON: "splitter"), dpi_rows_set_text appends each of its elements, all or none.
 *   integers  as their decimal digits: dpi_rows_set_integer(r, f, 26, e) is dpi_rows_set_text(r, f, "26", 2, e), for every encoder and
 *             all 64 bits. Beyond int64 that is: hashes and vocabularies of strings see the digits, numeric features the nearest float64,
 *             a vocabulary of integers holds none, and as an id it is refused.
 *   doubles   as a quantity. NaN is missing, infinities are refused. A feature whose ids name something (no encoder, or one without the
 *             step to_float) refuses magnitudes of 2^53 and more: from there on a double stands for several integers.
 * A dense vector takes its floats, no raw value. What is refused is DPI_E_INVALID_ARGUMENT, names row and feature, and changes nothing: the
 * row may go on. dpi_model_counters_json counts raw values that could not be read. */
typedef struct dpi_rows dpi_rows;
DPI_API DPI_NODISCARD dpi_status dpi_rows_create(dpi_model* model, dpi_rows** out, dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_rows_clear(dpi_rows* rows) DPI_NOEXCEPT;
/* Starts the next row. Shared features go to the shared row begun last; a batch that begins none has no shared part, and the first shared
 * row is begun before the first row. */
DPI_API dpi_status dpi_rows_begin(dpi_rows* rows, dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_begin_shared(dpi_rows* rows, dpi_error* error) DPI_NOEXCEPT;
/* len < 0: value is NUL-terminated. Empty text = missing: for a sequence nothing, unless the bundle has no splitter and an id for missing
 * elements. Errors name row and feature. */
DPI_API dpi_status dpi_rows_set_text(dpi_rows* rows, int32_t feature, const char* value, int64_t len,
                                     dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_number(dpi_rows* rows, int32_t feature, double value, dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_integer(dpi_rows* rows, int32_t feature, int64_t value, dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_unsigned(dpi_rows* rows, int32_t feature, uint64_t value, dpi_error* error) DPI_NOEXCEPT;
/* One element of a sequence with its weight (1 unless the feature is weighted). */
DPI_API dpi_status dpi_rows_add_text(dpi_rows* rows, int32_t feature, const char* value, int64_t len, float weight,
                                     dpi_error* error) DPI_NOEXCEPT;
/* n elements of a sequence, all or none; weights NULL = all 1, else one each. n may be 0: this only asks whether the feature takes a list. */
DPI_API dpi_status dpi_rows_add_integers(dpi_rows* rows, int32_t feature, const int64_t* values, const float* weights,
                                         int64_t n, dpi_error* error) DPI_NOEXCEPT;
/* Already encoded: ids of a categorical or sequence feature (they replace the whole bag; weights NULL = all 1), floats of a numeric or
 * dense one (n is 1, or dim). */
DPI_API dpi_status dpi_rows_set_ids(dpi_rows* rows, int32_t feature, const int64_t* ids, const float* weights, int64_t n,
                                    dpi_error* error) DPI_NOEXCEPT;
DPI_API dpi_status dpi_rows_set_floats(dpi_rows* rows, int32_t feature, const float* values, int64_t n,
                                       dpi_error* error) DPI_NOEXCEPT;
/* A batch over the rows' memory, valid until the next dpi_rows_* call. */
DPI_API dpi_status dpi_rows_get_batch(dpi_rows* rows, dpi_batch* batch, dpi_error* error) DPI_NOEXCEPT;
DPI_API int64_t dpi_rows_count(const dpi_rows* rows) DPI_NOEXCEPT;
DPI_API DPI_NODISCARD dpi_status dpi_rows_predict(dpi_rows* rows, float* out, size_t out_len, const dpi_run_options* run,
                                                  dpi_error* error) DPI_NOEXCEPT;
DPI_API void dpi_rows_free(dpi_rows* rows) DPI_NOEXCEPT;

/* ---- devices ----------------------------------------------------------------------------------------------------------- */
/* JSON list of the backends (ref, cpu, cuda), each usable or refused with its reason; each is opened for a moment. A plugin's entry
 * lists under `searched` the folders it was looked for in: backend_dir (an absolute folder or NULL), environment DPI_BACKEND_DIR, and
 * dpi/backends-1 beside the library. A folder or plugin that others than root and the process's user may change is refused. Returns
 * the bytes needed including the NUL (longer texts are cut to cap), 0 when memory is out. */
DPI_API size_t dpi_devices_json(const char* backend_dir, char* buf, size_t cap) DPI_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif /* DPI_H */
