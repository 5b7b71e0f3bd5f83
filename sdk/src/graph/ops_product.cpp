// Linear and MatMul: products with weights and between values.
#include "graph/op_table.hpp"

namespace dpi::graph_build {
namespace {

using kernels::LinearAxis;

Result<Dims> infer_grouped(OpContext& c, const Dims& x, const Dims& w, int64_t groups) {
  if (w.rank != 3 || w.d[0] != groups) {
    return c.bad("weight is " + text_of(w) + ", expected [" + std::to_string(groups) + ", out, in]");
  }
  if (x.rank < 2 || (x.at(-2) != 1 && x.at(-2) != groups) || x.at(-1) != w.d[2]) {
    return c.bad("x is " + text_of(x) + ", expected [.., " + std::to_string(groups) + " or 1, " +
                 std::to_string(w.d[2]) + "] for weight " + text_of(w));
  }
  DPI_RETURN_IF_ERROR(c.use_param("bias", append(append({}, groups), w.d[1])));
  return append(append(drop_last(x, 2), groups), w.d[1]);
}

}  // namespace

Result<Dims> infer_linear(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  kernels::LinearAttrs a;
  DPI_ASSIGN_OR_RETURN(a.groups, c.integer("groups", 1));
  DPI_ASSIGN_OR_RETURN(
      a.axis, c.choice<LinearAxis>("axis", {{"last", LinearAxis::kLast}, {"field", LinearAxis::kField}},
                                   LinearAxis::kLast));
  if (a.groups < 1) return c.bad("groups is " + std::to_string(a.groups) + ", expected at least 1");
  c.node().attrs = a;
  DPI_ASSIGN_OR_RETURN(const Dims w, c.param_shape("weight"));
  DPI_RETURN_IF_ERROR(c.use_param("weight"));
  if (a.groups > 1) {
    if (a.axis == LinearAxis::kField) return c.bad("axis 'field' takes no groups");
    return infer_grouped(c, x, w, a.groups);
  }
  if (w.rank != 2) return c.bad("weight is " + text_of(w) + ", expected [out, in]");
  DPI_RETURN_IF_ERROR(c.use_param("bias", append({}, w.d[0])));
  if (a.axis == LinearAxis::kField) {
    if (x.rank < 2 || x.at(-2) != w.d[1]) {
      return c.bad("weight is " + text_of(w) + ", expected [.., " +
                   (x.rank < 2 ? "n" : std::to_string(x.at(-2))) + "] for x " + text_of(x) +
                   " with axis 'field'");
    }
    return append(append(drop_last(x, 2), w.d[0]), x.at(-1));
  }
  if (x.at(-1) != w.d[1]) {
    return c.bad("weight is " + text_of(w) + ", expected [.., " + std::to_string(x.at(-1)) + "] for x " +
                 text_of(x));
  }
  return append(drop_last(x, 1), w.d[0]);
}

Result<Dims> infer_matmul(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims a, c.floats(0));
  DPI_ASSIGN_OR_RETURN(const Dims b, c.floats(1));
  DPI_ASSIGN_OR_RETURN(const bool trans_a, c.flag("trans_a", false));
  DPI_ASSIGN_OR_RETURN(const bool trans_b, c.flag("trans_b", false));
  DPI_ASSIGN_OR_RETURN(const float alpha, c.number("alpha", 1.0f));
  c.node().attrs = kernels::MatMulAttrs{trans_a ? 1 : 0, trans_b ? 1 : 0, alpha};
  const std::string both = "a is " + text_of(a) + ", b is " + text_of(b);
  if (a.rank < 2 || b.rank < 2) return c.bad(both + ", expected at least 2 dims each");
  const int64_t m = a.at(trans_a ? -1 : -2), k = a.at(trans_a ? -2 : -1);
  const int64_t k_of_b = b.at(trans_b ? -1 : -2), n = b.at(trans_b ? -2 : -1);
  if (k != k_of_b) {
    return c.bad(both + ": inner sizes are " + std::to_string(k) + " and " + std::to_string(k_of_b) +
                 ", expected the same");
  }
  const auto leading = broadcast(drop_last(a, 2), drop_last(b, 2));
  if (!leading) return c.bad(both + ": leading dims do not broadcast");
  return append(append(*leading, m), n);
}

}  // namespace dpi::graph_build
