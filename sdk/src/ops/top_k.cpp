// TopK: where the largest or smallest entries of an axis are.
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::TopKAttrs;

Result<Dims> infer_top_k(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  TopKAttrs a;
  DPI_ASSIGN_OR_RETURN(a.axis, c.axis(x, -1));
  DPI_ASSIGN_OR_RETURN(a.k, c.integer("k"));
  DPI_ASSIGN_OR_RETURN(const bool largest, c.flag("largest", true));
  a.largest = largest ? 1 : 0;
  const int64_t n = x.d[a.axis];
  if (a.k < 1 || a.k > n)
    return c.bad("k is " + number(a.k) + ", expected 1 to " + number(n) + ", the entries of axis " +
                 number(a.axis));
  c.node().attrs = a;
  return with_extent(x, a.axis, a.k);
}

Status check_top_k(const OpChecker& c) {
  const auto& a = c.op().as<TopKAttrs>();
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.axis(c.in(0), a.axis));
  const int64_t n = c.in(0).d[a.axis];
  DPI_RETURN_IF_ERROR(c.require(a.k >= 1 && a.k <= n, "k", number(a.k), "1 to " + number(n)));
  return c.dims("the output", c.out(0), with_extent(c.in(0), a.axis, a.k));
}

std::string top_k_graph_text(const OpText& t) {
  const auto& a = t.as<TopKAttrs>();
  return field("k", a.k) + field("axis", int64_t{a.axis}) + (a.largest != 0 ? "" : " smallest");
}

std::string top_k_text(const OpText& t) {
  const auto& a = t.as<TopKAttrs>();
  return (a.largest != 0 ? "largest " : "smallest ") + number(a.k) + " of axis " + number(a.axis);
}

}  // namespace ops

kernels::TopKArgs top_k_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::TopKAttrs>(), input_tensor(op, call, 0), output_tensor(op, call, 0)};
}

}  // namespace dpi
