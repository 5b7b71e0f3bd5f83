// A table store that passes everything on to another: the base of stores that behave oddly in one thing.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "store/table_store.hpp"

namespace dpi::test {

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
  Result<Readiness> prepare(const StoreRequest& r) override { return inner_->prepare(r); }
  kernels::TableView view(int32_t t) const override { return inner_->view(t); }
  uint64_t version() const override { return inner_->version(); }

 private:
  std::unique_ptr<TableStore> inner_;
};

}  // namespace dpi::test
