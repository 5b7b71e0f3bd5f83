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

}  // namespace ops

// The arguments of the kernels, from a prepared op and a call. They copy pointers and never allocate. scratch
// and packed data are the backend's to set where the struct has such members (scratch is call.scratch).
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
kernels::WhereArgs where_args(const OwnedOp& op, const dpi_op_call& call);
kernels::TopKArgs top_k_args(const OwnedOp& op, const dpi_op_call& call);
kernels::GatherArgs gather_args(const OwnedOp& op, const dpi_op_call& call);
kernels::CoActionArgs co_action_args(const OwnedOp& op, const dpi_op_call& call);
kernels::AttentionArgs attention_args(const OwnedOp& op, const dpi_op_call& call);
kernels::CinArgs cin_args(const OwnedOp& op, const dpi_op_call& call);

namespace ops {

// OpForm::infer.
Result<Dims> infer_input(OpContext& c);
Result<Dims> infer_const(OpContext& c);
Result<Dims> infer_embed(OpContext& c);
Result<Dims> infer_mask(OpContext& c);
Result<Dims> infer_linear(OpContext& c);
Result<Dims> infer_matmul(OpContext& c);
Result<Dims> infer_binary(OpContext& c);
Result<Dims> infer_unary(OpContext& c);
Result<Dims> infer_layer_norm(OpContext& c);
Result<Dims> infer_softmax(OpContext& c);
Result<Dims> infer_reduce(OpContext& c);
Result<Dims> infer_concat(OpContext& c);
Result<Dims> infer_view(OpContext& c);
Result<Dims> infer_recurrent(OpContext& c);
Result<Dims> infer_where(OpContext& c);
Result<Dims> infer_top_k(OpContext& c);
Result<Dims> infer_gather(OpContext& c);

// OpForm::check.
Status check_embed(const OpChecker& c);
Status check_mask(const OpChecker& c);
Status check_linear(const OpChecker& c);
Status check_matmul(const OpChecker& c);
Status check_binary(const OpChecker& c);
Status check_unary(const OpChecker& c);
Status check_layer_norm(const OpChecker& c);
Status check_softmax(const OpChecker& c);
Status check_reduce(const OpChecker& c);
Status check_concat(const OpChecker& c);
Status check_view(const OpChecker& c);
Status check_recurrent(const OpChecker& c);
Status check_broadcast_rows(const OpChecker& c);
Status check_multi_lookup(const OpChecker& c);
Status check_dense(const OpChecker& c);
Status check_elementwise(const OpChecker& c);
Status check_cross_v1(const OpChecker& c);
Status check_cross_v1_closed(const OpChecker& c);
Status check_fm(const OpChecker& c);
Status check_tail(const OpChecker& c);
Status check_where(const OpChecker& c);
Status check_top_k(const OpChecker& c);
Status check_gather(const OpChecker& c);
Status check_co_action(const OpChecker& c);
Status check_attention(const OpChecker& c);
Status check_cin(const OpChecker& c);

// OpForm::graph_text.
std::string embed_graph_text(const OpText& t);
std::string mask_graph_text(const OpText& t);
std::string linear_graph_text(const OpText& t);
std::string matmul_graph_text(const OpText& t);
std::string matmul_text(const OpText& t);
std::string binary_graph_text(const OpText& t);
std::string unary_graph_text(const OpText& t);
std::string layer_norm_graph_text(const OpText& t);
std::string softmax_graph_text(const OpText& t);
std::string reduce_graph_text(const OpText& t);
std::string concat_graph_text(const OpText& t);
std::string view_graph_text(const OpText& t);
std::string recurrent_graph_text(const OpText& t);
std::string top_k_graph_text(const OpText& t);
std::string gather_graph_text(const OpText& t);

// OpForm::text.
std::string embed_text(const OpText& t);
std::string linear_text(const OpText& t);
std::string binary_text(const OpText& t);
std::string unary_text(const OpText& t);
std::string reduce_text(const OpText& t);
std::string concat_text(const OpText& t);
std::string view_text(const OpText& t);
std::string multi_lookup_text(const OpText& t);
std::string dense_text(const OpText& t);
std::string elementwise_text(const OpText& t);
std::string cross_v1_text(const OpText& t);
std::string fm_text(const OpText& t);
std::string tail_text(const OpText& t);
std::string top_k_text(const OpText& t);
std::string gather_text(const OpText& t);
std::string co_action_text(const OpText& t);
std::string attention_text(const OpText& t);
std::string cin_text(const OpText& t);

// OpForm::work.
OpWork linear_work(const OpSizes& s);
OpWork matmul_work(const OpSizes& s);
OpWork recurrent_work(const OpSizes& s);
OpWork multi_lookup_work(const OpSizes& s);
OpWork dense_work(const OpSizes& s);
OpWork cross_v1_work(const OpSizes& s);
OpWork co_action_work(const OpSizes& s);
OpWork attention_work(const OpSizes& s);
OpWork cin_work(const OpSizes& s);

}  // namespace ops
}  // namespace dpi
