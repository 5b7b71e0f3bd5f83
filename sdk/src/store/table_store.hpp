// Where embedding rows live. The engine sees storage only through this interface, because later tiers (a GPU
// cache over host memory, RocksDB, Redis, peer shards) stand behind it; the resident arena implements it
// trivially.
//
//   load:     plan(tables) -> ingest(table, first_row, rows) ... -> seal()
//   a call:   prepare(batch, deadline) == kReady before anything is launched, then view(table) is what the
//   lookup kernels read
//
// Threads: plan, ingest and seal come from one thread; prepare, view and version from any number at once
// after seal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "base/status.hpp"

namespace dpi {

struct StoreTable {
  std::string name;
  int64_t rows = 0;
  int32_t dim = 0;
  kernels::DType dtype = kernels::DType::kF32;
  bool needs_nonzero = false;
  int32_t ride_with = -1;  // index of the table in whose row padding this one (f32, same rows) may sit
};

struct StoreForecast {
  uint64_t host_bytes = 0;
  uint64_t device_bytes = 0;
  std::vector<uint64_t> table_bytes;  // with padding, per table
};

/// The ids of a batch as prepare sees them: one Bags per table that the batch will read (several may name one
/// table).
struct StoreRequest {
  struct Lookup {
    int32_t table = 0;
    kernels::Bags ids;
  };
  std::span<const Lookup> lookups;
  uint64_t deadline_ns = 0;  // CLOCK_MONOTONIC, 0 = none
};

enum class Readiness : int32_t { kReady, kLate };

class TableStore {
 public:
  virtual ~TableStore() = default;
  /// Computes every row's place and the bytes; allocates nothing. Fails with kOutOfMemory when the budget
  /// cannot hold it.
  virtual Result<StoreForecast> plan(std::vector<StoreTable> tables) = 0;
  /// n_rows rows from first_row of `table`, unpadded, in the table's dtype (bytes = n_rows * dim *
  /// dtype_bytes).
  virtual Status ingest(int32_t table, int64_t first_row, int64_t n_rows,
                        std::span<const std::byte> rows) = 0;
  virtual Status ingest_scale(int32_t table, std::span<const float> scale) = 0;  // kI8
  /// After the last ingest: every row must have come. Makes the tables readable.
  virtual Status seal() = 0;
  /// Before a batch is launched. kLate: not all rows could be had before the deadline (the call answers
  /// DPI_E_TIMEOUT); an error status means the store failed. Must not allocate in the resident store.
  virtual Result<Readiness> prepare(const StoreRequest& request) = 0;
  /// False: prepare looks at no ids, and a request may come without lookups.
  virtual bool needs_ids() const { return true; }
  virtual kernels::TableView view(int32_t table) const = 0;
  virtual uint64_t version() const = 0;
};

}  // namespace dpi
