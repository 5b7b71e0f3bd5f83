/// Runs a whole plan as one small batch through dpi_backend_api, over the inputs of the plan tests: what the
/// engine does, without the engine. Scores lie between guard bands and start as NaN.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/abi/registry.hpp"
#include "support/interpreter.hpp"

namespace dpi::test {

class SmallBatchRunner {
 public:
  /// precision: 0 fp32, 1 tf32, 2 fp16, 3 bf16. `tables`: the bundle's, float32. in_place: the option; inputs
  /// lie in staging memory, on an emulated device each up to the end of a page with nothing behind it.
  SmallBatchRunner(const Plan& plan, const std::vector<std::vector<float>>& tables, int32_t precision,
                   bool strict = false, const std::string& tuning = "default", bool in_place = false);
  ~SmallBatchRunner();
  SmallBatchRunner(const SmallBatchRunner&) = delete;
  SmallBatchRunner& operator=(const SmallBatchRunner&) = delete;

  bool accepted() const { return op_ != nullptr; }
  bool in_place() const { return in_place_ != 0; }
  /// What small_batch_prepare said.
  const std::string& report() const { return report_; }
  int64_t max_rows() const { return max_rows_; }

  /// `more_rows`: what the last op's call says beyond the batch's rows.
  Result<Scores> run(const TestBatch& batch, int64_t more_rows = 0);

 private:
  struct Memory;
  void open(int32_t precision, bool strict, const std::string& tuning, bool in_place);
  void place_tables(const std::vector<std::vector<float>>& tables);
  void prepare();
  kernels::Tensor tensor_of(int32_t value, const TestBatch& batch, Memory* memory);
  kernels::Operand operand_of(int32_t value, const TestBatch& batch, Memory* memory);
  Status enqueue(const std::vector<dpi_op_call>& calls);

  const Plan& plan_;
  backend::OpenedBackend backend_;
  dpi_backend_op* op_ = nullptr;
  std::unique_ptr<Memory> fixed_;  // tables and constants
  std::vector<kernels::TableView> tables_;
  std::string report_;
  int64_t max_rows_ = 0;
  int32_t in_place_ = 0;
};

/// The rows of each table of a plan in float32, derived ones computed.
std::vector<std::vector<float>> plan_tables(const Plan& plan, const std::vector<std::vector<float>>& bundle);

}  // namespace dpi::test
