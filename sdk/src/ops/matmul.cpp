// MatMul: products of two values, row by row.
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

Result<Dims> infer_matmul(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims a, c.floats(0));
  DPI_ASSIGN_OR_RETURN(const Dims b, c.floats(1));
  DPI_ASSIGN_OR_RETURN(const bool trans_a, c.flag("trans_a", false));
  DPI_ASSIGN_OR_RETURN(const bool trans_b, c.flag("trans_b", false));
  DPI_ASSIGN_OR_RETURN(const float alpha, c.number("alpha", 1.0f));
  c.node().attrs = kernels::MatMulAttrs{trans_a ? 1 : 0, trans_b ? 1 : 0, alpha, kernels::MatMulPart::kAll};
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

Status check_matmul(const OpChecker& c) {
  const auto& at = c.op().as<kernels::MatMulAttrs>();
  const Dims &a = c.in(0), &b = c.in(1), &y = c.out(0);
  DPI_RETURN_IF_ERROR(c.value("a", c.op().input(0), 2));
  DPI_RETURN_IF_ERROR(c.value("b", c.op().input(1), 2));
  const bool part = at.part != kernels::MatMulPart::kAll;
  DPI_RETURN_IF_ERROR(c.value("the output", c.op().output(0), part ? 1 : 2));
  const int64_t m = a.at(at.trans_a != 0 ? -1 : -2), k = a.at(at.trans_a != 0 ? -2 : -1);
  const int64_t k_b = b.at(at.trans_b != 0 ? -1 : -2), n = b.at(at.trans_b != 0 ? -2 : -1);
  DPI_RETURN_IF_ERROR(c.require(k == k_b, "the inner size of b", std::to_string(k_b), std::to_string(k)));
  if (part) {
    DPI_RETURN_IF_ERROR(c.require(a.rank == 2 && b.rank == 2 && m == n, "a and b",
                                  text_of(a) + " and " + text_of(b), "two matrices, their product square"));
    return c.dims("the output", y, dims_of({m * (m - 1) / 2}));
  }
  DPI_RETURN_IF_ERROR(
      c.require(y.rank == std::max(a.rank, b.rank), "the output", text_of(y), "the rank of a and b"));
  DPI_RETURN_IF_ERROR(c.require(y.at(-2) == m && y.at(-1) == n, "the output", text_of(y),
                                "[.., " + std::to_string(m) + ", " + std::to_string(n) + "]"));
  const bool fits = broadcasts_to(with_extent(with_extent(a, -2, 1), -1, 1), y) &&
                    broadcasts_to(with_extent(with_extent(b, -2, 1), -1, 1), y);
  return c.require(fits, "the output", text_of(y),
                   "the leading dims of a " + text_of(a) + " and b " + text_of(b));
}

std::string matmul_graph_text(const OpText& t) {
  const auto& a = t.as<kernels::MatMulAttrs>();
  std::string s = std::string(a.trans_a != 0 ? " trans_a" : "") + (a.trans_b != 0 ? " trans_b" : "");
  if (a.alpha != 1) s += field("alpha", a.alpha);
  return s;
}

std::string matmul_text(const OpText& t) {
  const kernels::MatMulPart part = t.as<kernels::MatMulAttrs>().part;
  if (part == kernels::MatMulPart::kAll) return "";
  return part == kernels::MatMulPart::kUpper ? "above the diagonal" : "below the diagonal";
}

OpWork matmul_work(const OpSizes& s) {
  const bool trans_a = std::get<kernels::MatMulAttrs>(s.attrs).trans_a != 0;
  const int64_t inner = s.x.rank < 2 ? s.x.size() : s.x.at(trans_a ? -2 : -1);
  return {static_cast<double>(inner) * s.outputs, s.inputs + s.outputs};
}

}  // namespace ops

kernels::MatMulArgs matmul_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::MatMulAttrs>(), input_tensor(op, call, 0), input_tensor(op, call, 1),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
