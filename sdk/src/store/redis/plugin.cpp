// The C boundary: codes and texts out, nothing thrown.
#include <cstring>
#include <new>

#include "base/printable.hpp"
#include "store/redis/store.hpp"

struct dpi_store_handle {
  std::unique_ptr<dpi::redis::Store> store;
};

namespace {

using dpi::Code;
using dpi::Status;

int32_t told(Code code, const char* text, int32_t native_code, dpi_store_error* err) noexcept {
  err->native_code = native_code;
  dpi::copy_printable(text, err->message, sizeof err->message);
  return static_cast<int32_t>(code);
}

template <class F>
int32_t guarded(dpi_store_error* err, F&& f) noexcept {
  try {
    const Status s = f();
    if (s.ok()) return 0;
    return told(s.code(), s.message().c_str(), s.native_code(), err);
  } catch (const std::bad_alloc&) {
    return told(Code::kOutOfMemory, "redis: out of memory", 0, err);
  } catch (const std::exception& e) {
    return told(Code::kInternal, e.what(), 0, err);
  } catch (...) {
    return told(Code::kInternal, "redis: an exception of unknown kind", 0, err);
  }
}

int32_t open(const dpi_store_options* options, const dpi_store_table* tables, int32_t n_tables,
             dpi_store_handle** out, dpi_store_error* err) {
  return guarded(err, [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(auto store, dpi::redis::Store::open(*options, tables, n_tables));
    *out = new dpi_store_handle{std::move(store)};
    return {};
  });
}

void close(dpi_store_handle* h) { delete h; }

int32_t fetch(dpi_store_handle* h, const dpi_store_fetch* r, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->fetch(*r); });
}

int32_t write(dpi_store_handle* h, int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n,
              uint64_t digest, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->write(table, keys, rows, n, digest); });
}

int32_t complete(dpi_store_handle* h, int32_t table, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->complete(table); });
}

int32_t stat(dpi_store_handle* h, int32_t table, dpi_store_stat* out, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->stat(table, out); });
}

int32_t drop(dpi_store_handle* h, int32_t table, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->drop(table); });
}

int32_t begin_update(dpi_store_handle* h, int32_t table, const dpi_store_table* next, uint64_t id,
                     int64_t* done, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->begin_update(table, *next, id, done); });
}

int32_t update(dpi_store_handle* h, int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n,
               int64_t done, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->update(table, keys, rows, n, done); });
}

int32_t end_update(dpi_store_handle* h, int32_t table, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->end_update(table); });
}

int32_t count(dpi_store_handle* h, int32_t table, dpi_store_loss* out, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->count(table, out); });
}

int32_t begin_repair(dpi_store_handle* h, int32_t table, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->begin_repair(table); });
}

int32_t repair(dpi_store_handle* h, int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n,
               dpi_store_error* err) {
  return guarded(err, [&] { return h->store->repair(table, keys, rows, n); });
}

int32_t end_repair(dpi_store_handle* h, int32_t table, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->end_repair(table); });
}

int32_t nodes(dpi_store_handle* h, dpi_store_node* to, int32_t room) {
  try {
    return h->store->nodes(to, room);
  } catch (...) {
    return 0;
  }
}

int32_t route(dpi_store_handle* h, int32_t table, int64_t key) { return h->store->route(table, key); }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int32_t dpi_store_init_v1(uint32_t abi_version, dpi_store_api* out) {
  std::memset(out, 0, sizeof *out);
  out->abi_version = DPI_STORE_ABI;
  if (abi_version != DPI_STORE_ABI) return static_cast<int32_t>(Code::kVersion);
  out->struct_size = sizeof *out;
  out->name = "redis";
  out->settings = dpi::redis::kSettingNames;
  out->open = open;
  out->close = close;
  out->fetch = fetch;
  out->write = write;
  out->complete = complete;
  out->stat = stat;
  out->drop = drop;
  out->begin_update = begin_update;
  out->update = update;
  out->end_update = end_update;
  out->count = count;
  out->begin_repair = begin_repair;
  out->repair = repair;
  out->end_repair = end_repair;
  out->nodes = nodes;
  out->route = route;
  return 0;
}

__attribute__((visibility("default"))) const char* dpi_store_layout_v1() { return DPI_STORE_LAYOUT; }

}  // extern "C"
