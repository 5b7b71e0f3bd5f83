// One model whose tables lie in every tier (make_models.py), its requests, and stores that hold its external
// rows. Everything about the model goes through <dpi/dpi.h>; the oracle is the same model with all rows
// resident.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/redis/redis_server.hpp"
#include "support/capi_support.hpp"
#include "support/sleep.hpp"

namespace dpi::test {

inline constexpr int64_t kRows = 2000;  // of each large table
inline const std::vector<std::string> kInFile = {"pages", "words", "ads", "keys"};
inline const std::vector<std::string> kElsewhere = {"users", "items"};

/// False, and the program counts as skipped, where the models cannot be made.
bool have_models();
/// Written once per process, and removed with it.
const std::string& whole();
const std::string& external();
/// The same tables under heads that are sums and means of rows.
const std::string& sums();
const std::string& sums_external();
/// Two features of keys, `key` and `other`; of the second model the key sets are elsewhere.
const std::string& keys();
const std::string& keys_external();

/// A folder of its own, removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Brings the external tables there: {"path", folder} to RocksDB, {"address", host:port} to Redis.
using StoreSettings = std::vector<std::pair<std::string, std::string>>;
void fill_store(const std::string& plugin, const StoreSettings& settings);
/// The same of keys_external().
void fill_keys(const std::string& plugin, const StoreSettings& settings);
/// The store as a loader has it open, until the last copy goes.
std::shared_ptr<void> hold_store(const std::string& plugin, const StoreSettings& settings);
/// The plugin for RocksDB is built, and this is no build whose sanitizer would misjudge it.
bool have_rocksdb();

/// What a row of a request has; the key is of the keyed table.
struct Row {
  int64_t user = 0, item = 0, page = 0, word = 0, ad = 0, city = 0, key = 0;
  std::vector<int64_t> seen;
};

/// A batch and its arrays.
class Request {
 public:
  explicit Request(const std::vector<Row>& rows);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  dpi_batch batch{};

 private:
  std::vector<int64_t> ids_, offsets_{0};
};

/// The keys of the keyed table, rising, and one that is in none.
const std::vector<int64_t>& known_keys();
inline constexpr int64_t kNoKey = 12345;
/// Any ids, padding and absent keys among them.
std::vector<Row> random_rows(size_t n, std::mt19937_64& rng);

struct Loaded {
  dpi_status code = DPI_OK;
  std::string message;
  ModelPtr model;
};
/// With debug.fold=off, so that scores are to be the same bits, the plugins of this build, and small chunks.
Loaded try_load(const std::string& path, const Pairs& more);
ModelPtr load_model(const std::string& path, const Pairs& more);
/// All tables that can be in a tier of so many bytes, and `more`.
Pairs tiered(const std::string& bytes, const Pairs& more = {});

struct Scored {
  dpi_status code = DPI_OK;
  std::string message;
  std::vector<float> out;
  double seconds = 0;
};
/// timeout_ms 0: none.
Scored score(dpi_model* model, const Request& request, int timeout_ms = 0,
             const volatile int32_t* cancel = nullptr);
/// By a model with all rows resident, which is made once.
const std::vector<float> right_scores(const Request& request);

/// Of one table, as dpi_model_counters_json has them.
struct TierCounts {
  int64_t hits = 0, late = 0, absent = 0, defaulted = 0, dropped = 0, fetched = 0, missing = 0, failed = 0;
};
TierCounts tier(const dpi_model* model, const std::string& table);

uint64_t now_ns();

}  // namespace dpi::test
