// View: the same elements in other dims, another order, or some of them.
#include <algorithm>

#include "base/checked.hpp"
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::ViewAttrs;
using kernels::ViewKind;

namespace {

std::optional<int64_t> elements(const Dims& d) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; ++i) {
    const auto product = checked_mul(n, d.d[i]);
    if (!product) return std::nullopt;
    n = *product;
  }
  return n;
}

Result<Dims> read_dims(const OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const auto extents, c.integers("dims"));
  const auto dims = dims_from(extents);
  if (!dims) return c.bad("dims is " + text_of(extents) + ", expected 1 to 5 extents of at least 1");
  return *dims;
}

Result<Dims> view_reshape(OpContext& c, const Dims& x, ViewAttrs* a) {
  DPI_RETURN_IF_ERROR(c.only_attrs({"kind", "dims"}, "kind 'reshape'"));
  DPI_ASSIGN_OR_RETURN(a->dims, read_dims(c));
  if (elements(a->dims) != elements(x))
    return c.bad("x " + text_of(x) + " cannot become " + text_of(a->dims));
  return a->dims;
}

Result<Dims> view_expand(OpContext& c, const Dims& x, ViewAttrs* a) {
  DPI_RETURN_IF_ERROR(c.only_attrs({"kind", "dims"}, "kind 'expand'"));
  DPI_ASSIGN_OR_RETURN(a->dims, read_dims(c));
  const auto spread = broadcast(x, a->dims);
  if (!spread || !(*spread == a->dims))
    return c.bad("x " + text_of(x) + " does not expand to " + text_of(a->dims));
  return a->dims;
}

Result<Dims> view_transpose(OpContext& c, const Dims& x, ViewAttrs* a) {
  DPI_RETURN_IF_ERROR(c.only_attrs({"kind", "perm"}, "kind 'transpose'"));
  DPI_ASSIGN_OR_RETURN(const auto perm, c.integers("perm"));
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool valid = perm.size() == static_cast<size_t>(x.rank);
  for (size_t i = 0; i < sorted.size(); ++i) valid = valid && sorted[i] == static_cast<int64_t>(i);
  if (!valid)
    return c.bad("perm is " + text_of(perm) + ", expected a permutation of the axes of x " + text_of(x));
  Dims y;
  for (const int64_t p : perm) {
    y = append(y, x.d[p]);
    a->dims = append(a->dims, p);
  }
  return y;
}

Result<Dims> view_slice(OpContext& c, const Dims& x, ViewAttrs* a) {
  DPI_RETURN_IF_ERROR(c.only_attrs({"kind", "axis", "begin", "end"}, "kind 'slice'"));
  DPI_ASSIGN_OR_RETURN(a->axis, c.axis(x));
  DPI_ASSIGN_OR_RETURN(a->begin, c.integer("begin"));
  DPI_ASSIGN_OR_RETURN(a->end, c.integer("end"));
  if (a->begin < 0 || a->begin >= a->end || a->end > x.d[a->axis]) {
    return c.bad("slice [" + std::to_string(a->begin) + ", " + std::to_string(a->end) +
                 ") is not inside axis " + std::to_string(a->axis) + " of x " + text_of(x));
  }
  Dims y = x;
  y.d[a->axis] = a->end - a->begin;
  return y;
}

Result<Dims> view_index_select(OpContext& c, const Dims& x, ViewAttrs* a) {
  DPI_RETURN_IF_ERROR(c.only_attrs({"kind", "axis", "indices"}, "kind 'index_select'"));
  DPI_ASSIGN_OR_RETURN(a->axis, c.axis(x));
  DPI_ASSIGN_OR_RETURN(auto indices, c.integers("indices"));
  if (indices.empty()) return c.bad("indices is empty");
  for (const int64_t i : indices) {
    if (i < 0 || i >= x.d[a->axis]) {
      return c.bad("index " + std::to_string(i) + " is outside axis " + std::to_string(a->axis) + " of x " +
                   text_of(x));
    }
  }
  Dims y = x;
  y.d[a->axis] = static_cast<int64_t>(indices.size());
  a->n_indices = y.d[a->axis];
  c.node().indices = std::move(indices);
  return y;
}

Result<Dims> view_of_kind(OpContext& c, const Dims& x, ViewAttrs* a) {
  switch (a->kind) {
    case ViewKind::kReshape:
      return view_reshape(c, x, a);
    case ViewKind::kTranspose:
      return view_transpose(c, x, a);
    case ViewKind::kSlice:
      return view_slice(c, x, a);
    case ViewKind::kIndexSelect:
      return view_index_select(c, x, a);
    case ViewKind::kExpand:
      return view_expand(c, x, a);
  }
  return internal_error("view kind without a rule");
}

Status check_transpose(const OpChecker& c, const Dims& perm, const Dims& x) {
  DPI_RETURN_IF_ERROR(
      c.require(perm.rank == x.rank, "perm", text_of(perm), "one entry per dim of " + text_of(x)));
  Dims y = x;
  uint32_t seen = 0;
  for (int i = 0; i < x.rank; ++i) {
    const bool valid = perm.d[i] >= 0 && perm.d[i] < x.rank && (seen & (1u << perm.d[i])) == 0;
    DPI_RETURN_IF_ERROR(c.require(valid, "perm", text_of(perm), "a permutation"));
    seen |= 1u << perm.d[i];
    y.d[i] = x.d[perm.d[i]];
  }
  return c.dims("the output", c.out(0), y);
}

Status check_picks(const OpChecker& c, const kernels::ViewAttrs& a, const Dims& x) {
  DPI_RETURN_IF_ERROR(c.axis(x, a.axis));
  const int64_t n = x.d[a.axis];
  if (a.kind == kernels::ViewKind::kSlice) {
    const std::string range = std::to_string(a.begin) + " to " + std::to_string(a.end);
    DPI_RETURN_IF_ERROR(c.require(0 <= a.begin && a.begin <= a.end && a.end <= n, "the slice", range,
                                  "inside 0 to " + std::to_string(n)));
    return c.dims("the output", c.out(0), with_extent(x, a.axis, a.end - a.begin));
  }
  for (int64_t i = 0; i < a.n_indices; ++i) {
    DPI_RETURN_IF_ERROR(c.require(a.indices[i] >= 0 && a.indices[i] < n, "an index",
                                  std::to_string(a.indices[i]), "0 to " + std::to_string(n - 1)));
  }
  return c.dims("the output", c.out(0), with_extent(x, a.axis, a.n_indices));
}

}  // namespace

Result<Dims> infer_view(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  ViewAttrs a;
  DPI_ASSIGN_OR_RETURN(a.kind, c.choice<ViewKind>("kind", kViewKinds));
  DPI_ASSIGN_OR_RETURN(const Dims y, view_of_kind(c, x, &a));
  c.node().attrs = a;
  return y;
}

Status check_view(const OpChecker& c) {
  const auto& a = c.op().as<kernels::ViewAttrs>();
  const Dims& x = c.in(0);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  switch (a.kind) {
    case kernels::ViewKind::kReshape:
      return c.require(c.out(0).size() == x.size(), "the output", text_of(c.out(0)),
                       "as many elements as " + text_of(x));
    case kernels::ViewKind::kTranspose:
      return check_transpose(c, a.dims, x);
    case kernels::ViewKind::kExpand:
      return c.require(broadcasts_to(x, c.out(0)), "x", text_of(x),
                       "dims that broadcast to " + text_of(c.out(0)));
    default:
      return check_picks(c, a, x);
  }
}

std::string view_graph_text(const OpText& t) {
  const auto& a = t.as<ViewAttrs>();
  std::string s = field("kind", view_name(a.kind));
  if (a.kind == ViewKind::kTranspose) return s + field("perm", text_of(a.dims));
  if (a.kind == ViewKind::kSlice || a.kind == ViewKind::kIndexSelect) s += field("axis", int64_t{a.axis});
  if (a.kind == ViewKind::kSlice) s += field("begin", a.begin) + field("end", a.end);
  return s;
}

std::string view_text(const OpText& t) {
  const auto& v = t.as<ViewAttrs>();
  const std::string s = view_name(v.kind), axis = " axis " + std::to_string(v.axis);
  if (v.kind == ViewKind::kSlice)
    return s + axis + " [" + std::to_string(v.begin) + "," + std::to_string(v.end) + ")";
  if (v.kind == ViewKind::kIndexSelect)
    return s + axis + ", " + std::to_string(t.arrays.indices.size()) + " indices";
  return s + " " + dims_text(v.dims);
}

}  // namespace ops

kernels::ViewArgs view_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ViewAttrs>(), input_tensor(op, call, 0), output_tensor(op, call, 0)};
}

}  // namespace dpi
