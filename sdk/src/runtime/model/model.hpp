// A loaded model: engine, contexts, encoders, counters. Immutable after load but for counters and the pool;
// any thread may predict.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "encode/encoder.hpp"
#include "runtime/execute/context_pool.hpp"
#include "runtime/model/engine.hpp"

namespace dpi {

/// Counts of one feature since load.
struct SharedCounters {
  std::atomic<uint64_t> missing{0};
  std::atomic<uint64_t> out_of_range{0};
  std::atomic<uint64_t> cut{0};
};

class Model {
 public:
  static Result<std::unique_ptr<Model>> load(const std::string& path, const ModelOptions& options);
  static Result<std::unique_ptr<Model>> load_memory(std::span<const std::byte> bytes,
                                                    const ModelOptions& options);
  /// For tests: any bundle, any store.
  static Result<std::unique_ptr<Model>> create(Bundle& bundle, const ModelOptions& options,
                                               std::unique_ptr<TableStore> store = nullptr);

  /// Checks the batch and scores it. out: [rows, heads].
  Status predict(const Batch& batch, float* out, const RunControl& control);
  Status predict_on(Context& context, const Batch& batch, float* out, const RunControl& control);
  /// Creates every context and runs synthetic rows through each.
  Status warm_up(int64_t max_rows);
  /// Recomputes the golden rows; the failing text names row, head, expected and got.
  Status check_golden(const GoldenRows& golden, double tolerance);

  const Engine& engine() const { return *engine_; }
  const Manifest& manifest() const { return manifest_; }
  const FeatureEncoder* encoder(int32_t feature) const {
    return encoders_[static_cast<size_t>(feature)].get();
  }
  uint64_t content_digest() const { return content_digest_; }
  ContextPool& pool() { return *pool_; }
  bool forked() const;
  Status check_process() const;  // kForked in a child of the process that loaded

  std::string schema_json() const;
  std::string info_json() const;
  std::string counters_json() const;
  void count_error(Code code) { errors_[static_cast<size_t>(code)].fetch_add(1, std::memory_order_relaxed); }

 private:
  Model() = default;
  void add_counts(Context& context, int64_t rows);

  Manifest manifest_;  // ops and golden included, parameters not
  std::string source_;
  uint64_t content_digest_ = 0;
  uint64_t fork_generation_ = 0;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ContextPool> pool_;
  std::mutex warm_up_mutex_;
  std::vector<std::unique_ptr<FeatureEncoder>> encoders_;
  std::unique_ptr<SharedCounters[]> counters_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> rows_{0};
  std::atomic<uint64_t> errors_[16] = {};
};

}  // namespace dpi
