// A plan in the words of the backend's interface: what op_prepare and small_batch_prepare take.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "plan/plan.hpp"

namespace dpi {

/// Floats from one row of a value to the next, as operands of calls will have it; 0 for a constant.
using RowStride = std::function<int64_t(const PlanValue&)>;

/// One op, with the arrays that `desc` points to. The plan outlives it; it does not move once filled.
struct OpDescription {
  std::vector<dpi_value_desc> inputs, outputs;
  std::vector<kernels::Param> params;
  std::vector<dpi_table_desc> tables;
  dpi_op_desc desc{};
};
void describe_op(const Plan& plan, const PlanOp& op, const RowStride& row_stride, int64_t max_rows,
                 OpDescription* out);

/// A whole plan for a kernel that runs all of it.
class SmallBatchDescription {
 public:
  SmallBatchDescription(const Plan& plan, const RowStride& row_stride, int64_t max_rows);
  SmallBatchDescription(const SmallBatchDescription&) = delete;
  SmallBatchDescription& operator=(const SmallBatchDescription&) = delete;

  const dpi_small_batch_desc& desc() const { return desc_; }

 private:
  std::vector<OpDescription> descriptions_;
  std::vector<dpi_op_desc> ops_;
  std::vector<const int32_t*> inputs_, outputs_;
  std::vector<dpi_small_batch_value> values_;
  dpi_small_batch_desc desc_{};
};

}  // namespace dpi
