// Scratch of one running call: packed input, arena, streams, events and operands bound to them. One thread at
// a time; after creation a run allocates nothing and takes no lock.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/engine.hpp"
#include "runtime/request.hpp"
#include "runtime/resolve.hpp"

namespace dpi {

class Context {
 public:
  static Result<std::unique_ptr<Context>> create(const Engine& engine, int64_t max_rows, int64_t max_nnz);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Scores all rows of a checked batch, in chunks. out: [rows, heads].
  Status run(const Batch& batch, float* out, const RunControl& control);
  /// What the last run met, one per feature.
  std::vector<FeatureCounters>& counters() { return counters_; }

  /// Nanoseconds spent in each op of the plan since reset_profile (host clock around enqueue; meaningful
  /// where enqueue executes).
  void enable_profile(bool on);
  const std::vector<uint64_t>& profile() const { return profile_ns_; }

  int64_t max_rows() const { return layout_.max_rows; }

 private:
  explicit Context(const Engine& engine) : engine_(engine) {}
  Status allocate(int64_t max_rows, int64_t max_nnz);
  Status create_streams();
  void bind_operands();
  void bind_call(const ResolvedRows& rows, float* out, float* logits);
  Status prepare_tables(uint64_t deadline_ns);
  Status run_range(const Batch& batch, const RowRange& range, float* out, float* logits,
                   const RunControl& control);
  Status copy_input(const ResolvedRows& rows);
  Status execute(const ResolvedRows& rows, size_t scores, bool with_logits);
  Status synchronize();
  Status launch(const ResolvedRows& rows);
  Status launch_op(size_t i, const ResolvedRows& rows);

  struct BoundOp {
    std::vector<kernels::Operand> inputs;
    std::vector<kernels::Tensor> outputs;
    std::vector<kernels::TableView> tables;
    int32_t space = 2;  // RowSpace of its rows
  };
  kernels::Tensor value_tensor(int32_t value, const ResolvedRows& rows, float* out, float* logits) const;

  const Engine& engine_;
  InputLayout layout_;
  MemoryPlan memory_;
  std::byte* staging_ = nullptr;  // packed input, host
  std::byte* input_ = nullptr;    // the device's copy; == staging_ with host memory
  std::byte* arena_ = nullptr;
  float* device_out_ = nullptr;  // scores then logits; null with host memory
  float* host_out_ = nullptr;
  float* spare_logits_ = nullptr;    // where logits go that nobody asked for (host memory)
  std::vector<std::byte*> scratch_;  // per stream
  std::vector<dpi_backend_stream*> streams_;
  std::vector<dpi_backend_event*> events_;
  std::vector<BoundOp> bound_;
  std::vector<StoreRequest::Lookup> lookups_;
  std::vector<std::pair<int32_t, int32_t>> lookup_sources_;  // (op, index into its inputs) per lookup
  std::vector<FeatureCounters> counters_;
  std::vector<uint64_t> profile_ns_;
  uint64_t seen_version_ = 0;
  bool views_bound_ = false;
  bool profile_ = false;
};

}  // namespace dpi
