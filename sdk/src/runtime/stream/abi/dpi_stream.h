// The private interface between the engine and what brings deltas to an endpoint: plugins libdpi_<name>.so
// (kafka), opened at run time so that libdpi.so.1 needs none of their libraries. A C struct of function
// pointers with an exact-match version; the digest of this file tells builds of one number apart
// (backend/abi/layout.cmake makes it).
//
// A stream is an ordered log of messages, each with an offset that rises. It is read from the offset that was
// committed last, or from the oldest message where none was. One thread uses a handle; only wake and
// read_state may be called beside it. Functions that can fail return a DPI_E_* code (dpi::Code) and fill
// *err. Nothing throws.
#pragma once

#include <stdint.h>

#define DPI_STREAM_ABI 1u

extern "C" {

struct dpi_stream_error {
  int32_t native_code;  // errno or the client's own; 0 if none
  char message[480];    // NUL-terminated, of printable characters
};

struct dpi_stream_options {
  uint32_t struct_size;
  int32_t partition;
  const char* address;     // "host:port", several parted by commas
  const char* topic;       // UTF-8
  const char* group;       // whose offsets are committed
  const char* properties;  // path of a file with settings of the client, "" = none
  int64_t max_bytes;       // of a message that is handed out; longer ones are told by their size alone
  // Level 0 debug ... 3 error; null = nobody listens. Called from the thread that uses the handle.
  void (*log)(void* log_sink, int32_t level, const char* message);
  void* log_sink;
};

enum dpi_stream_kind {
  DPI_STREAM_NOTHING = 0,  // in this time
  DPI_STREAM_MESSAGE = 1,
  DPI_STREAM_END = 2,  // every message that there is has been handed out; told once each time
};

// What next() found. `data` stays until the next call of next, rewind or close.
struct dpi_stream_message {
  int32_t kind;
  int32_t part, parts;        // of a delta in several messages, part from 0; one alone is part 0 of 1
  const unsigned char* data;  // null when longer than max_bytes
  int64_t bytes;
  int64_t offset;
  int64_t timestamp_ms;  // of the epoch, as its sender or the broker says; -1 = none
};

struct dpi_stream_state {
  int64_t end;        // offset behind the newest message, as last heard; -1 = not known yet
  int64_t committed;  // offset up to which the other end knows that messages are done; -1 = none yet
  int32_t code;       // DPI_E_* of what is wrong with the other end now, 0 = nothing known
  dpi_stream_error error;
};

typedef struct dpi_stream_handle dpi_stream_handle;

typedef struct dpi_stream_api {
  uint32_t abi_version;  // DPI_STREAM_ABI, compared for equality
  uint32_t struct_size;
  const char* name;  // "kafka"

  // Checks the settings and starts; whether anybody answers is told by read_state.
  int32_t (*open)(const dpi_stream_options*, dpi_stream_handle** out, dpi_stream_error* err);
  // Whatever the other end does, it takes no longer than a moment.
  void (*close)(dpi_stream_handle*);
  // The next message, waited for at most so long. An error of the other end is no error of this call: the
  // client goes on trying, and read_state tells.
  int32_t (*next)(dpi_stream_handle*, int32_t timeout_ms, dpi_stream_message* out, dpi_stream_error* err);
  // A next() that waits, or the next one, returns at once.
  void (*wake)(dpi_stream_handle*);
  // The oldest message that there is comes next.
  int32_t (*rewind)(dpi_stream_handle*, dpi_stream_error* err);
  // Messages below `offset` are done. Sent without waiting, and again by next() until the other end has it.
  void (*commit)(dpi_stream_handle*, int64_t offset);
  void (*read_state)(dpi_stream_handle*, dpi_stream_state* out);
} dpi_stream_api;

#define DPI_STREAM_INIT_SYMBOL "dpi_stream_init_v1"
#define DPI_STREAM_LAYOUT_SYMBOL "dpi_stream_layout_v1"
typedef int32_t (*dpi_stream_init_fn)(uint32_t abi_version, dpi_stream_api* out);
typedef const char* (*dpi_stream_layout_fn)(void);

}  // extern "C"
