/// One op with its inputs and expected outputs, as plain values: what a recorded vector or a generator makes,
/// and what op_harness.hpp runs on any backend.
#pragma once

#include <string>
#include <vector>

#include "backend/bind.hpp"

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

struct OpCase {
  std::string name;
  kernels::OpKind kind = kernels::OpKind::kInput;
  backend::OpAttrs attrs;  // pointers inside point into the vectors below: call bind() after a move
  int64_t rows = 0;
  std::vector<CaseValue> inputs;
  std::vector<CaseValue> outputs;
  std::vector<CaseParam> params;
  std::vector<CaseTable> tables;
  std::vector<int32_t> row_map;

  std::vector<int64_t> indices;
  std::vector<kernels::DenseSegment> segments;
  std::vector<kernels::LookupField> fields;
  std::vector<kernels::ScalarField> scalars;
  std::vector<kernels::NumericField> numerics;

  void bind() {
    if (auto* v = std::get_if<kernels::ViewAttrs>(&attrs)) {
      v->indices = indices.data();
      v->n_indices = static_cast<int64_t>(indices.size());
    } else if (auto* d = std::get_if<kernels::DenseAttrs>(&attrs)) {
      *d = {segments.data(), static_cast<int32_t>(segments.size())};
    } else if (auto* m = std::get_if<kernels::MultiLookupAttrs>(&attrs)) {
      m->fields = fields.data();
      m->scalars = scalars.data();
      m->numerics = numerics.data();
      m->n_fields = static_cast<int32_t>(fields.size());
      m->n_scalars = static_cast<int32_t>(scalars.size());
      m->n_numerics = static_cast<int32_t>(numerics.size());
    }
  }
};

}  // namespace dpi::test
