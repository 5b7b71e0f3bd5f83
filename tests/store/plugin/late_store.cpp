// A store of any tables without keys whose reads take LATE_MS: built as libdpi_rocksdb.so of a folder of its
// own, for tests of what is measured of slow stores. A row is its key as floats, the same in every column. At
// the end it writes how many reads and rows there were into the file that `path` names.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "store/abi/dpi_store.h"

#define LATE_EXPORT extern "C" __attribute__((visibility("default")))

struct dpi_store_handle {
  std::string path;
  std::vector<int64_t> row_bytes;
  std::atomic<long long> reads{0}, rows{0};
};

namespace {

int32_t late_open(const dpi_store_options* o, const dpi_store_table* tables, int32_t n,
                  dpi_store_handle** out, dpi_store_error*) {
  auto* h = new dpi_store_handle;
  for (int32_t i = 0; i < o->n_settings; ++i) {
    if (std::strcmp(o->settings[i].key, "path") == 0) h->path = o->settings[i].value;
  }
  for (int32_t t = 0; t < n; ++t) h->row_bytes.push_back(tables[t].row_bytes);
  *out = h;
  return 0;
}

void late_close(dpi_store_handle* h) {
  if (std::FILE* f = std::fopen(h->path.c_str(), "w")) {
    std::fprintf(f, "%lld %lld\n", h->reads.load(), h->rows.load());
    std::fclose(f);
  }
  delete h;
}

int32_t late_fetch(dpi_store_handle* h, const dpi_store_fetch* r, dpi_store_error*) {
  std::this_thread::sleep_for(std::chrono::milliseconds(LATE_MS));
  for (int64_t i = 0; i < r->n; ++i) {
    const auto value = static_cast<float>(r->keys[i]);
    for (int64_t at = 0; at < h->row_bytes[static_cast<size_t>(r->table)]; at += 4)
      std::memcpy(r->rows[i] + at, &value, sizeof value);
    r->found[i / 64] |= uint64_t{1} << (i % 64);
  }
  ++h->reads;
  h->rows += r->n;
  return 0;
}

int32_t refuse(dpi_store_error* err) {
  std::strncpy(err->message, "the late store is only read", sizeof(err->message) - 1);
  return 5;  // DPI_E_UNSUPPORTED
}

}  // namespace

LATE_EXPORT const char* dpi_store_layout_v1() { return DPI_STORE_LAYOUT; }

LATE_EXPORT int32_t dpi_store_init_v1(uint32_t, dpi_store_api* out) {
  using Handle = dpi_store_handle;
  using Error = dpi_store_error;
  out->abi_version = DPI_STORE_ABI;
  out->struct_size = sizeof(*out);
  out->name = "rocksdb";
  out->settings = "path, reads";
  out->open = late_open;
  out->close = late_close;
  out->fetch = late_fetch;
  out->write = [](Handle*, int32_t, const int64_t*, const unsigned char*, int64_t, uint64_t, Error* e) {
    return refuse(e);
  };
  out->complete = [](Handle*, int32_t, Error* e) { return refuse(e); };
  out->stat = [](Handle*, int32_t, dpi_store_stat*, Error* e) { return refuse(e); };
  out->drop = [](Handle*, int32_t, Error* e) { return refuse(e); };
  out->begin_update = [](Handle*, int32_t, const dpi_store_table*, uint64_t, int64_t*, Error* e) {
    return refuse(e);
  };
  out->update = [](Handle*, int32_t, const int64_t*, const unsigned char*, int64_t, int64_t, Error* e) {
    return refuse(e);
  };
  out->end_update = [](Handle*, int32_t, Error* e) { return refuse(e); };
  out->count = [](Handle*, int32_t, dpi_store_loss*, Error* e) { return refuse(e); };
  out->begin_repair = [](Handle*, int32_t, Error* e) { return refuse(e); };
  out->repair = [](Handle*, int32_t, const int64_t*, const unsigned char*, int64_t, Error* e) {
    return refuse(e);
  };
  out->end_repair = [](Handle*, int32_t, Error* e) { return refuse(e); };
  return 0;
}
