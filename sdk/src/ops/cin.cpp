// Cin: sums of products of every two fields, one layer of compressed interactions.
#include <dpi/kernels/cin.hpp>

#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

using kernels::CinAttrs;
using kernels::UnaryKind;

namespace {

/// Fields of a value whose last extent is `dim`.
int64_t fields_of(const Dims& d, int64_t dim) { return dim == 0 ? 0 : d.size() / dim; }

}  // namespace

Status check_cin(const OpChecker& c) {
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.require(c.out(0).rank == 2, "the output", text_of(c.out(0)), "[out, dim]"));
  const int64_t dim = c.out(0).at(-1), m = fields_of(c.in(0), dim);
  DPI_RETURN_IF_ERROR(c.require(c.in(0).at(-1) == dim, "x", text_of(c.in(0)), "vectors of " + number(dim)));
  const bool with_itself = is_absent(c.op().input(1));
  int64_t n = m;
  if (!with_itself) {
    DPI_RETURN_IF_ERROR(c.value("y", c.op().input(1), 1));
    DPI_RETURN_IF_ERROR(c.require(c.in(1).at(-1) == dim, "y", text_of(c.in(1)), "vectors of " + number(dim)));
    n = fields_of(c.in(1), dim);
  }
  const int64_t out = c.out(0).at(-2);
  DPI_RETURN_IF_ERROR(c.param(0, "weight", out * kernels::cin_pairs(m, n, with_itself), true));
  DPI_RETURN_IF_ERROR(c.param(1, "bias", out, false));
  const kernels::UnaryAttrs act = c.op().as<CinAttrs>().act;
  const bool plain = act.kind != UnaryKind::kPrelu && act.kind != UnaryKind::kDice;
  DPI_RETURN_IF_ERROR(c.require(plain, "the function", unary_name(act.kind), "one without parameters"));
  return c.unary_params(act, 2, out);
}

std::string cin_text(const OpText& t) {
  const auto& act = t.as<CinAttrs>().act;
  return act.kind == UnaryKind::kIdentity ? "" : function_text(act);
}

OpWork cin_work(const OpSizes& s) {
  const auto dim = static_cast<double>(s.x.at(-1));
  return {s.weights * dim, s.inputs + s.outputs};
}

}  // namespace ops

kernels::CinArgs cin_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::CinAttrs>(),
          input_tensor(op, call, 0),
          input_tensor(op, call, 1),
          op.param(0),
          op.param(1),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
