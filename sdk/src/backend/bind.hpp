// Turns the generic op description and call of dpi_backend.h into the typed argument structs of
// <dpi/kernels/*.hpp>, once for all backends. The order of operands per kind is stated here and nowhere else.
//
// | kind          | inputs                 | outputs       | params                              | tables |
// | Embed         | bags                   | y             |                                     | 1      |
// | Mask          | bags or x              | y             |                                     |        |
// | Linear        | x                      | y             | weight, bias                        |        |
// | MatMul        | a, b                   | y             |                                     |        |
// | Binary        | x, y                   | y             |                                     |        |
// | Unary         | x                      | y             | p0, p1, p2                          |        |
// | LayerNorm     | x                      | y             | gamma, beta                         |        |
// | Softmax       | x, mask                | y             |                                     |        |
// | Reduce        | x, mask                | y             |                                     |        |
// | Concat        | x ...                  | y             |                                     |        |
// | View          | x                      | y             |                                     |        |
// | Recurrent     | x, mask, att           | y             | w_input, w_hidden, b_input, b_hidden|        |
// | BroadcastRows | x                      | y             |                                     |        |
// | MultiLookup   | features ...           | out, chan     | numeric_vec, numeric_coef, channel_bias | n  |
// | Dense         | x, mul, add            | y             | weight, bias, p0, p1, p2            |        |
// | Elementwise   | x ...                  | y             | steps' params ...                   |        |
// | CrossV1       | x0                     | y             | w, b                                |        |
// | CrossV1Closed | p                      | y             | k, y0                               |        |
// | Fm            | x                      | y             |                                     |        |
// | Tail          | x ...                  | logit, value  | weights ... (one per input)         |        |
//
// Absent operands (mask, mul, add, logit ...) keep their position: in a description with dims.rank == 0, in a
// call with data == nullptr; absent params have data == nullptr. Trailing absent ones may be left out.
//
// Used by every backend:
//
//   op_prepare:  DPI_ASSIGN_OR_RETURN(OwnedOp op, own_op(desc));  DPI_RETURN_IF_ERROR(check_op(op));
//   (check_op.hpp) enqueue:     case OpKind::kLinear: kernels::ref::linear(linear_args(op, call));
//
// The opaque handles of dpi_backend.h (dpi_backend_device ...) stay incomplete in the whole library: a
// backend converts its own types with reinterpret_cast, because two definitions of one struct would break the
// one-definition rule.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/concat.hpp>
#include <dpi/kernels/cross_v1.hpp>
#include <dpi/kernels/dense.hpp>
#include <dpi/kernels/elementwise.hpp>
#include <dpi/kernels/embed.hpp>
#include <dpi/kernels/fm.hpp>
#include <dpi/kernels/layer_norm.hpp>
#include <dpi/kernels/linear.hpp>
#include <dpi/kernels/mask.hpp>
#include <dpi/kernels/matmul.hpp>
#include <dpi/kernels/multi_lookup.hpp>
#include <dpi/kernels/recurrent.hpp>
#include <dpi/kernels/reduce.hpp>
#include <dpi/kernels/softmax.hpp>
#include <dpi/kernels/tail.hpp>
#include <dpi/kernels/unary.hpp>
#include <dpi/kernels/view.hpp>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"

namespace dpi::backend {

template <class T>
const T& attrs_of(const dpi_op_desc& d) {
  return *static_cast<const T*>(d.attrs);
}

using OpAttrs =
    std::variant<std::monostate, kernels::EmbedAttrs, kernels::MaskAttrs, kernels::LinearAttrs,
                 kernels::MatMulAttrs, kernels::BinaryAttrs, kernels::UnaryAttrs, kernels::LayerNormAttrs,
                 kernels::SoftmaxAttrs, kernels::ReduceAttrs, kernels::ConcatAttrs, kernels::ViewAttrs,
                 kernels::RecurrentAttrs, kernels::MultiLookupAttrs, kernels::DenseAttrs,
                 kernels::ElementwiseAttrs, kernels::CrossV1Attrs, kernels::FmAttrs, kernels::TailAttrs>;

/// What a backend keeps of a dpi_op_desc after op_prepare: deep copies of attrs (with the arrays behind their
/// pointers) and of params, so that nothing of the plan is needed. Moving keeps every pointer valid.
struct OwnedOp {
  kernels::OpKind kind = kernels::OpKind::kInput;
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

  // What the pointers in attrs and params point to.
  std::vector<std::vector<float>> param_data;
  std::vector<int64_t> indices;
  std::vector<kernels::DenseSegment> segments;
  std::vector<kernels::LookupField> fields;
  std::vector<kernels::ScalarField> scalars;
  std::vector<kernels::NumericField> numerics;
};

inline bool is_absent(const dpi_value_desc& v) { return v.is_bags == 0 && v.dims.rank == 0; }

/// Checks the description itself (kind known, attrs there, counts not negative) and copies it.
Result<OwnedOp> own_op(const dpi_op_desc& desc);

// One function per kind; they copy pointers and never allocate. scratch and packed data are the backend's to
// set where the struct has such members (scratch is call.scratch).
kernels::EmbedArgs embed_args(const OwnedOp& op, const dpi_op_call& call);
kernels::MaskArgs mask_args(const OwnedOp& op, const dpi_op_call& call);
kernels::LinearArgs linear_args(const OwnedOp& op, const dpi_op_call& call);
kernels::MatMulArgs matmul_args(const OwnedOp& op, const dpi_op_call& call);
kernels::BinaryArgs binary_args(const OwnedOp& op, const dpi_op_call& call);
kernels::UnaryArgs unary_args(const OwnedOp& op, const dpi_op_call& call);
kernels::LayerNormArgs layer_norm_args(const OwnedOp& op, const dpi_op_call& call);
kernels::SoftmaxArgs softmax_args(const OwnedOp& op, const dpi_op_call& call);
kernels::ReduceArgs reduce_args(const OwnedOp& op, const dpi_op_call& call);
kernels::ConcatArgs concat_args(const OwnedOp& op, const dpi_op_call& call);
kernels::ViewArgs view_args(const OwnedOp& op, const dpi_op_call& call);
kernels::RecurrentArgs recurrent_args(const OwnedOp& op, const dpi_op_call& call);
kernels::BroadcastRowsArgs broadcast_rows_args(const OwnedOp& op, const dpi_op_call& call);
kernels::MultiLookupArgs multi_lookup_args(const OwnedOp& op, const dpi_op_call& call);
kernels::DenseArgs dense_args(const OwnedOp& op, const dpi_op_call& call);
kernels::ElementwiseArgs elementwise_args(const OwnedOp& op, const dpi_op_call& call);
kernels::CrossV1Args cross_v1_args(const OwnedOp& op, const dpi_op_call& call);
kernels::CrossV1ClosedArgs cross_v1_closed_args(const OwnedOp& op, const dpi_op_call& call);
kernels::FmArgs fm_args(const OwnedOp& op, const dpi_op_call& call);
kernels::TailArgs tail_args(const OwnedOp& op, const dpi_op_call& call);

}  // namespace dpi::backend
