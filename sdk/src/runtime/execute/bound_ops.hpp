// The ops of a plan with their operands bound to one flight's memory: what enqueue takes. Used by
// runtime/execute/flight.cpp; one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/model/engine.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

/// Where a flight's values lie. `input` is what ops read: the device's copy, or staging itself.
struct FlightMemory {
  const MemoryPlan* plan = nullptr;
  std::byte* staging = nullptr;  // packed input, host
  std::byte* input = nullptr;
  std::byte* arena = nullptr;
  std::vector<std::byte*> scratch;  // per stream
  dpi_lookup_faults* faults = nullptr;
};

class BoundOps {
 public:
  BoundOps(const Engine& engine, const FlightMemory& memory);

  /// Binds every operand for `rows` rows that lie in a block of `map`. out, logits: [rows, heads], as the
  /// backend addresses them. Allocates nothing.
  void bind(const InputMap& map, const ResolvedRows& rows, float* out, float* logits);

  /// Asks the store for the rows that the block in staging will read and takes its views. Call after bind.
  Status prepare_tables(const InputMap& map, const ResolvedRows& rows, uint64_t deadline_ns);
  /// Changes when the views that prepare_tables took have changed.
  uint64_t tables_version() const { return seen_version_; }

  /// One call per op, in the plan's order; valid after bind and prepare_tables.
  const dpi_op_call& call(size_t i) const { return calls_[i]; }
  const std::vector<dpi_op_call>& calls() const { return calls_; }

 private:
  struct Operands {
    std::vector<kernels::Operand> inputs;
    std::vector<kernels::Tensor> outputs;
    std::vector<kernels::TableView> tables;
    RowSpace space = RowSpace::kConstant;  // of the op's rows
  };
  kernels::Tensor tensor_of(int32_t value, const ResolvedRows& rows, float* out, float* logits) const;
  void bind_op(size_t i, const InputMap& map, const ResolvedRows& rows, float* out, float* logits);

  const Engine& engine_;
  const FlightMemory& memory_;
  std::vector<Operands> operands_;
  std::vector<dpi_op_call> calls_;
  std::vector<StoreRequest::Lookup> lookups_;
  struct Source {
    int32_t op = 0, input = 0, feature = 0;
  };
  std::vector<Source> lookup_sources_;  // whose ids each lookup reads
  uint64_t seen_version_ = 0;
  bool views_taken_ = false;
};

}  // namespace dpi
