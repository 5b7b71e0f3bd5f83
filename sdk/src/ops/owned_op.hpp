// A backend's copy of an op that it has prepared: the generic description of op_desc.h, owned and typed.
//
//   op_prepare:  DPI_ASSIGN_OR_RETURN(OwnedOp op, own_op(desc));  DPI_RETURN_IF_ERROR(check_op(op));
//   enqueue:     form_of(op.kind).ref(op, call);  or a kernel of its own over linear_args(op, call)
//
// The opaque handles of dpi_backend.h (dpi_backend_device ...) stay incomplete in the whole library: a
// backend converts its own types with reinterpret_cast, because two definitions of one struct would break the
// one-definition rule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "ops/ops.hpp"

namespace dpi {

/// Deep copies of a dpi_op_desc's attributes (with the arrays behind their pointers) and of its params, so
/// that nothing of the plan is needed. Moving keeps every pointer valid.
struct OwnedOp : OpArrays {
  OpKind kind = OpKind::kInput;
  std::string name;
  OpAttrs attrs;
  std::vector<dpi_value_desc> inputs;
  std::vector<dpi_value_desc> outputs;
  std::vector<kernels::Param> params;  // data points into param_data
  std::vector<dpi_table_desc> tables;
  int64_t max_rows = 0;

  OwnedOp() = default;
  OwnedOp(OwnedOp&&) = default;
  OwnedOp& operator=(OwnedOp&&) = default;
  OwnedOp(const OwnedOp&) = delete;
  OwnedOp& operator=(const OwnedOp&) = delete;

  template <class T>
  const T& as() const {
    return *std::get_if<T>(&attrs);
  }
  /// Input, output or param `i`, or an absent one when the list is shorter.
  const dpi_value_desc& input(size_t i) const;
  const dpi_value_desc& output(size_t i) const;
  kernels::Param param(size_t i) const;
  /// Frees the copy of a param that the backend has packed. Its dims stay, its data becomes null.
  void drop_param(size_t i);
  /// Bytes of all params that are kept.
  size_t param_bytes() const;

  std::vector<std::vector<float>> param_data;
};

inline bool is_absent(const dpi_value_desc& v) { return v.is_bags == 0 && v.dims.rank == 0; }

/// Input or output `i` of a call, or an absent one when the op has fewer.
inline kernels::Tensor input_tensor(const OwnedOp& op, const dpi_op_call& call, size_t i) {
  return i < op.inputs.size() ? call.inputs[i].tensor : kernels::Tensor{};
}
inline kernels::Tensor output_tensor(const OwnedOp& op, const dpi_op_call& call, size_t i) {
  return i < op.outputs.size() ? call.outputs[i] : kernels::Tensor{};
}

/// Checks the description itself (a kind that backends execute, attrs there, counts not negative) and copies
/// it.
Result<OwnedOp> own_op(const dpi_op_desc& desc);

}  // namespace dpi
