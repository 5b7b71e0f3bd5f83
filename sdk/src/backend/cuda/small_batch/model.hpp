// The computation of a small batch, taken from its description: values in shared memory, what the gather
// fetches into them, and the nodes with their levels. Independent of the device. Made by
// small_batch/model.cpp, placed and divided among ranks and warps by small_batch/plan.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "ops/owned_op.hpp"

namespace dpi::backend::small_batch {

/// Columns [column, column + n) of a value; value -1 = absent.
struct Ref {
  int32_t value = -1;
  int32_t column = 0;
  int32_t n = 0;
  kernels::Dims dims;
};

struct BatchValue {
  int32_t columns = 0;
  bool product = false;  // a Dense multiplies it
  bool factor = false;   // a Dense reads it as mul or add
  bool exact = false;    // something else reads it
  bool wide = false;     // FM reads it: float32 in any case
  bool zeroed = false;   // cleared at the start: no single op writes all of it
  int32_t first = 0;     // levels in which it is alive
  int32_t last = -1;

  bool is_read() const { return last >= 0; }
};

enum class NodeKind : int32_t { kProduct, kChannels, kElementwise, kFm, kCrossV1Closed, kTail, kCopy };

/// One op, or a copy that a product needs of its input.
struct Node {
  NodeKind kind = NodeKind::kCopy;
  int32_t op = -1;
  int32_t level = 0;
  std::vector<Ref> in;        // in the op's order
  std::vector<Ref> out;       // may be absent
  std::vector<int32_t> kept;  // per out: number in BatchModel::outputs, -1
};

/// One field, scalar table or tensor that the gather brings; `vec`: of the op's numeric vectors, -1.
struct Fetch {
  Ref dst;
  int32_t input = 0;   // number in BatchModel::inputs
  int32_t table = -1;  // number in BatchModel::tables
  bool one_id = false;
  int32_t op = -1;
  int32_t vec = -1;
  kernels::EmbedAttrs embed;

  bool is_bag() const { return table >= 0 && !one_id; }
};

/// One summand of a lookup's channels; x: what a fetch brought.
struct ChannelTerm {
  enum class Kind : int32_t { kScalar, kNumeric, kFm };
  Kind kind = Kind::kScalar;
  Ref x;
  int32_t first_channel = 0;  // scalar
  int32_t coef = 0;           // numeric
  int32_t vec = -1;           // FM: of a numeric that is not copied; x is its one value
};
struct Lookup {
  int32_t op = -1;
  std::vector<ChannelTerm> terms;
};

/// Operand `index` of call `op`.
struct Source {
  int32_t op = 0;
  int32_t index = 0;
};

struct BatchModel {
  std::vector<OwnedOp> ops;
  std::vector<BatchValue> values;
  std::vector<Fetch> fetches;
  std::vector<Lookup> lookups;
  std::vector<Node> nodes;
  std::vector<Source> inputs;
  std::vector<Source> tables;
  std::vector<Source> outputs;
  int32_t n_levels = 0;
  /// Inputs of a call may lie in mapped host memory: the gather reads each word of them once.
  bool in_place = false;

  const Lookup& lookup_of(int32_t op) const;
  /// Elements of the weights of all products.
  int64_t weights() const;
  /// Columns of an input that the gather stages when the model is in place: of what is read, all but bags.
  int32_t columns_of(int32_t input) const;
  /// Why the model is not to be in place, "" when it may: a bag's ids are read by many lanes, and behind its
  /// offsets, which would be a second round trip across the bus; and what is staged takes shared memory.
  std::string why_not_in_place() const;
};

/// kSideBySide: nodes that wait for the same are one level, as few barriers as there can be. kOneByOne: a
/// level a node, in an order that keeps few values alive: more barriers, and more shared memory for weights
/// in flight. Inputs, tables and outputs are the same.
enum class Order : int32_t { kSideBySide, kOneByOne };

/// kUnsupported with the op and the reason when the small-batch kernel cannot do what an op asks.
Result<BatchModel> make_model(const dpi_small_batch_desc& desc, Order order);

}  // namespace dpi::backend::small_batch
