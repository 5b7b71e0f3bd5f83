// Attention: a product of queries and keys, scaled, a softmax over its last axis, and a product with values
// become one op. It reads queries, keys, values and mask where they lie before views moved them apart, and
// writes where views would have put its result.
//
//   MatMul(q, k^T) > [Unary affine | Binary mul, div with a number]* > Softmax [mask] > MatMul(., v)
//
// Scores and weights that anything else reads keep the primitives, and so do values of other rows than the
// result's, numbers that do not lie in evenly spaced vectors, and masks that differ from key to key in
// anything but the last axis.
//
// The format's own op is there already: its operands are read behind the slices that cut them out.
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include <dpi/kernels/index.hpp>

#include "plan/analysis/elements.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

using kernels::AttentionAttrs;
using kernels::HeadLayout;
using kernels::SoftmaxMask;
using kernels::ViewKind;

constexpr int64_t kMostNumbers = 1 << 17;      // of one value; their numbers are exact as floats
constexpr int64_t kMostViewNumbers = 1 << 25;  // that views are run over: what a hostile bundle can ask for
constexpr size_t kMostViews = 8;
constexpr int64_t kFewQueries = 4;  // turning keys for fewer costs more than it gives (as in cpu's MatMul)

int64_t size_of(const Plan& p, int32_t v) { return value_of(p, v).dims.size(); }

// ---- where numbers lie

/// For each number of the view's output the one of its input: the definition run over their numbers.
std::vector<int64_t> moved_by(const Plan& p, const PlanOp& view, int64_t* left) {
  const Dims &from = value_of(p, view.inputs[0]).dims, &to = value_of(p, view.outputs[0]).dims;
  *left -= from.size() + to.size();
  std::vector<float> numbers(static_cast<size_t>(from.size())), positions(static_cast<size_t>(to.size()));
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  OpAttrs attrs = view.attrs;
  view.bind(&attrs);
  kernels::ref::view(
      {std::get<kernels::ViewAttrs>(attrs), tensor_over(numbers, from), tensor_over(positions, to)});
  return {positions.begin(), positions.end()};
}

/// A value that `value` is made of by views, and where each of its numbers lies there.
struct ViewSource {
  int32_t value = -1;
  std::vector<int64_t> at;
};

/// Sources of v, v itself first.
std::vector<ViewSource> sources_of(const Plan& p, const Index& ix, int32_t v, int64_t* left) {
  std::vector<ViewSource> all(1);
  if (size_of(p, v) > kMostNumbers) return {};
  all[0].value = v;
  all[0].at.resize(static_cast<size_t>(size_of(p, v)));
  std::iota(all[0].at.begin(), all[0].at.end(), 0);
  while (all.size() < kMostViews && *left > 0) {
    const PlanOp* view = producer_of(p, ix, all.back().value, OpKind::kView);
    if (view == nullptr || size_of(p, view->inputs[0]) > kMostNumbers) break;
    const std::vector<int64_t> from = moved_by(p, *view, left);
    ViewSource next{view->inputs[0], all.back().at};
    for (int64_t& position : next.at) position = from[static_cast<size_t>(position)];
    all.push_back(std::move(next));
  }
  return all;
}

/// Numbers (h, i, c) of an operand: where they are among its own, and how many of each.
struct Numbers {
  int64_t heads, positions, columns;
  int64_t head, position, column;  // steps

  int64_t of(int64_t h, int64_t i, int64_t c) const { return h * head + i * position + c * column; }
};

/// The layout that `where(number)` follows, if it is one.
template <class Where>
std::optional<HeadLayout> layout_of(const Numbers& n, Where where) {
  HeadLayout l;
  l.first = where(n.of(0, 0, 0));
  if (n.heads > 1) l.head = where(n.of(1, 0, 0)) - l.first;
  if (n.positions > 1) l.position = where(n.of(0, 1, 0)) - l.first;
  if (l.head < 0 || l.position < 0) return std::nullopt;
  for (int64_t h = 0; h < n.heads; ++h) {
    for (int64_t i = 0; i < n.positions; ++i) {
      for (int64_t c = 0; c < n.columns; ++c) {
        if (where(n.of(h, i, c)) != l.at(h, i) + c) return std::nullopt;
      }
    }
  }
  return l;
}

/// The operand [.., positions, columns], or turned [.., columns, positions], of a product of `lead` heads.
std::optional<Numbers> numbers_of(const Dims& d, const Dims& scores, int64_t heads, bool turned) {
  int64_t own = 1;
  for (int i = 0; i + 2 < d.rank; ++i) own *= d.d[i];
  bool same = d.rank == scores.rank;
  for (int i = 0; same && i + 2 < d.rank; ++i) same = d.d[i] == scores.d[i];
  if (!same && own != 1) return std::nullopt;
  const int64_t positions = d.at(turned ? -1 : -2), columns = d.at(turned ? -2 : -1);
  const int64_t head = own == 1 ? 0 : positions * columns;
  return Numbers{heads, positions, columns, head, turned ? 1 : columns, turned ? positions : 1};
}

struct Operand {
  int32_t value = -1;
  HeadLayout layout;
};

/// The operand where it lay before as many views as the layout bears.
std::optional<Operand> operand_of(const Plan& p, const Index& ix, int32_t v, const Numbers& n,
                                  int64_t* left) {
  const std::vector<ViewSource> all = sources_of(p, ix, v, left);
  for (size_t k = all.size(); k-- > 0;) {
    const auto layout = layout_of(n, [&](int64_t number) { return all[k].at[static_cast<size_t>(number)]; });
    if (layout) return Operand{all[k].value, *layout};
  }
  return std::nullopt;
}

// ---- the ops

struct Found {
  AttentionAttrs attrs;
  int32_t q = -1, k = -1, v = -1, mask = -1, y = -1;
  std::vector<int32_t> ops;  // all, the last product at the end
  int64_t* left = nullptr;   // of kMostViewNumbers
};

int32_t number_of(const Plan& p, const PlanOp* op) { return static_cast<int32_t>(op - p.ops.data()); }

/// Takes the op before v into the scale; null where it is none, or others read v.
const PlanOp* scaling_before(const Plan& p, const Index& ix, int32_t v, double* scale) {
  if (const PlanOp* op = producer_of(p, ix, v, OpKind::kUnary)) {
    const auto& a = std::get<kernels::UnaryAttrs>(op->attrs);
    const bool plain = a.kind == kernels::UnaryKind::kAffine && op->params[0] < 0 && op->params[1] < 0;
    if (!plain || a.b != 0.0f) return nullptr;
    *scale *= a.a;
    return op;
  }
  const PlanOp* op = producer_of(p, ix, v, OpKind::kBinary);
  if (op == nullptr || !(value_of(p, op->inputs[0]).dims == value_of(p, v).dims)) return nullptr;
  const auto kind = std::get<kernels::BinaryAttrs>(op->attrs).kind;
  double factor = 1;
  if (!scalar_const(p, op->inputs[1], &factor)) return nullptr;
  if (kind != kernels::BinaryKind::kMul && kind != kernels::BinaryKind::kDiv) return nullptr;
  *scale *= kind == kernels::BinaryKind::kMul ? factor : 1 / factor;
  return op;
}

bool is_whole_product(const PlanOp* op) {
  return op && std::get<kernels::MatMulAttrs>(op->attrs).part == kernels::MatMulPart::kAll;
}

/// The product that the softmax's scores are, scaled.
const PlanOp* scores_of(const Plan& p, const Index& ix, const PlanOp& softmax, Found* f) {
  double scale = 1;
  int32_t v = softmax.inputs[0];
  const PlanOp* product = nullptr;
  for (size_t steps = 0; steps < kMostViews && ix.single_use(v); ++steps) {
    product = producer_of(p, ix, v, OpKind::kMatMul);
    if (product != nullptr) break;
    const PlanOp* op = scaling_before(p, ix, v, &scale);
    if (op == nullptr) return nullptr;
    f->ops.push_back(number_of(p, op));
    v = op->inputs[0];
  }
  if (!is_whole_product(product)) return nullptr;
  f->attrs.scale = static_cast<float>(scale * std::get<kernels::MatMulAttrs>(product->attrs).alpha);
  return std::isfinite(f->attrs.scale) ? product : nullptr;
}

bool take_operands(const Plan& p, const Index& ix, const PlanOp& product, const PlanOp& weighted, Found* f) {
  const Dims &scores = value_of(p, product.outputs[0]).dims, &y = value_of(p, weighted.outputs[0]).dims;
  AttentionAttrs& a = f->attrs;
  if (y.rank != scores.rank || scores.size() < 1) return false;
  for (int i = 0; i + 2 < y.rank; ++i) {
    if (y.d[i] != scores.d[i]) return false;
    a.heads *= y.d[i];
  }
  const auto &first = std::get<kernels::MatMulAttrs>(product.attrs),
             &second = std::get<kernels::MatMulAttrs>(weighted.attrs);
  const int32_t values[] = {product.inputs[0], product.inputs[1], weighted.inputs[1]};
  const bool turned[] = {first.trans_a != 0, first.trans_b == 0, second.trans_b != 0};
  Operand found[3];
  Numbers n[3];
  for (size_t k = 0; k < 3; ++k) {
    const auto numbers = numbers_of(value_of(p, values[k]).dims, scores, a.heads, turned[k]);
    const auto operand = numbers ? operand_of(p, ix, values[k], *numbers, f->left) : std::nullopt;
    if (!operand) return false;
    found[k] = *operand;
    n[k] = *numbers;
  }
  a.queries = n[0].positions;
  a.keys = n[1].positions;
  a.dim = n[0].columns;
  a.value_dim = n[2].columns;
  a.q = found[0].layout;
  a.k = found[1].layout;
  a.v = found[2].layout;
  f->q = found[0].value;
  f->k = found[1].value;
  f->v = found[2].value;
  return a.keys <= kernels::kMaxAttentionKeys && a.queries >= kFewQueries;
}

bool take_mask(const Plan& p, const Index& ix, const PlanOp& softmax, Found* f) {
  const auto& s = std::get<kernels::SoftmaxAttrs>(softmax.attrs);
  const Dims& x = value_of(p, softmax.inputs[0]).dims;
  if (s.axis != x.rank - 1) return false;
  f->attrs.mask_mode = s.mask_mode;
  f->attrs.value = s.value;
  if (s.mask_mode == SoftmaxMask::kNone) return true;
  const AttentionAttrs& a = f->attrs;
  const Dims& mask = value_of(p, softmax.inputs[1]).dims;
  if (x.size() > kMostNumbers || mask.at(-1) != a.keys) return false;
  const Numbers n{a.heads, a.queries, a.keys, a.queries * a.keys, a.keys, 1};
  const std::vector<ViewSource> all = sources_of(p, ix, softmax.inputs[1], f->left);
  for (size_t k = all.size(); k-- > 0;) {
    const auto layout = layout_of(n, [&](int64_t number) {
      return all[k].at[static_cast<size_t>(kernels::broadcast_offset(x, number, mask))];
    });
    if (!layout || layout->first != 0) continue;
    f->mask = all[k].value;
    f->attrs.mask_head = layout->head;
    f->attrs.mask_query = layout->position;
    return true;
  }
  return false;
}

/// Where the result goes: behind the last view that only moves it and leaves its vectors whole.
bool take_result(const Plan& p, const Index& ix, const PlanOp& weighted, Found* f) {
  const AttentionAttrs& a = f->attrs;
  const Numbers n{a.heads, a.queries, a.value_dim, a.queries * a.value_dim, a.value_dim, 1};
  std::vector<int64_t> at(static_cast<size_t>(size_of(p, weighted.outputs[0])));
  if (static_cast<int64_t>(at.size()) > kMostNumbers) return false;
  std::iota(at.begin(), at.end(), 0);
  std::vector<int32_t> views;
  size_t kept = 0;
  f->y = weighted.outputs[0];
  f->attrs.y = *layout_of(n, [](int64_t number) { return number; });
  for (int32_t v = f->y; views.size() < kMostViews && *f->left > 0;
       v = p.ops[static_cast<size_t>(views.back())].outputs[0]) {
    const PlanOp* view = only_user(p, ix, v, OpKind::kView);
    if (view == nullptr) break;
    const ViewKind kind = std::get<kernels::ViewAttrs>(view->attrs).kind;
    if (kind != ViewKind::kReshape && kind != ViewKind::kTranspose) break;
    views.push_back(number_of(p, view));
    const std::vector<int64_t> from = moved_by(p, *view, f->left);
    std::vector<int64_t> to(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[static_cast<size_t>(from[i])] = static_cast<int64_t>(i);
    for (int64_t& position : at) position = to[static_cast<size_t>(position)];
    const auto layout = layout_of(n, [&](int64_t number) { return at[static_cast<size_t>(number)]; });
    if (!layout) continue;
    f->attrs.y = *layout;
    f->y = view->outputs[0];
    kept = views.size();
  }
  f->ops.insert(f->ops.end(), views.begin(), views.begin() + static_cast<std::ptrdiff_t>(kept));
  return true;
}

/// Rows of all that is read are the result's, or one row for all.
bool same_rows(const Plan& p, const Found& f) {
  const RowSpace space = value_of(p, f.y).space;
  if (space == RowSpace::kConstant) return false;
  for (const int32_t v : {f.q, f.k, f.v, f.mask}) {
    if (v < 0) continue;
    const PlanValue& value = value_of(p, v);
    if (value.is_bags || (value.space != space && value.space != RowSpace::kConstant)) return false;
  }
  return true;
}

std::optional<Found> attention_at(const Plan& p, const Index& ix, const PlanOp& softmax, int64_t* left) {
  const PlanOp* weighted = only_user(p, ix, softmax.outputs[0], OpKind::kMatMul);
  if (!is_whole_product(weighted) || weighted->inputs[0] != softmax.outputs[0]) return std::nullopt;
  const auto& w = std::get<kernels::MatMulAttrs>(weighted->attrs);
  if (w.trans_a != 0 || w.alpha != 1.0f) return std::nullopt;
  Found f;
  f.left = left;
  const PlanOp* product = scores_of(p, ix, softmax, &f);
  if (product == nullptr || !take_operands(p, ix, *product, *weighted, &f)) return std::nullopt;
  if (!take_mask(p, ix, softmax, &f) || !take_result(p, ix, *weighted, &f) || !same_rows(p, f))
    return std::nullopt;
  f.ops.push_back(number_of(p, product));
  f.ops.push_back(number_of(p, &softmax));
  f.ops.push_back(number_of(p, weighted));
  return f;
}

void emit(Plan& p, const Found& f) {
  PlanOp& last = p.ops[static_cast<size_t>(f.ops.back())];
  PlanOp op;
  op.kind = OpKind::kAttention;
  op.name = last.name;
  op.module = last.module;
  op.attrs = f.attrs;
  op.inputs = {f.q, f.k, f.v};
  if (f.mask >= 0) op.inputs.push_back(f.mask);
  op.outputs = {f.y};
  for (const int32_t i : f.ops) kill(p.ops[static_cast<size_t>(i)]);
  last = std::move(op);
  p.notes.push_back("attention: '" + last.name + "', " + std::to_string(f.attrs.heads) + " heads of " +
                    std::to_string(f.attrs.queries) + " x " + std::to_string(f.attrs.keys));
}

// ---- the format's op

/// The operand behind a view that leaves it evenly spaced: a reshape, or a slice that has whole positions of
/// it.
bool pass_view(const Plan& p, const Index& ix, int64_t heads, int64_t columns, int32_t* v, HeadLayout* l) {
  const PlanOp* view = producer_of(p, ix, *v, OpKind::kView);
  if (view == nullptr) return false;
  const auto& a = std::get<kernels::ViewAttrs>(view->attrs);
  const Dims& from = value_of(p, view->inputs[0]).dims;
  if (a.kind == ViewKind::kSlice) {
    int64_t inner = 1;
    for (int i = a.axis + 1; i < from.rank; ++i) inner *= from.d[i];
    const bool whole =
        l->position == (a.end - a.begin) * inner && l->at(heads - 1, 0) + columns <= l->position;
    if (!whole) return false;
    l->first += a.begin * inner;
    l->position = from.d[a.axis] * inner;
  } else if (a.kind != ViewKind::kReshape) {
    return false;
  }
  *v = view->inputs[0];
  return true;
}

/// Queries, keys and values of the format's op are read where they lay before views cut them out.
void read_behind_views(const Plan& p, const Index& ix, PlanOp* op) {
  auto& a = std::get<AttentionAttrs>(op->attrs);
  const auto move = [&](size_t i, int64_t columns, HeadLayout* l) {
    for (size_t k = 0; k < kMostViews && pass_view(p, ix, a.heads, columns, &op->inputs[i], l); ++k) {
    }
  };
  move(0, a.dim, &a.q);
  move(1, a.dim, &a.k);
  move(2, a.value_dim, &a.v);
}

}  // namespace

Result<Plan> recognise_attention(Plan p) {
  const Index ix = index_of(p);
  for (PlanOp& op : p.ops) {
    if (op.kind == OpKind::kAttention) read_behind_views(p, ix, &op);
  }
  std::vector<Found> all;
  int64_t left = kMostViewNumbers;
  for (const PlanOp& op : p.ops) {
    if (op.kind != OpKind::kSoftmax) continue;
    if (auto found = attention_at(p, ix, op, &left)) all.push_back(std::move(*found));
  }
  for (const Found& f : all) emit(p, f);
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
