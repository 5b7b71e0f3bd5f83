/// One op with its inputs and expected outputs, as plain values: what a recorded vector or a generator makes,
/// and what op_harness.hpp runs on any backend.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ops/owned_op.hpp"

namespace dpi::test {

/// An input or output. Floats: data holds rows x dims.size() elements (a constant: one row). Ids: ids,
/// offsets (empty = one id per row) and weights (may be empty).
struct CaseValue {
  bool present = false;
  bool is_bags = false;
  bool constant = false;
  kernels::Dims dims;
  int64_t rows = 0;
  std::vector<float> data;
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets;
  std::vector<float> weights;
};

/// Floats that an op reads: `rows` rows of `dims`.
inline CaseValue floats_value(const kernels::Dims& dims, int64_t rows, std::vector<float> data) {
  CaseValue v;
  v.present = true;
  v.dims = dims;
  v.rows = rows;
  v.data = std::move(data);
  return v;
}

struct CaseParam {
  bool present = false;
  kernels::Dims dims;
  std::vector<float> data;
};

/// rows x dim unpadded elements of dtype.
struct CaseTable {
  int64_t rows = 0;
  int32_t dim = 0;
  kernels::DType dtype = kernels::DType::kF32;
  std::vector<uint8_t> bytes;
  std::vector<float> scale;
  bool needs_nonzero = false;
};

struct OpCase : OpArrays {
  std::string name;
  kernels::OpKind kind = kernels::OpKind::kInput;
  OpAttrs attrs;  // pointers inside point into the arrays: call bind() after a copy
  int64_t rows = 0;
  std::vector<CaseValue> inputs;
  std::vector<CaseValue> outputs;
  std::vector<CaseParam> params;
  std::vector<CaseTable> tables;
  std::vector<int32_t> row_map;

  using OpArrays::bind;
  void bind() { bind(&attrs); }
};

}  // namespace dpi::test
