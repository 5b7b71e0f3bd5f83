// A table store that passes everything on to another, and a reader that does: the bases of stores that behave
// oddly in one thing.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "store/table_store.hpp"

namespace dpi::test {

class ForwardingReader : public StoreReader {
 public:
  explicit ForwardingReader(std::unique_ptr<StoreReader> inner) : inner_(std::move(inner)) {}
  Result<Readiness> acquire(const StoreRequest& r) override { return inner_->acquire(r); }
  void release() override { inner_->release(); }
  kernels::TableView view(int32_t t) const override { return inner_->view(t); }
  uint64_t addresses() const override { return inner_->addresses(); }

 private:
  std::unique_ptr<StoreReader> inner_;
};

class ForwardingStore : public TableStore {
 public:
  explicit ForwardingStore(std::unique_ptr<TableStore> inner) : inner_(std::move(inner)) {}
  Result<StoreForecast> plan(std::vector<StoreTable> tables) override {
    return inner_->plan(std::move(tables));
  }
  Status ingest(int32_t t, int64_t first, int64_t n, std::span<const std::byte> rows) override {
    return inner_->ingest(t, first, n, rows);
  }
  Status ingest_scale(int32_t t, std::span<const float> scale) override {
    return inner_->ingest_scale(t, scale);
  }
  Status seal() override { return inner_->seal(); }
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override {
    return inner_->open_reader(limits);
  }

 private:
  std::unique_ptr<TableStore> inner_;
};

/// For tests that look at one view.
inline kernels::TableView view_of(TableStore& store, int32_t table) {
  auto reader = store.open_reader({});
  if (!reader.ok() || !reader.value()->acquire({}).ok()) return {};
  return reader.value()->view(table);
}

}  // namespace dpi::test
