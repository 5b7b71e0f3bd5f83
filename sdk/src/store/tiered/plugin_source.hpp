// The tier below that a plugin keeps (store/abi/dpi_store.h): a handle that is closed with its owner, every
// code of the plugin a Status with its text. For reading it is a RowSource of the host tier; for writing,
// what loads tables.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "store/abi/store_plugin.hpp"
#include "store/tiered/row_source.hpp"

namespace dpi::tiered {

/// dpi_store_table with memory of its own.
struct StoredTable {
  std::string name;
  std::string content;  // 64 hex digits
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int32_t dim = 0;
  int32_t dtype = 0;  // kernels::DType
  bool keyed = false;
  bool stale = false;  // reading: may have been updated since, and may be while it is read
};

struct StoreRequest {
  int32_t mode = DPI_STORE_READ;  // dpi_store_mode
  std::vector<std::pair<std::string, std::string>> settings;
  std::vector<StoredTable> tables;  // numbered as here
  int32_t threads = 1;              // that fetch at once
  LogSink* log = nullptr;           // must outlive the source
};

class PluginSource final : public RowSource {
 public:
  static Result<std::unique_ptr<PluginSource>> open(const store::StorePlugin& plugin,
                                                    const StoreRequest& request);
  ~PluginSource() override;
  PluginSource(const PluginSource&) = delete;
  PluginSource& operator=(const PluginSource&) = delete;

  Status fetch(const FetchRequest& request) override;
  /// For tables that were opened as `stale`.
  int64_t sequence(int32_t table) override;
  std::vector<StoreName> stores() const override { return {name_}; }
  std::vector<StoreNode> nodes(int32_t store) override;
  int32_t route(int32_t table, int64_t key) override;

  /// Writes as dpi_store.h says: from one thread per table at a time.
  Status write(int32_t table, std::span<const int64_t> keys, std::span<const std::byte> rows,
               uint64_t digest);
  Status complete(int32_t table);
  Status drop(int32_t table);
  Result<dpi_store_stat> stat(int32_t table);
  /// Gives how many changes are there already, -1 = the table has been `next`.
  Result<int64_t> begin_update(int32_t table, const StoredTable& next, uint64_t id);
  /// rows: one of each key; empty = the keys have none any more.
  Status update(int32_t table, std::span<const int64_t> keys, std::span<const std::byte> rows, int64_t done);
  Status end_update(int32_t table);
  Result<dpi_store_loss> count(int32_t table);
  Status begin_repair(int32_t table);
  /// rows empty: keys are counted.
  Status repair(int32_t table, std::span<const int64_t> keys, std::span<const std::byte> rows);
  Status end_repair(int32_t table);

 private:
  explicit PluginSource(const dpi_store_api& api) : api_(api) {}
  Status told(int32_t code, const dpi_store_error& err) const;

  const dpi_store_api& api_;  // of a plugin, which is never unloaded
  dpi_store_handle* handle_ = nullptr;
  std::vector<bool> stale_;  // by table
  StoreName name_;
  std::string password_;  // that no text may show
};

}  // namespace dpi::tiered
