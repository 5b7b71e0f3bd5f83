// All ops, what is typed about them: one variant of their attributes, for graph, plan and backends, and the
// functions that the file of each op (<op>.cpp) defines. table.hpp names what each function is for and holds
// one row per op.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <dpi/kernels/attention.hpp>
#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/cin.hpp>
#include <dpi/kernels/co_action.hpp>
#include <dpi/kernels/concat.hpp>
#include <dpi/kernels/cross_v1.hpp>
#include <dpi/kernels/dense.hpp>
#include <dpi/kernels/elementwise.hpp>
#include <dpi/kernels/embed.hpp>
#include <dpi/kernels/fm.hpp>
#include <dpi/kernels/gather.hpp>
#include <dpi/kernels/layer_norm.hpp>
#include <dpi/kernels/linear.hpp>
#include <dpi/kernels/mask.hpp>
#include <dpi/kernels/matmul.hpp>
#include <dpi/kernels/multi_lookup.hpp>
#include <dpi/kernels/op.hpp>
#include <dpi/kernels/recurrent.hpp>
#include <dpi/kernels/reduce.hpp>
#include <dpi/kernels/softmax.hpp>
#include <dpi/kernels/tail.hpp>
#include <dpi/kernels/top_k.hpp>
#include <dpi/kernels/unary.hpp>
#include <dpi/kernels/view.hpp>
#include <dpi/kernels/where.hpp>

#include "base/status.hpp"
#include "ops/op_desc.h"

namespace dpi {

using kernels::Dims;
using kernels::OpKind;

using OpAttrs =
    std::variant<std::monostate, kernels::EmbedAttrs, kernels::MaskAttrs, kernels::LinearAttrs,
                 kernels::MatMulAttrs, kernels::BinaryAttrs, kernels::UnaryAttrs, kernels::LayerNormAttrs,
                 kernels::SoftmaxAttrs, kernels::ReduceAttrs, kernels::ConcatAttrs, kernels::ViewAttrs,
                 kernels::RecurrentAttrs, kernels::MultiLookupAttrs, kernels::DenseAttrs,
                 kernels::ElementwiseAttrs, kernels::CrossV1Attrs, kernels::FmAttrs, kernels::TailAttrs,
                 kernels::TopKAttrs, kernels::GatherAttrs, kernels::CoActionAttrs, kernels::AttentionAttrs,
                 kernels::CinAttrs>;

/// The arrays that pointers inside OpAttrs point to, owned by whoever owns the attributes.
struct OpArrays {
  std::vector<int64_t> indices;                 // View index_select
  std::vector<kernels::DenseSegment> segments;  // Dense
  std::vector<kernels::LookupField> fields;     // MultiLookup
  std::vector<kernels::ScalarField> scalars;
  std::vector<kernels::NumericField> numerics;

  /// Points attrs at the vectors above. They keep their place when this object is moved, not when it is
  /// copied.
  void bind(OpAttrs* attrs) const;
  /// Copies what attrs point to; bind then redirects them.
  void copy_from(const OpAttrs& attrs);
};

struct OwnedOp;
struct OpWork;

namespace ops {

class OpChecker;
class OpContext;
struct OpSizes;
struct OpText;

Result<Dims> infer_input(OpContext& c);
Result<Dims> infer_const(OpContext& c);

}  // namespace ops

// The functions of one op, in <op>.cpp. Its row in table.cpp names those that it has; the others have no
// definition.
//   <op>_args        the arguments of its kernels, from a prepared op and a call. Copies pointers and never
//                    allocates. scratch and packed data are the backend's to set where the struct has such
//                    members (scratch is call.scratch)
//   infer_, check_, _graph_text, _text, _work: the functions of OpForm
#define DPI_OP(op, Args)                                                     \
  kernels::Args op##_args(const OwnedOp& prepared, const dpi_op_call& call); \
  namespace ops {                                                            \
  Result<Dims> infer_##op(OpContext& c);                                     \
  Status check_##op(const OpChecker& c);                                     \
  std::string op##_graph_text(const OpText& t);                              \
  std::string op##_text(const OpText& t);                                    \
  OpWork op##_work(const OpSizes& s);                                        \
  }
DPI_OP(embed, EmbedArgs)
DPI_OP(mask, MaskArgs)
DPI_OP(linear, LinearArgs)
DPI_OP(matmul, MatMulArgs)
DPI_OP(binary, BinaryArgs)
DPI_OP(unary, UnaryArgs)
DPI_OP(layer_norm, LayerNormArgs)
DPI_OP(softmax, SoftmaxArgs)
DPI_OP(reduce, ReduceArgs)
DPI_OP(concat, ConcatArgs)
DPI_OP(view, ViewArgs)
DPI_OP(recurrent, RecurrentArgs)
DPI_OP(broadcast_rows, BroadcastRowsArgs)
DPI_OP(multi_lookup, MultiLookupArgs)
DPI_OP(dense, DenseArgs)
DPI_OP(elementwise, ElementwiseArgs)
DPI_OP(cross_v1, CrossV1Args)
DPI_OP(cross_v1_closed, CrossV1ClosedArgs)
DPI_OP(fm, FmArgs)
DPI_OP(tail, TailArgs)
DPI_OP(where, WhereArgs)
DPI_OP(top_k, TopKArgs)
DPI_OP(gather, GatherArgs)
DPI_OP(co_action, CoActionArgs)
DPI_OP(attention, AttentionArgs)
DPI_OP(cin, CinArgs)
#undef DPI_OP

}  // namespace dpi
