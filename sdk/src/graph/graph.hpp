// A model as a plain value: primitive ops in topological order, values with shapes and row spaces,
// parameters. Built from a manifest by build_graph, which checks everything FORMAT.md parts 7 and 8 state;
// later stages rely on it.
//
// Where a shared value meets item rows, build_graph inserts a BroadcastRows node, so every other op has all
// its inputs in its own row space or constant.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/manifest.hpp"
#include "ops/op_context.hpp"

namespace dpi {

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

/// params and inputs are in the order of the op's row in ops/table.cpp.
struct GraphNode : ops::ReadOp {
  OpKind kind = OpKind::kInput;
  std::string name;
  std::string module;
  std::vector<int32_t> inputs;  // values
  int32_t output = -1;          // value
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
