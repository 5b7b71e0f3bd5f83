// A store of one table in memory: built several times with another TINY_FORM, for the tests of what opens
// stores. Rows are the key's 8 bytes; negative keys have none.
#include <cstring>

#include "store/abi/dpi_store.h"

#define TINY_EXPORT extern "C" __attribute__((visibility("default")))
#define TINY_VALID 0
#define TINY_NO_INIT 1
#define TINY_NO_LAYOUT 2
#define TINY_OLD_ABI 3
#define TINY_REFUSES_ABI 4
#define TINY_OTHER_NAME 5
#define TINY_SHORT_STRUCT 6
#define TINY_HOLE 7
#define TINY_OTHER_LAYOUT 8  // compiled with a header in which two members changed places

namespace {

[[maybe_unused]] int32_t say(int32_t code, const char* text, dpi_store_error* err) {
  err->native_code = 5;
  std::strncpy(err->message, text, sizeof(err->message) - 1);
  return code;
}

// What it was opened with is what its errors say.
[[maybe_unused]] int32_t tiny_open(const dpi_store_options* o, const dpi_store_table* t, int32_t n,
                                   dpi_store_handle** out, dpi_store_error* err) {
  if (o->n_settings != 1 || std::strcmp(o->settings[0].key, "path") != 0) return say(1, "no path", err);
  if (n != 1 || std::strcmp(t->name, "users") != 0 || t->row_bytes != 8) return say(2, "no such table", err);
  if (o->mode == DPI_STORE_WRITE && o->log != nullptr) o->log(o->log_sink, 1, "tiny", "writes");
  static char handle;
  *out = reinterpret_cast<dpi_store_handle*>(&handle);
  return 0;
}

[[maybe_unused]] void tiny_close(dpi_store_handle*) {}

[[maybe_unused]] int32_t tiny_fetch(dpi_store_handle*, const dpi_store_fetch* r, dpi_store_error* err) {
  if (r->deadline_ns == 1) return say(9, "late", err);
  if (r->deadline_ns == 2) return say(77, "", err);  // no code of the project's
  for (int64_t i = 0; i < r->n; ++i) {
    if (r->keys[i] < 0) continue;
    std::memcpy(r->rows[i], &r->keys[i], 8);
    r->found[i / 64] |= uint64_t{1} << (i % 64);
  }
  return 0;
}

[[maybe_unused]] int32_t tiny_write(dpi_store_handle*, int32_t table, const int64_t* keys,
                                    const unsigned char* rows, int64_t n, uint64_t digest,
                                    dpi_store_error* err) {
  const bool right = table == 0 && n == 2 && keys[1] == 8 && rows[15] == 15 && digest == 99;
  return right ? 0 : say(3, "other rows", err);
}

[[maybe_unused]] int32_t tiny_complete(dpi_store_handle*, int32_t, dpi_store_error* err) {
  return say(4, "not complete", err);
}

[[maybe_unused]] int32_t tiny_stat(dpi_store_handle*, int32_t, dpi_store_stat* out, dpi_store_error*) {
  *out = {7, 56, 1, 42, 3, 0, "now", "who", 5};
  return 0;
}

[[maybe_unused]] int32_t tiny_drop(dpi_store_handle*, int32_t, dpi_store_error* err) {
  return say(5, "kept", err);
}

[[maybe_unused]] int32_t tiny_begin_update(dpi_store_handle*, int32_t, const dpi_store_table* next,
                                           uint64_t id, int64_t* done, dpi_store_error* err) {
  *done = 4;
  return next->rows == 9 && id == 77 ? 0 : say(6, "another update", err);
}

[[maybe_unused]] int32_t tiny_update(dpi_store_handle*, int32_t, const int64_t* keys,
                                     const unsigned char* rows, int64_t n, int64_t done,
                                     dpi_store_error* err) {
  const bool right = n == 2 && keys[0] == 5 && done == 6 && (rows == nullptr || rows[1] == 1);
  return right ? 0 : say(3, "other changes", err);
}

[[maybe_unused]] int32_t tiny_end_update(dpi_store_handle*, int32_t, dpi_store_error* err) {
  return say(12, "taken over", err);
}

[[maybe_unused]] int32_t tiny_count(dpi_store_handle*, int32_t, dpi_store_loss* out, dpi_store_error*) {
  *out = {5, 2, 1, "partition 3 of 4"};
  return 0;
}

[[maybe_unused]] int32_t tiny_begin_repair(dpi_store_handle*, int32_t table, dpi_store_error* err) {
  return table == 0 ? 0 : say(3, "no such table", err);
}

[[maybe_unused]] int32_t tiny_repair(dpi_store_handle*, int32_t, const int64_t* keys,
                                     const unsigned char* rows, int64_t n, dpi_store_error* err) {
  return n == 2 && keys[0] == 5 && (rows == nullptr || rows[1] == 1) ? 0 : say(3, "other rows", err);
}

[[maybe_unused]] int32_t tiny_end_repair(dpi_store_handle*, int32_t, dpi_store_error* err) {
  return say(3, "lost again", err);
}

}  // namespace

#if TINY_FORM != TINY_NO_LAYOUT
TINY_EXPORT const char* dpi_store_layout_v1() { return DPI_STORE_LAYOUT; }
#endif

#if TINY_FORM != TINY_NO_INIT
TINY_EXPORT int32_t dpi_store_init_v1(uint32_t, dpi_store_api* out) {
  if (TINY_FORM == TINY_REFUSES_ABI) return 14;  // DPI_E_VERSION
  out->abi_version = TINY_FORM == TINY_OLD_ABI ? DPI_STORE_ABI + 1 : DPI_STORE_ABI;
  out->struct_size = TINY_FORM == TINY_SHORT_STRUCT ? 16 : sizeof(*out);
  out->name = TINY_FORM == TINY_OTHER_NAME ? "someone_else" : TINY_NAME;
  out->settings = "path";
  out->open = tiny_open;
  out->close = tiny_close;
  out->fetch = tiny_fetch;
  out->write = tiny_write;
  out->complete = tiny_complete;
  out->stat = tiny_stat;
  out->drop = tiny_drop;
  out->begin_update = tiny_begin_update;
  out->update = tiny_update;
  if (TINY_FORM != TINY_HOLE) out->end_update = tiny_end_update;
  out->count = tiny_count;
  out->begin_repair = tiny_begin_repair;
  out->repair = tiny_repair;
  out->end_repair = tiny_end_repair;
  return 0;
}
#endif
