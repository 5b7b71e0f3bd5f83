// A model as a plain value: primitive ops in topological order, values with shapes and row spaces,
// parameters. Built from a manifest by build_graph, which checks everything FORMAT.md parts 7 and 8 state;
// later stages rely on it.
//
// Where a shared value meets item rows, build_graph inserts a BroadcastRows node, so every other op has all
// its inputs in its own row space or constant.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/concat.hpp>
#include <dpi/kernels/embed.hpp>
#include <dpi/kernels/layer_norm.hpp>
#include <dpi/kernels/linear.hpp>
#include <dpi/kernels/mask.hpp>
#include <dpi/kernels/matmul.hpp>
#include <dpi/kernels/op.hpp>
#include <dpi/kernels/recurrent.hpp>
#include <dpi/kernels/reduce.hpp>
#include <dpi/kernels/softmax.hpp>
#include <dpi/kernels/unary.hpp>
#include <dpi/kernels/view.hpp>

#include "base/status.hpp"
#include "bundle/manifest.hpp"

namespace dpi {

using kernels::Dims;
using kernels::OpKind;

struct GraphValue {
  std::string name;
  bool is_bags = false;  // ids of a feature; dims unused
  Dims dims;
  RowSpace space = RowSpace::kConstant;
  int32_t producer = -1;  // node
};

/// A weight. Values of a node's params are never changed after build; folds make new ones in the plan.
struct GraphParam {
  std::string name;
  Dims dims;
  std::vector<float> data;
};

using GraphAttrs = std::variant<std::monostate, kernels::EmbedAttrs, kernels::MaskAttrs, kernels::LinearAttrs,
                                kernels::MatMulAttrs, kernels::BinaryAttrs, kernels::UnaryAttrs,
                                kernels::LayerNormAttrs, kernels::SoftmaxAttrs, kernels::ReduceAttrs,
                                kernels::ConcatAttrs, kernels::ViewAttrs, kernels::RecurrentAttrs>;

/// params, by kind (index into Graph::params, -1 = absent):
///   Const: value | Linear: weight, bias | Unary: p0, p1, p2 | LayerNorm: gamma, beta | Recurrent: w_input,
///   w_hidden, b_input, b_hidden
/// inputs, by kind: Softmax and Reduce: x (, mask) | Recurrent: x, mask (, att) | others as in FORMAT.md
struct GraphNode {
  OpKind kind = OpKind::kInput;
  std::string name;
  std::string module;
  GraphAttrs attrs;
  std::vector<int32_t> inputs;  // values
  int32_t output = -1;          // value
  std::vector<int32_t> params;
  int32_t feature = -1;  // Input
  int32_t table = -1;    // Embed
  std::vector<int64_t>
      indices;  // View index_select (ViewAttrs::indices is null in the graph; lowering sets it)
};

struct GraphHead {
  std::string name;
  std::string activation;
  int32_t value = -1;  // item space (a BroadcastRows is inserted if needed), one element
  int32_t logit = -1;  // or -1
};

struct Graph {
  std::string name;
  std::vector<FeatureSpec> features;
  std::vector<TableSpec> tables;
  std::vector<GraphParam> params;
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;  // topological order
  std::vector<GraphHead> heads;
};

/// Reads parameters by name: where their floats come from (the bundle, or a test's map).
struct ParamSource {
  virtual ~ParamSource() = default;
  /// Shape of /params/<name>, or kBadModel when there is none.
  virtual Result<std::vector<int64_t>> shape(const std::string& name) = 0;
  virtual Result<std::vector<float>> read(const std::string& name) = 0;
};

/// Checks and builds. Failing texts name the op ("op 'cross/2' (Linear): weight is [64, 1], expected [..,
/// 128]").
Result<Graph> build_graph(const Manifest& manifest, ParamSource& params);

/// Stable text form for tests and `dpi inspect --graph`.
std::string dump_graph(const Graph& graph);

}  // namespace dpi
