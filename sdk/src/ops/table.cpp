#include "ops/table.hpp"

#include <algorithm>

#include "ops/check_op.hpp"
#include "ops/op_context.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {
namespace {

namespace ref = kernels::ref;

constexpr int32_t kMaxInputs = 65536;

template <class T>
OpAttrs copy(const void* attrs) {
  return *static_cast<const T*>(attrs);
}

OpAttrs no_attrs(const void*) { return {}; }
std::string no_text(const OpText&) { return ""; }

/// As many multiply-adds as floats pass.
OpWork element_work(const OpSizes& s) { return {s.inputs + s.outputs, s.inputs + s.outputs}; }

template <auto Kernel, auto Args>
void run(const OwnedOp& op, const dpi_op_call& call) {
  Kernel(Args(op, call));
}

// One row per kind, in the order of OpKind.
constexpr std::array<OpForm, kOpCount> kForms = {{
    {.kind = OpKind::kInput,
     .name = "Input",
     .min_inputs = 0,
     .max_inputs = 0,
     .keys = {"feature"},
     .infer = infer_input,
     .graph_text = no_text,
     .outputs = {"y"},
     .attrs = no_attrs,
     .bare = true,
     .text = no_text,
     .work = element_work},
    {.kind = OpKind::kConst,
     .name = "Const",
     .min_inputs = 0,
     .max_inputs = 0,
     .roles = {"value"},
     .infer = infer_const,
     .graph_text = no_text,
     .outputs = {"y"},
     .attrs = no_attrs,
     .bare = true,
     .text = no_text,
     .work = element_work},
    {.kind = OpKind::kEmbed,
     .name = "Embed",
     .min_inputs = 1,
     .max_inputs = 1,
     .keys = {"table", "pooling", "mask", "eps", "empty"},
     .infer = infer_embed,
     .graph_text = embed_graph_text,
     .inputs = {"bags"},
     .outputs = {"y"},
     .attrs = copy<kernels::EmbedAttrs>,
     .check = check_embed,
     .text = embed_text,
     .work = element_work,
     .ref = run<ref::embed, embed_args>},
    {.kind = OpKind::kMask,
     .name = "Mask",
     .min_inputs = 1,
     .max_inputs = 1,
     .keys = {"rule"},
     .infer = infer_mask,
     .graph_text = mask_graph_text,
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = copy<kernels::MaskAttrs>,
     .check = check_mask,
     .text = no_text,
     .work = element_work,
     .ref = run<ref::mask, mask_args>},
    {.kind = OpKind::kLinear,
     .name = "Linear",
     .min_inputs = 1,
     .max_inputs = 1,
     .keys = {"groups", "axis"},
     .roles = {"weight", "bias?"},
     .infer = infer_linear,
     .graph_text = linear_graph_text,
     .inputs = {"x"},
     .outputs = {"y"},
     .params = {"weight", "bias?"},
     .folds = true,
     .attrs = copy<kernels::LinearAttrs>,
     .check = check_linear,
     .text = linear_text,
     .work = linear_work,
     .ref = run<ref::linear, linear_args>},
    {.kind = OpKind::kMatMul,
     .name = "MatMul",
     .min_inputs = 2,
     .max_inputs = 2,
     .keys = {"trans_a", "trans_b", "alpha"},
     .infer = infer_matmul,
     .graph_text = matmul_graph_text,
     .inputs = {"a", "b"},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::MatMulAttrs>,
     .check = check_matmul,
     .text = no_text,
     .work = matmul_work,
     .ref = run<ref::matmul, matmul_args>},
    {.kind = OpKind::kBinary,
     .name = "Binary",
     .min_inputs = 2,
     .max_inputs = 2,
     .keys = {"kind"},
     .infer = infer_binary,
     .graph_text = binary_graph_text,
     .inputs = {"x", "y"},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::BinaryAttrs>,
     .check = check_binary,
     .text = binary_text,
     .work = element_work,
     .ref = run<ref::binary, binary_args>},
    {.kind = OpKind::kUnary,
     .name = "Unary",
     .min_inputs = 1,
     .max_inputs = 1,
     .keys = {"kind", "a", "b"},
     .roles = {"scale?", "shift?", "slope?", "alpha?"},
     .infer = infer_unary,
     .graph_text = unary_graph_text,
     .inputs = {"x"},
     .outputs = {"y"},
     .params = {"p0?", "p1?", "p2?"},
     .folds = true,
     .attrs = copy<kernels::UnaryAttrs>,
     .check = check_unary,
     .text = unary_text,
     .work = element_work,
     .ref = run<ref::unary, unary_args>},
    {.kind = OpKind::kLayerNorm,
     .name = "LayerNorm",
     .min_inputs = 1,
     .max_inputs = 1,
     .keys = {"eps"},
     .roles = {"gamma?", "beta?"},
     .infer = infer_layer_norm,
     .graph_text = layer_norm_graph_text,
     .inputs = {"x"},
     .outputs = {"y"},
     .params = {"gamma?", "beta?"},
     .folds = true,
     .attrs = copy<kernels::LayerNormAttrs>,
     .check = check_layer_norm,
     .text = no_text,
     .work = element_work,
     .ref = run<ref::layer_norm, layer_norm_args>},
    {.kind = OpKind::kSoftmax,
     .name = "Softmax",
     .min_inputs = 1,
     .max_inputs = 2,
     .keys = {"axis", "mask_mode", "value"},
     .infer = infer_softmax,
     .graph_text = softmax_graph_text,
     .inputs = {"x", "mask?"},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::SoftmaxAttrs>,
     .check = check_softmax,
     .text = no_text,
     .work = element_work,
     .ref = run<ref::softmax, softmax_args>},
    {.kind = OpKind::kReduce,
     .name = "Reduce",
     .min_inputs = 1,
     .max_inputs = 2,
     .keys = {"kind", "axis", "keepdim", "eps", "empty"},
     .infer = infer_reduce,
     .graph_text = reduce_graph_text,
     .inputs = {"x", "mask?"},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::ReduceAttrs>,
     .check = check_reduce,
     .text = reduce_text,
     .work = element_work,
     .ref = run<ref::reduce, reduce_args>},
    {.kind = OpKind::kConcat,
     .name = "Concat",
     .min_inputs = 1,
     .max_inputs = kMaxInputs,
     .keys = {"axis"},
     .infer = infer_concat,
     .graph_text = concat_graph_text,
     .inputs = {"x..."},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::ConcatAttrs>,
     .check = check_concat,
     .text = concat_text,
     .work = element_work,
     .ref = run<ref::concat, concat_args>},
    {.kind = OpKind::kView,
     .name = "View",
     .min_inputs = 1,
     .max_inputs = 1,
     .keys = {"kind", "dims", "perm", "axis", "begin", "end", "indices"},
     .infer = infer_view,
     .graph_text = view_graph_text,
     .inputs = {"x"},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::ViewAttrs>,
     .check = check_view,
     .text = view_text,
     .work = element_work,
     .ref = run<ref::view, view_args>},
    {.kind = OpKind::kRecurrent,
     .name = "Recurrent",
     .min_inputs = 2,
     .max_inputs = 3,
     .keys = {"kind", "reset", "output"},
     .roles = {"w_input", "w_hidden", "b_input?", "b_hidden?"},
     .infer = infer_recurrent,
     .graph_text = recurrent_graph_text,
     .inputs = {"x", "mask", "att?"},
     .outputs = {"y"},
     .params = {"w_input", "w_hidden", "b_input?", "b_hidden?"},
     .attrs = copy<kernels::RecurrentAttrs>,
     .check = check_recurrent,
     .text = no_text,
     .work = recurrent_work,
     .ref = run<ref::recurrent, recurrent_args>},
    {.kind = OpKind::kBroadcastRows,
     .name = "BroadcastRows",
     .graph_text = no_text,
     .inputs = {"x"},
     .outputs = {"y"},
     .narrow = Narrow::kBoth,
     .attrs = no_attrs,
     .bare = true,
     .check = check_broadcast_rows,
     .text = no_text,
     .work = element_work,
     .ref = run<ref::broadcast_rows, broadcast_rows_args>},
    {.kind = OpKind::kMultiLookup,
     .name = "MultiLookup",
     .inputs = {"feature..."},
     .outputs = {"out?", "chan?"},
     .params = {"numeric_vec?", "numeric_coef?", "channel_bias?"},
     .narrow = Narrow::kOutput,
     .attrs = copy<kernels::MultiLookupAttrs>,
     .check = check_multi_lookup,
     .text = multi_lookup_text,
     .work = multi_lookup_work,
     .ref = run<ref::multi_lookup, multi_lookup_args>},
    {.kind = OpKind::kDense,
     .name = "Dense",
     .inputs = {"x", "mul?", "add?"},
     .outputs = {"y"},
     .params = {"weight", "bias?", "p0?", "p1?", "p2?"},
     .narrow = Narrow::kBoth,
     .attrs = copy<kernels::DenseAttrs>,
     .check = check_dense,
     .text = dense_text,
     .work = dense_work,
     .ref = run<ref::dense, dense_args>},
    {.kind = OpKind::kElementwise,
     .name = "Elementwise",
     .inputs = {"x..."},
     .outputs = {"y"},
     .params = {"p...?"},
     .narrow = Narrow::kBoth,
     .attrs = copy<kernels::ElementwiseAttrs>,
     .check = check_elementwise,
     .text = elementwise_text,
     .work = element_work,
     .ref = run<ref::elementwise, elementwise_args>},
    {.kind = OpKind::kCrossV1,
     .name = "CrossV1",
     .inputs = {"x0"},
     .outputs = {"y"},
     .params = {"w", "b"},
     .attrs = copy<kernels::CrossV1Attrs>,
     .check = check_cross_v1,
     .text = cross_v1_text,
     .work = cross_v1_work,
     .ref = run<ref::cross_v1, cross_v1_args>},
    {.kind = OpKind::kCrossV1Closed,
     .name = "CrossV1Closed",
     .inputs = {"p"},
     .outputs = {"y"},
     .params = {"k", "y0"},
     .attrs = copy<kernels::CrossV1Attrs>,
     .check = check_cross_v1_closed,
     .text = cross_v1_text,
     .work = element_work,
     .ref = run<ref::cross_v1_closed, cross_v1_closed_args>},
    {.kind = OpKind::kFm,
     .name = "Fm",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = copy<kernels::FmAttrs>,
     .check = check_fm,
     .text = fm_text,
     .work = element_work,
     .ref = run<ref::fm, fm_args>},
    {.kind = OpKind::kTail,
     .name = "Tail",
     .inputs = {"x..."},
     .outputs = {"logit?", "value?"},
     .params = {"weight...?"},
     .narrow = Narrow::kInputs,
     .attrs = copy<kernels::TailAttrs>,
     .check = check_tail,
     .text = tail_text,
     .work = element_work,
     .ref = run<ref::tail, tail_args>},
    {.kind = OpKind::kWhere,
     .name = "Where",
     .min_inputs = 3,
     .max_inputs = 3,
     .infer = infer_where,
     .graph_text = no_text,
     .inputs = {"cond", "x", "y"},
     .outputs = {"y"},
     .folds = true,
     .attrs = no_attrs,
     .bare = true,
     .check = check_where,
     .text = no_text,
     .work = element_work,
     .ref = run<ref::where, where_args>},
    {.kind = OpKind::kTopK,
     .name = "TopK",
     .min_inputs = 1,
     .max_inputs = 1,
     .keys = {"k", "axis", "largest"},
     .infer = infer_top_k,
     .graph_text = top_k_graph_text,
     .inputs = {"x"},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::TopKAttrs>,
     .check = check_top_k,
     .text = top_k_text,
     .work = element_work,
     .ref = run<ref::top_k, top_k_args>},
    {.kind = OpKind::kGather,
     .name = "Gather",
     .min_inputs = 2,
     .max_inputs = 2,
     .keys = {"axis"},
     .infer = infer_gather,
     .graph_text = gather_graph_text,
     .inputs = {"x", "index"},
     .outputs = {"y"},
     .folds = true,
     .attrs = copy<kernels::GatherAttrs>,
     .check = check_gather,
     .text = gather_text,
     .work = element_work,
     .ref = run<ref::gather, gather_args>},
}};

// ---- what the compiler checks

constexpr bool all(bool (*holds)(const OpForm& f, size_t i)) {
  for (size_t i = 0; i < kForms.size(); ++i) {
    if (!holds(kForms[i], i)) return false;
  }
  return true;
}

constexpr bool unlike_the_rest(const OpForm& f, size_t i) {
  for (size_t k = 0; k < i; ++k) {
    if (kForms[k].name == f.name) return false;
  }
  return !f.name.empty();
}

static_assert(all([](const OpForm& f, size_t i) { return f.kind == static_cast<OpKind>(i); }),
              "a kind has no row, or its row is out of order");
static_assert(all(unlike_the_rest), "a row has no name, or the name of another");
static_assert(all([](const OpForm& f, size_t) { return f.outputs.size() > 0; }), "a row lacks its outputs");
#ifndef DPI_SANITIZED  // where g++ takes no address for a constant
static_assert(all([](const OpForm& f, size_t) { return f.attrs != nullptr; }), "a row lacks its attributes");
static_assert(all([](const OpForm& f, size_t) { return f.text != nullptr; }), "a row lacks its text");
static_assert(all([](const OpForm& f, size_t) { return f.work != nullptr; }), "a row lacks its work");
static_assert(all([](const OpForm& f, size_t) { return f.graph_text != nullptr || f.infer == nullptr; }),
              "a primitive lacks its text in a graph");
static_assert(all([](const OpForm& f, size_t) {
                return f.infer != nullptr || f.keys.size() + f.roles.size() == 0;
              }),
              "a row has keys or roles of a bundle, and no shape rule");
static_assert(all([](const OpForm& f, size_t) { return (f.check != nullptr) == is_executed(f.kind); }),
              "an executed op lacks its check");
static_assert(all([](const OpForm& f, size_t) { return (f.ref != nullptr) == is_executed(f.kind); }),
              "an executed op lacks its definition");
#endif

}  // namespace
}  // namespace ops

std::span<const OpForm, kOpCount> op_forms() { return ops::kForms; }

const OpForm& form_of(OpKind kind) { return ops::kForms[static_cast<size_t>(kind)]; }

const OpForm* find_primitive(std::string_view name) {
  const auto* const at = std::find_if(ops::kForms.begin(), ops::kForms.end(),
                                      [&](const OpForm& f) { return f.infer != nullptr && f.name == name; });
  return at == ops::kForms.end() ? nullptr : at;
}

const char* op_name(OpKind kind) {
  return kind >= OpKind::kInput && kind < OpKind::kCount ? form_of(kind).name.data() : "?";
}

}  // namespace dpi
