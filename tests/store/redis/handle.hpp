// The plugin as the engine uses it, through its table of functions, and tables whose rows a test knows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/abi/dpi_store.h"

namespace dpi::test {

using Settings = std::vector<std::pair<std::string, std::string>>;

/// The oracle: rows in memory, of random bytes.
struct KnownTable {
  std::string name = "items";
  std::string content = std::string(64, 'a');
  int32_t dim = 4;
  bool keyed = true;
  bool stale = false;                // read although it may have been updated
  std::vector<int64_t> keys;         // in the order in which they are written
  std::vector<unsigned char> bytes;  // of the rows in that order

  static KnownTable make(std::string name, char content, int32_t dim, int64_t rows, bool keyed,
                         uint64_t seed);
  int64_t row_bytes() const { return dim * int64_t{4}; }
  int64_t rows() const { return static_cast<int64_t>(keys.size()); }
  dpi_store_table described() const;
  const unsigned char* row(int64_t key) const;  // null = absent
  void index();                                 // after keys were added

 private:
  std::map<int64_t, size_t> index_;
};

struct Fetched {
  int32_t code = 0;
  std::string message;
  std::vector<unsigned char> rows;
  std::vector<uint64_t> found, failed;
  bool misses(size_t i) const { return (failed[i / 64] >> (i % 64) & 1) != 0; }  // of fetch_each
  bool has(size_t i) const { return (found[i / 64] >> (i % 64) & 1) != 0; }
};

class Handle {
 public:
  Handle() = default;
  ~Handle() { close(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  static const dpi_store_api& api();
  int32_t open(const Settings& settings, const std::vector<const KnownTable*>& tables, int32_t mode,
               int32_t threads = 8);
  void close();

  Fetched fetch(int32_t table, const std::vector<int64_t>& keys, int64_t row_bytes,
                uint64_t timeout_ns = 0) const {
    return fetch(table, keys, row_bytes, timeout_ns, false);
  }
  /// Asks which keys were not answered, too.
  Fetched fetch_each(int32_t table, const std::vector<int64_t>& keys, int64_t row_bytes,
                     uint64_t timeout_ns = 0) const {
    return fetch(table, keys, row_bytes, timeout_ns, true);
  }
  int32_t route(int32_t table, int64_t key) const { return api().route(h_, table, key); }
  int32_t nodes(dpi_store_node* to, int32_t room) const { return api().nodes(h_, to, room); }
  /// The rows [first, last) of a table whose digest is told as `digest`.
  int32_t write(int32_t table, const KnownTable& t, int64_t first, int64_t last, uint64_t digest = 0);
  int32_t complete(int32_t table) { return api().complete(h_, table, &error_); }
  int32_t stat(int32_t table, dpi_store_stat* out) { return api().stat(h_, table, out, &error_); }
  int32_t begin_update(int32_t table, const KnownTable& next, uint64_t id, int64_t* done) {
    const dpi_store_table to = next.described();
    return api().begin_update(h_, table, &to, id, done, &error_);
  }
  /// rows empty: the keys have no row any more.
  int32_t update(int32_t table, const std::vector<int64_t>& keys, const std::vector<unsigned char>& rows,
                 int64_t done) {
    return api().update(h_, table, keys.data(), rows.empty() ? nullptr : rows.data(),
                        static_cast<int64_t>(keys.size()), done, &error_);
  }
  int32_t end_update(int32_t table) { return api().end_update(h_, table, &error_); }
  int32_t count(int32_t table, dpi_store_loss* out) { return api().count(h_, table, out, &error_); }
  int32_t begin_repair(int32_t table) { return api().begin_repair(h_, table, &error_); }
  int32_t count_keys(int32_t table, const KnownTable& t) {
    return api().repair(h_, table, t.keys.data(), nullptr, t.rows(), &error_);
  }
  int32_t repair(int32_t table, const KnownTable& t, int64_t first, int64_t last) {
    return api().repair(h_, table, t.keys.data() + first, t.bytes.data() + first * t.row_bytes(),
                        last - first, &error_);
  }
  int32_t end_repair(int32_t table) { return api().end_repair(h_, table, &error_); }
  /// A whole repair.
  int32_t mend(int32_t table, const KnownTable& t);
  int32_t drop(int32_t table) { return api().drop(h_, table, &error_); }
  std::string message() const { return error_.message; }
  dpi_store_handle* get() const { return h_; }

 private:
  Fetched fetch(int32_t table, const std::vector<int64_t>& keys, int64_t row_bytes, uint64_t timeout_ns,
                bool each) const;
  dpi_store_handle* h_ = nullptr;
  dpi_store_error error_{};
};

/// Opens, writes the whole table, completes it. Fails the test if it cannot.
void load(const Settings& settings, const KnownTable& t);
/// Fetches and compares with the oracle, bit by bit; "" or what is wrong.
std::string compare(const Handle& h, int32_t table, const KnownTable& t, const std::vector<int64_t>& keys,
                    uint64_t timeout_ns = 0);
/// Keys of which about one in four is in no row; none twice.
std::vector<int64_t> some_keys(const KnownTable& t, size_t n, uint64_t seed);

}  // namespace dpi::test
