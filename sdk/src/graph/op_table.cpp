#include "graph/op_table.hpp"

namespace dpi::graph_build {
namespace {

constexpr int32_t kMaxInputs = 65536;

const OpForm kOps[] = {
    {"Input", OpKind::kInput, 0, 0, {"feature"}, {}, {}, infer_input},
    {"Const", OpKind::kConst, 0, 0, {}, {"value"}, {}, infer_const},
    {"Embed", OpKind::kEmbed, 1, 1, {"table", "pooling", "mask", "eps", "empty"}, {}, {}, infer_embed},
    {"Mask", OpKind::kMask, 1, 1, {"rule"}, {}, {}, infer_mask},
    {"Linear", OpKind::kLinear, 1, 1, {"groups", "axis"}, {"weight"}, {"bias"}, infer_linear},
    {"MatMul", OpKind::kMatMul, 2, 2, {"trans_a", "trans_b", "alpha"}, {}, {}, infer_matmul},
    {"Binary", OpKind::kBinary, 2, 2, {"kind"}, {}, {}, infer_binary},
    {"Unary",
     OpKind::kUnary,
     1,
     1,
     {"kind", "a", "b"},
     {},
     {"scale", "shift", "slope", "alpha"},
     infer_unary},
    {"LayerNorm", OpKind::kLayerNorm, 1, 1, {"eps"}, {}, {"gamma", "beta"}, infer_layer_norm},
    {"Softmax", OpKind::kSoftmax, 1, 2, {"axis", "mask_mode", "value"}, {}, {}, infer_softmax},
    {"Reduce", OpKind::kReduce, 1, 2, {"kind", "axis", "keepdim", "eps", "empty"}, {}, {}, infer_reduce},
    {"Concat", OpKind::kConcat, 1, kMaxInputs, {"axis"}, {}, {}, infer_concat},
    {"View",
     OpKind::kView,
     1,
     1,
     {"kind", "dims", "perm", "axis", "begin", "end", "indices"},
     {},
     {},
     infer_view},
    {"Recurrent",
     OpKind::kRecurrent,
     2,
     3,
     {"kind", "reset", "output"},
     {"w_input", "w_hidden"},
     {"b_input", "b_hidden"},
     infer_recurrent},
};

}  // namespace

const OpForm* find_op(std::string_view name) {
  for (const OpForm& form : kOps) {
    if (form.name == name) return &form;
  }
  return nullptr;
}

}  // namespace dpi::graph_build
