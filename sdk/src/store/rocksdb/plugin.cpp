// The two exports of libdpi_rocksdb.so and the wall behind them: what is thrown ends here as a code.
#include <cstring>
#include <exception>
#include <new>

#include "store/rocksdb/store.hpp"

#define DPI_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))

struct dpi_store_handle {
  std::unique_ptr<dpi::rocks::Store> store;
};

namespace dpi::rocks {
namespace {

int32_t fail(Code code, int32_t native, const char* text, dpi_store_error* err) {
  err->native_code = native;
  const size_t n = std::min(std::strlen(text), sizeof(err->message) - 1);
  std::memcpy(err->message, text, n);
  err->message[n] = '\0';
  return static_cast<int32_t>(code);
}

template <class F>
int32_t guarded(dpi_store_error* err, F&& f) {
  try {
    const Status s = f();
    return s.ok() ? 0 : fail(s.code(), s.native_code(), s.message().c_str(), err);
  } catch (const std::bad_alloc&) {
    return fail(Code::kOutOfMemory, 0, "out of memory", err);
  } catch (const std::exception& e) {
    return fail(Code::kInternal, 0, e.what(), err);
  } catch (...) {
    return fail(Code::kInternal, 0, "something was thrown", err);
  }
}

int32_t open(const dpi_store_options* options, const dpi_store_table* tables, int32_t n_tables,
             dpi_store_handle** out, dpi_store_error* err) {
  return guarded(err, [&]() -> Status {
    auto handle = std::make_unique<dpi_store_handle>();
    DPI_ASSIGN_OR_RETURN(handle->store, Store::open(*options, tables, n_tables));
    *out = handle.release();
    return {};
  });
}

void close(dpi_store_handle* handle) {
  dpi_store_error unheard{};
  guarded(&unheard, [&]() -> Status {
    delete handle;
    return {};
  });
}

int32_t fetch(dpi_store_handle* h, const dpi_store_fetch* request, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->fetch(*request); });
}

int32_t write(dpi_store_handle* h, int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n,
              uint64_t digest, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->write(table, keys, rows, n, digest); });
}

int32_t complete(dpi_store_handle* h, int32_t table, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->complete(table); });
}

int32_t stat(dpi_store_handle* h, int32_t table, dpi_store_stat* out, dpi_store_error* err) {
  return guarded(err, [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(*out, h->store->stat(table));
    return {};
  });
}

int32_t drop(dpi_store_handle* h, int32_t table, dpi_store_error* err) {
  return guarded(err, [&] { return h->store->drop(table); });
}

int32_t begin_update(dpi_store_handle* h, int32_t table, const dpi_store_table* next, uint64_t id,
                     int64_t* done, dpi_store_error* err) {
  return guarded(err, [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(*done, h->store->begin_update(table, *next, id));
    return {};
  });
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

/// Files are lost, never single rows: `count` has told.
int32_t no_repair(dpi_store_error* err) {
  return guarded(err, [] { return unsupported("rocksdb: lost rows are not repaired one by one"); });
}
int32_t begin_repair(dpi_store_handle*, int32_t, dpi_store_error* err) { return no_repair(err); }
int32_t repair(dpi_store_handle*, int32_t, const int64_t*, const unsigned char*, int64_t,
               dpi_store_error* err) {
  return no_repair(err);
}
int32_t end_repair(dpi_store_handle*, int32_t, dpi_store_error* err) { return no_repair(err); }

}  // namespace
}  // namespace dpi::rocks

DPI_PLUGIN_EXPORT const char* dpi_store_layout_v1() { return DPI_STORE_LAYOUT; }

DPI_PLUGIN_EXPORT int32_t dpi_store_init_v1(uint32_t abi_version, dpi_store_api* out) {
  if (abi_version != DPI_STORE_ABI) return static_cast<int32_t>(dpi::Code::kVersion);
  using namespace dpi::rocks;
  *out = {DPI_STORE_ABI, sizeof(*out), "rocksdb", kSettings,  open,         close,  fetch,
          write,         complete,     stat,      drop,       begin_update, update, end_update,
          count,         begin_repair, repair,    end_repair, nullptr,      nullptr};
  return 0;
}
