// Target attention's first layer: a Linear over [q, k, q - k, q k] at every position of a history. The
// columns of a difference go to the columns of what it is taken of, and what repeats along the positions is
// multiplied once per row, by a Linear with two inputs (one op, so that its sum is rounded once, as before):
//
//   W_a q + W_b k + W_c (q - k) + W_d (q k) = [(W_b - W_c) k + W_d (q k)] + (W_a + W_c) q
#include <cmath>
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

/// The vector that v repeats along its positions, else v.
int32_t base_of(const Plan& p, const Index& ix, int32_t v) {
  const PlanOp* op = producer_of(p, ix, v);
  if (!op || op->kind != OpKind::kView) return v;
  if (std::get<kernels::ViewAttrs>(op->attrs).kind != kernels::ViewKind::kExpand) return v;
  const PlanValue& x = value_of(p, op->inputs[0]);
  const bool vector = x.dims.size() == value_of(p, v).dims.at(-1) && x.space != RowSpace::kConstant;
  return vector && x.dims.at(-1) == x.dims.size() ? op->inputs[0] : v;
}

/// Columns [from, from + width) of the layer's input.
struct TargetPiece {
  int32_t value = -1;
  int32_t base = -1;  // base_of(value)
  int64_t from = 0;
  int64_t width = 0;
  bool gone = false;  // a difference whose columns went to others
};

struct TargetLayer {
  std::vector<TargetPiece> pieces;
  std::vector<double> weight;  // [out, in]
  int64_t out = 0, in = 0;
};

bool joins_columns(const Plan& p, const PlanOp* op) {
  return op && op->kind == OpKind::kConcat &&
         std::get<kernels::ConcatAttrs>(op->attrs).axis == value_of(p, op->outputs[0]).dims.rank - 1;
}

/// The layer's columns that hold v, in v's order; false when some of v is not there.
bool find_columns(const Plan& p, const Index& ix, const TargetLayer& layer, int32_t v,
                  std::vector<int64_t>* columns) {
  for (const TargetPiece& piece : layer.pieces) {
    if (piece.gone || (piece.value != v && piece.base != base_of(p, ix, v))) continue;
    for (int64_t k = 0; k < piece.width; ++k) columns->push_back(piece.from + k);
    return true;
  }
  const PlanOp* op = producer_of(p, ix, v);
  if (!joins_columns(p, op)) return false;
  for (const int32_t part : op->inputs) {
    if (!find_columns(p, ix, layer, part, columns)) return false;
  }
  return true;
}

double magnitude(const TargetLayer& layer, int64_t o, const std::vector<int64_t>& columns) {
  double sum = 0;
  for (const int64_t k : columns) sum += std::fabs(layer.weight[static_cast<size_t>(o * layer.in + k)]);
  return sum;
}

/// Near q = k the difference is exact and small, and what takes its place rounds products of its weights with
/// all of q and k: where they are much larger than the weights beside them (limits found with
/// tests/e2e/accuracy), it stays.
bool is_light_spread(const TargetLayer& layer, const std::vector<int64_t>& of, const std::vector<int64_t>& a,
                     const std::vector<int64_t>& b) {
  double difference = 0, beside = 0;
  for (int64_t o = 0; o < layer.out; ++o) {
    const double here = magnitude(layer, o, of);
    const double there = magnitude(layer, o, a) + magnitude(layer, o, b);
    if (!(here <= there)) return false;
    difference += here;
    beside += there;
  }
  return difference <= 0.55 * beside;
}

/// Moves the columns of a piece a - b to those of a and b.
bool spread_difference(Plan& p, const Index& ix, TargetLayer& layer, TargetPiece& piece,
                       const std::string& name) {
  const PlanOp* op = producer_of(p, ix, piece.value);
  if (!op || op->kind != OpKind::kBinary ||
      std::get<kernels::BinaryAttrs>(op->attrs).kind != kernels::BinaryKind::kSub)
    return false;
  std::vector<int64_t> of, a, b;
  for (int64_t k = 0; k < piece.width; ++k) of.push_back(piece.from + k);
  if (!find_columns(p, ix, layer, op->inputs[0], &a) || !find_columns(p, ix, layer, op->inputs[1], &b))
    return false;
  if (a.size() != of.size() || b.size() != of.size()) return false;
  if (!is_light_spread(layer, of, a, b)) {
    p.notes.push_back("fold: '" + name + "' keeps its difference, whose weights are the larger ones");
    return false;
  }
  for (int64_t o = 0; o < layer.out; ++o) {
    double* const row = layer.weight.data() + o * layer.in;
    for (size_t k = 0; k < of.size(); ++k) {
      row[a[k]] += row[of[k]];
      row[b[k]] -= row[of[k]];
    }
  }
  piece.gone = true;
  return true;
}

/// Some of the pieces side by side, or their bases; the value itself where it is one.
int32_t join(Plan& p, const PlanOp& linear, const std::vector<TargetPiece>& pieces, bool bases) {
  const auto value = [bases](const TargetPiece& piece) { return bases ? piece.base : piece.value; };
  if (pieces.size() == 1) return value(pieces[0]);
  PlanOp op;
  Dims dims = value_of(p, value(pieces[0])).dims;
  dims.d[dims.rank - 1] = 0;
  for (const TargetPiece& piece : pieces) {
    op.inputs.push_back(value(piece));
    dims.d[dims.rank - 1] += piece.width;
  }
  op.kind = OpKind::kConcat;
  op.name = linear.name + (bases ? "/once" : "/places");
  op.module = linear.module;
  op.attrs = kernels::ConcatAttrs{dims.rank - 1};
  const int32_t joined = add_value(p, op.name, dims, value_of(p, linear.outputs[0]).space);
  op.outputs = {joined};
  p.ops.push_back(std::move(op));
  return joined;
}

/// The weight's columns of these pieces, one after the other.
int32_t weight_of(Plan& p, const PlanOp& linear, const TargetLayer& layer,
                  const std::vector<TargetPiece>& pieces) {
  std::vector<float> weight;
  for (int64_t o = 0; o < layer.out; ++o) {
    for (const TargetPiece& piece : pieces) {
      const double* const from = layer.weight.data() + o * layer.in + piece.from;
      for (int64_t k = 0; k < piece.width; ++k) weight.push_back(static_cast<float>(from[k]));
    }
  }
  const int64_t width = static_cast<int64_t>(weight.size()) / layer.out;
  return add_param(p, linear.name + ".weight", dims_of({layer.out, width}), std::move(weight));
}

TargetLayer read_layer(const Plan& p, const Index& ix, const PlanOp& linear, const PlanOp& concat) {
  const PlanParam& w = param_of(p, linear.params[0]);
  TargetLayer layer;
  layer.out = w.dims.d[0];
  layer.in = w.dims.d[1];
  layer.weight.assign(w.data.begin(), w.data.end());
  int64_t at = 0;
  for (const int32_t v : concat.inputs) {
    const int64_t width = value_of(p, v).dims.at(-1);
    layer.pieces.push_back({v, base_of(p, ix, v), at, width, false});
    at += width;
  }
  return layer;
}

bool reads_positions(const Plan& p, const Index& ix, const PlanOp& op) {
  if (op.kind != OpKind::kLinear) return false;
  const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
  const int32_t x = op.inputs[0];
  const Dims& dims = value_of(p, x).dims;
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast && dims.size() > dims.at(-1) &&
         joins_columns(p, producer_of(p, ix, x)) && ix.single_use(x);
}

void try_layer(Plan& p, const Index& ix, size_t i) {
  const PlanOp linear = p.ops[i];
  TargetLayer layer = read_layer(p, ix, linear, *producer_of(p, ix, linear.inputs[0]));
  int spread = 0;
  for (TargetPiece& piece : layer.pieces)
    spread += spread_difference(p, ix, layer, piece, linear.name) ? 1 : 0;
  std::vector<TargetPiece> once, positions;
  for (const TargetPiece& piece : layer.pieces) {
    if (!piece.gone) (piece.base == piece.value ? positions : once).push_back(piece);
  }
  for (const TargetPiece& piece : once) {  // they stand side by side
    if (value_of(p, piece.base).dims.rank != value_of(p, once[0].base).dims.rank) return;
  }
  if (positions.empty() || (once.empty() && spread == 0)) return;
  PlanOp made = linear;
  made.inputs = {join(p, linear, positions, false)};
  if (!once.empty()) made.inputs.push_back(join(p, linear, once, true));
  positions.insert(positions.end(), once.begin(), once.end());
  made.params[0] = weight_of(p, linear, layer, positions);
  p.ops[i] = std::move(made);
  p.notes.push_back("fold: '" + linear.name + "' over " + std::to_string(layer.pieces.size()) +
                    " pieces: " + std::to_string(spread) + " differences spread, " +
                    std::to_string(once.size()) + " multiplied once per row");
}

}  // namespace

Result<Plan> fold_target(Plan p) {
  const Index ix = index_of(p);
  const size_t n = p.ops.size();
  for (size_t i = 0; i < n; ++i) {
    if (reads_positions(p, ix, p.ops[i])) try_layer(p, ix, i);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
