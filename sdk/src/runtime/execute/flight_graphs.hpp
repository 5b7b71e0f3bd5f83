// The captured graphs of one flight, by shape of the call. Used by runtime/execute/flight.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/engine/engine.hpp"

namespace dpi {

/// How a chunk's input reaches its ops, and its scores the host.
enum class InputWay : int32_t {
  kCopied = 0,  // copies, before the ops and after them
  kFetched,     // a kernel before the ops reads staging; they write scores to host memory
  kInPlace,     // the small-batch kernel reads staging itself, and writes scores to host memory
};

class FlightGraphs {
 public:
  struct Entry {
    int64_t item_rows = 0;  // buckets
    int64_t shared_rows = 0;
    bool has_map = false;
    bool ran = false;      // op by op, so that every kernel it launches is loaded and may be captured
    int32_t failures = 0;  // captures that failed since its tables moved
    InputWay way = InputWay::kCopied;
    uint64_t table_addresses = 0;
    uint64_t last_use = 0;
    dpi_backend_graph* graph = nullptr;
  };

  /// After so many captures of a shape failed its calls go on op by op.
  static constexpr int32_t kMostFailures = 3;

  explicit FlightGraphs(const Engine& engine) : engine_(engine) { entries_.reserve(kMost); }
  ~FlightGraphs();
  FlightGraphs(const FlightGraphs&) = delete;
  FlightGraphs& operator=(const FlightGraphs&) = delete;

  /// The entry of a shape, empty (graph == nullptr) when it was not captured yet. The least recently used
  /// makes room. Once its tables have moved a shape begins anew: what reads them there may be other kernels,
  /// which have to run once before they may be captured.
  Entry* find(int64_t item_rows, int64_t shared_rows, bool has_map, uint64_t table_addresses);
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  static constexpr size_t kMost = 64;
  void free_graph(Entry* e);

  const Engine& engine_;
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace dpi
