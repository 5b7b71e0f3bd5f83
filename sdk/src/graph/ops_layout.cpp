// Concat and View: ops that only move elements.
#include <algorithm>

#include "base/checked.hpp"
#include "graph/op_table.hpp"

namespace dpi::graph_build {
namespace {

using kernels::ViewAttrs;
using kernels::ViewKind;

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
  const auto dims = dims_of(extents);
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

}  // namespace

Result<Dims> infer_concat(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(Dims y, c.floats(0));
  const Dims first = y;
  DPI_ASSIGN_OR_RETURN(const int32_t axis, c.axis(first, -1));
  c.node().attrs = kernels::ConcatAttrs{axis};
  for (size_t i = 1; i < c.n_inputs(); ++i) {
    DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(i));
    Dims rest = x;
    if (rest.rank == first.rank) rest.d[axis] = first.d[axis];
    if (!(rest == first)) {
      return c.bad("input " + std::to_string(i) + " ('" + c.op().inputs[i] + "') is " + text_of(x) +
                   ", input 0 is " + text_of(first) + ": only axis " + std::to_string(axis) + " may differ");
    }
    const auto sum = checked_add(y.d[axis], x.d[axis]);
    if (!sum) return c.bad("axis " + std::to_string(axis) + " grows beyond every limit");
    y.d[axis] = *sum;
  }
  return y;
}

Result<Dims> infer_view(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  ViewAttrs a;
  DPI_ASSIGN_OR_RETURN(a.kind, c.choice<ViewKind>("kind", {{"reshape", ViewKind::kReshape},
                                                           {"transpose", ViewKind::kTranspose},
                                                           {"slice", ViewKind::kSlice},
                                                           {"index_select", ViewKind::kIndexSelect},
                                                           {"expand", ViewKind::kExpand}}));
  DPI_ASSIGN_OR_RETURN(const Dims y, view_of_kind(c, x, &a));
  c.node().attrs = a;
  return y;
}

}  // namespace dpi::graph_build
