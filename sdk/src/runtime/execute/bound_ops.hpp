// The ops of a plan with their operands bound to one flight's memory: what enqueue takes. Addresses inside
// the flight are bound when it is made; a call writes counts of rows where they differ from the call before,
// and where scores go. Used by runtime/execute/flight.cpp; one thread at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/engine/engine.hpp"
#include "runtime/request/resolve.hpp"

namespace dpi {

/// Where a flight's values lie, `plan` as the chunk in it has them. `input` is what ops read: the device's
/// copy, or staging itself.
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
  /// reader: the flight's own.
  BoundOps(const Engine& engine, const FlightMemory& memory, StoreReader& reader);

  /// Binds every operand for `rows` rows that lie in a block of `map`, which outlives this, at `block`: the
  /// flight's input, or its staging. out, logits: [rows, heads], as the backend addresses them. Writes only
  /// what is not as the call before left it. Allocates nothing.
  void bind(const InputMap& map, const ResolvedRows& rows, std::byte* block, float* out, float* logits);

  /// The next bind binds everything: the map or the block of the last one may go.
  void forget_block() { map_ = nullptr; }

  /// Takes a lease of the rows that the block in staging will read, with its places and views. The flight
  /// gives it back when its ops have finished; a failure leaves none, and names a row of the block.
  struct Patience {  // as of a StoreRequest
    uint64_t deadline_ns = 0;
    const volatile int32_t* cancel = nullptr;
    bool may_wait = true;
    RowWait* row_wait = nullptr;
  };
  Status acquire_tables(const InputMap& map, const ResolvedRows& rows, const Patience& patience);
  /// Changes when the views that acquire_tables took have changed.
  uint64_t table_addresses() const { return seen_addresses_; }

  /// One call per op, in the plan's order; valid after bind and acquire_tables.
  const dpi_op_call& call(size_t i) const { return calls_[i]; }
  /// The backend took call i as it is bound: until bind_inputs it need not check it again.
  void mark_checked(size_t i) { calls_[i].checked = 1; }
  const std::vector<dpi_op_call>& calls() const { return calls_; }

 private:
  struct Operands {
    std::vector<kernels::Operand> inputs;
    std::vector<kernels::Tensor> outputs;
    std::vector<kernels::TableView> tables;
  };
  struct Input {  // an operand that lies in the packed block
    kernels::Operand* operand = nullptr;
    int32_t feature = 0;
    int32_t placement = -1;
  };
  struct ScoreColumn {  // the address of a tensor that is some columns of the scores or logits
    float** data = nullptr;
    int64_t column = 0;
  };
  void bind_fixed(size_t i);
  void add_lookups(size_t i);
  void add_placements();
  Status in_block(Status s) const;
  void point_lookup(size_t i, const InputMap& map, const ResolvedRows& rows);
  float* arena_data(const PlanValue& v, int32_t index) const;
  kernels::Tensor tensor_of(const PlanValue& v, int32_t index) const;
  void add_tensor(int32_t index, kernels::Tensor* t);
  void add_operand(int32_t index, kernels::Operand* o);
  void bind_values();
  void bind_inputs(const InputMap& map, const ResolvedRows& rows, std::byte* block);
  void bind_rows(const ResolvedRows& rows);

  const Engine& engine_;
  const FlightMemory& memory_;
  StoreReader& reader_;
  std::vector<Operands> operands_;
  std::vector<dpi_op_call> calls_;
  // What bind writes, into operands_ and calls_, whose elements never move.
  std::vector<Input> inputs_;
  PerSpace<std::vector<int64_t*>> row_counts_;
  std::vector<ScoreColumn> scores_, logits_;
  struct ArenaValue {
    float** data = nullptr;
    int32_t value = 0;
  };
  std::vector<ArenaValue> arena_values_;
  const MemoryPlan* plan_ = nullptr;  // as bound now
  const InputMap* map_ = nullptr;     // as bound now
  std::byte* block_ = nullptr;
  bool has_map_ = false;
  PerSpace<int64_t> rows_{-1, -1};
  std::vector<StoreRequest::Lookup> lookups_;
  struct Source {
    int32_t feature = 0, placement = -1;
  };
  std::vector<Source> lookup_sources_;  // whose ids each lookup reads, and where its places go
  uint64_t seen_addresses_ = 0;
  bool views_taken_ = false;
};

}  // namespace dpi
