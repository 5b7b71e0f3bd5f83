// The private interface between the engine and what keeps embedding rows outside its memory: plugins
// libdpi_<name>.so (rocksdb, redis), opened at run time so that libdpi.so.1 needs neither. A C struct of
// function pointers with an exact-match version; the digest of this file tells builds of one number apart
// (backend/abi/layout.cmake makes it).
//
// A store holds tables. A table is named by its name and its content: two bundles whose tables differ never
// read each other's rows. A table is written from front to back, then completed; only a complete one can be
// read. Rows are addressed by 64-bit keys: row numbers of tables without keys. The default row is not stored.
//
// A complete table may change in place (mode DPI_STORE_UPDATE): each update makes it another content, by
// which it is found from then on, and its sequence number rises by one; 0 = as it was written. Each row is of
// one update, never torn. One writer a table: another one is refused with the name of the first, and so is
// the first once another has taken over.
//
// Every function that can fail returns a DPI_E_* code (dpi::Code) and fills *err (never null) with the place
// (path, host:port, table) and what to do next. Nothing throws. A handle is used by any number of threads in
// fetch; write, complete and drop of one table come from one thread at a time.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DPI_STORE_ABI 4u

extern "C" {

struct dpi_store_error {
  int32_t native_code;  // errno or the client's own; 0 if none
  char message[480];    // NUL-terminated
};

struct dpi_store_setting {
  const char* key;    // "path", "address", "password", "replicas", "timeout_ms" ...
  const char* value;  // never null
};

enum dpi_store_mode {
  DPI_STORE_READ = 0,    // for serving: writes nothing, and several processes may do so side by side
  DPI_STORE_WRITE = 1,   // for loading: one process at a time where the store cannot do otherwise
  DPI_STORE_UPDATE = 2,  // for changing complete tables: as DPI_STORE_WRITE; makes no table
  DPI_STORE_LOOK = 3,  // for stat and count: as DPI_STORE_READ, but tables need not be whole where the store
                       // can say what they lack; nothing is fetched
};

struct dpi_store_options {
  uint32_t struct_size;
  int32_t mode;  // dpi_store_mode
  const dpi_store_setting* settings;
  int32_t n_settings;
  int32_t threads;  // how many fetch at once at most
  // Level 0 debug ... 3 error; null = nobody listens. Never called from fetch.
  void (*log)(void* log_sink, int32_t level, const char* component, const char* message);
  void* log_sink;
};

// What a table is; compared with what the store says of it before anything is read.
struct dpi_store_table {
  const char* name;     // UTF-8, as in the bundle
  const char* content;  // 64 hex digits: hash of its rows, and of its keys where it has some
  int64_t rows;         // as many as are stored
  int64_t row_bytes;    // dim * bytes of an element
  int32_t dim;
  int32_t dtype;  // kernels::DType
  int32_t keyed;  // 0: keys are 0 ... rows - 1
  // Reading: the table may have become another content since, and may be changing: rows are the newest ones
  // there are. 0: such a table is not opened, and one that changes while it is open answers DPI_E_BAD_MODEL
  // for every row that is another one by then, unless the store goes on to answer with the old rows.
  int32_t stale;
};

struct dpi_store_stat {
  int64_t rows;   // written so far: where a writer goes on
  int64_t bytes;  // of the rows in the store's own form, as near as it knows; -1 = it cannot say
  int32_t complete;
  uint64_t digest;   // of all rows written so far in their order, as `write` got it; of sequence 0 only
  int64_t sequence;  // updates that it has had whole
  int32_t updating;  // one has begun and not ended
  char content[65];  // what it is now; NUL-terminated
  char writer[160];  // who changes it now, as the store knows; "" = nobody
  int64_t newer;     // rows that this handle's fetches brought of updates behind the content it was opened by
};

struct dpi_store_fetch {
  int32_t table;
  int64_t n;
  const int64_t* keys;         // no key twice
  unsigned char* const* rows;  // row i goes to rows[i], row_bytes of it
  uint64_t* found;             // bit i of these words, all 0 when called: row i was written
  uint64_t deadline_ns;        // CLOCK_MONOTONIC, 0 = none; passed: DPI_E_TIMEOUT
  // Null, or words as of `found`, all 0 when called. Set with an error, bit i: key i was not answered; the
  // others were, and `found` holds for them. No bit with an error: nothing of the request is used.
  uint64_t* failed;
};

// What a table has, counted row by row or partition by partition, not as its record says.
struct dpi_store_loss {
  int64_t rows;           // there
  int64_t missing_rows;   // of those that were written
  int64_t missing_parts;  // of the store's own division, that lack rows or the sign that they are whole
  char what[400];         // which, and why if the store knows; "" = nothing is missing. NUL-terminated
};

// One of a store's servers, as its last exchanges with this handle went.
struct dpi_store_node {
  char address[128];  // NUL-terminated, as all texts
  int32_t down;       // the last exchange failed
  int32_t last_code;  // of the last failure, which successes leave; 0 = none
  int64_t since_ms;   // of the epoch: when `down` last changed; 0 = never used
  int64_t last_ms;    // of the last failure
  uint64_t failures;
  uint64_t reconnects;  // connections that were made for ones that broke
  uint64_t redirects;   // commands that it sent on to another server, which has the rows now
  int32_t route;        // of the keys that it is asked for
  char last_error[256];
};

#define DPI_STORE_ROUTES 64  // servers beyond share the routes of others

typedef struct dpi_store_handle dpi_store_handle;

typedef struct dpi_store_api {
  uint32_t abi_version;  // DPI_STORE_ABI, compared for equality
  uint32_t struct_size;
  const char* name;      // "rocksdb", "redis"
  const char* settings;  // the keys it knows, parted by ", "

  // Tables are those that will be read or written, numbered as here. Reading: every table must be there,
  // complete, and as described; err names the first that is not. A setting that it does not know is refused.
  int32_t (*open)(const dpi_store_options*, const dpi_store_table* tables, int32_t n_tables,
                  dpi_store_handle** out, dpi_store_error* err);
  void (*close)(dpi_store_handle*);

  // A key without a row is no error: its bit stays 0. With an error see dpi_store_fetch::failed. Takes as
  // long as the deadline allows, not longer, whatever the other end does.
  int32_t (*fetch)(dpi_store_handle*, const dpi_store_fetch*, dpi_store_error* err);

  // The next n rows of a table; keys[n] (of a table without keys: their numbers). digest: of all rows to the
  // end of these, kept with them and told by stat. Durable when it returns, or told as not written.
  int32_t (*write)(dpi_store_handle*, int32_t table, const int64_t* keys, const unsigned char* rows,
                   int64_t n, uint64_t digest, dpi_store_error* err);
  // Every row has come: from now on the table can be read.
  int32_t (*complete)(dpi_store_handle*, int32_t table, dpi_store_error* err);
  int32_t (*stat)(dpi_store_handle*, int32_t table, dpi_store_stat* out, dpi_store_error* err);
  // Takes the table away, complete or not. Readers that have it open may lose it: then their fetches fail,
  // and never answer with other rows.
  int32_t (*drop)(dpi_store_handle*, int32_t table, dpi_store_error* err);

  // An update of a table from the content that it was opened by to `next`, which differs in content and rows
  // only. Changes are absolute and come in one order; `id` tells that order from another one to the same
  // content. *done: so many of them are there already, -1: the table has been `next`, nothing is to be done.
  // DPI_E_IO names the writer that has it; DPI_E_BAD_MODEL: the table is, or is on its way to, another
  // content.
  int32_t (*begin_update)(dpi_store_handle*, int32_t table, const dpi_store_table* next, uint64_t id,
                          int64_t* done, dpi_store_error* err);
  // The next n changes: rows, or of a keyed table (rows null) keys that have none any more. done: changes to
  // the end of these. n may be 0: who writes is still there. Durable when it returns as what `write` writes
  // is. DPI_E_CLOSED: another writer has taken over and nothing was changed.
  int32_t (*update)(dpi_store_handle*, int32_t table, const int64_t* keys, const unsigned char* rows,
                    int64_t n, int64_t done, dpi_store_error* err);
  // Every change has come: from now on the table is `next`, and its sequence number is one more.
  int32_t (*end_update)(dpi_store_handle*, int32_t table, dpi_store_error* err);

  // Counts what is there. DPI_E_BAD_MODEL: rows are lost and cannot be repaired.
  int32_t (*count)(dpi_store_handle*, int32_t table, dpi_store_loss* out, dpi_store_error* err);
  // Writes rows that were lost once more, while others read the table: begin_repair; repair with all keys of
  // the table and no rows, which are counted; repair with all keys and their rows, of which those are written
  // that lie in a part which lacks some; end_repair, which counts again. The table was opened by the content
  // that it has now (DPI_STORE_WRITE). Killed anywhere it leaves a table that can be read as before, and is
  // begun anew. DPI_E_UNSUPPORTED: the store loses no single rows.
  int32_t (*begin_repair)(dpi_store_handle*, int32_t table, dpi_store_error* err);
  int32_t (*repair)(dpi_store_handle*, int32_t table, const int64_t* keys, const unsigned char* rows,
                    int64_t n, dpi_store_error* err);
  int32_t (*end_repair)(dpi_store_handle*, int32_t table, dpi_store_error* err);

  // Null where the store has no servers to tell apart. Fills at most `room` of `to` and returns how many
  // there are. Waits for no server, and fails never.
  int32_t (*nodes)(dpi_store_handle*, dpi_store_node* to, int32_t room);
  // Null where all keys fail together. The route of a key, 0 ... DPI_STORE_ROUTES - 1: keys of one route are
  // asked of one server now. Waits for no server, and fails never.
  int32_t (*route)(dpi_store_handle*, int32_t table, int64_t key);
} dpi_store_api;

#define DPI_STORE_INIT_SYMBOL "dpi_store_init_v1"
#define DPI_STORE_LAYOUT_SYMBOL "dpi_store_layout_v1"
typedef int32_t (*dpi_store_init_fn)(uint32_t abi_version, dpi_store_api* out);
typedef const char* (*dpi_store_layout_fn)(void);

}  // extern "C"
