// The table of primitives: per op its name, the number of its inputs, the attribute keys and parameter roles
// it knows, and the handler that reads its attributes and infers the dims of its value. One family per file
// (ops_*.cpp).
#pragma once

#include <span>
#include <string_view>

#include "graph/op_context.hpp"

namespace dpi::graph_build {

/// Fills node().attrs, node().params (in the order of GraphNode) and node().feature or table; returns the
/// dims of the value (rank 0 for ids).
using Handler = Result<Dims> (*)(OpContext& c);

struct OpForm {
  std::string_view name;
  OpKind kind;
  int32_t min_inputs;
  int32_t max_inputs;
  std::initializer_list<std::string_view> attrs;
  std::initializer_list<std::string_view> required_params;
  std::initializer_list<std::string_view> optional_params;
  Handler handler;
};

/// Null when no op of format 1 has this name.
const OpForm* find_op(std::string_view name);

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

}  // namespace dpi::graph_build
