// Softmax and Reduce: ops along one axis, with an optional mask.
#include "graph/op_table.hpp"

namespace dpi::graph_build {
namespace {

using kernels::ReduceKind;
using kernels::SoftmaxMask;

/// A mask has the dims of x up to and including the axis; any other mask broadcasts to x at the right.
Status check_softmax_mask(const OpContext& c, const Dims& x, const Dims& mask, int32_t axis) {
  if (mask == drop_last(x, x.rank - axis - 1)) return ok_status();
  const auto spread = broadcast(x, mask);
  if (spread && *spread == x) return ok_status();
  return c.bad("mask is " + text_of(mask) + ", expected dims that broadcast to x " + text_of(x));
}

}  // namespace

Result<Dims> infer_softmax(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  kernels::SoftmaxAttrs a;
  DPI_ASSIGN_OR_RETURN(a.axis, c.axis(x, -1));
  DPI_ASSIGN_OR_RETURN(a.mask_mode, c.choice<SoftmaxMask>("mask_mode",
                                                          {{"none", SoftmaxMask::kNone},
                                                           {"ninf", SoftmaxMask::kNinf},
                                                           {"add", SoftmaxMask::kAdd},
                                                           {"replace", SoftmaxMask::kReplace}},
                                                          SoftmaxMask::kNone));
  DPI_ASSIGN_OR_RETURN(a.value, c.number("value", -1e9f));
  c.node().attrs = a;
  if ((a.mask_mode != SoftmaxMask::kNone) != (c.n_inputs() == 2)) {
    return c.bad(a.mask_mode == SoftmaxMask::kNone ? "a mask with mask_mode 'none'"
                                                   : "mask_mode without a mask input");
  }
  if (c.n_inputs() == 2) {
    DPI_ASSIGN_OR_RETURN(const Dims mask, c.floats(1));
    DPI_RETURN_IF_ERROR(check_softmax_mask(c, x, mask, a.axis));
  }
  return x;
}

Result<Dims> infer_reduce(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  kernels::ReduceAttrs a;
  DPI_ASSIGN_OR_RETURN(a.kind, c.choice<ReduceKind>("kind", {{"sum", ReduceKind::kSum},
                                                             {"mean", ReduceKind::kMean},
                                                             {"max", ReduceKind::kMax},
                                                             {"sumsq", ReduceKind::kSumSq}}));
  DPI_ASSIGN_OR_RETURN(a.axis, c.axis(x, -1));
  DPI_ASSIGN_OR_RETURN(const bool keepdim, c.flag("keepdim", false));
  DPI_ASSIGN_OR_RETURN(a.eps, c.number("eps", 0.0f));
  DPI_ASSIGN_OR_RETURN(a.empty, c.number("empty", 0.0f));
  a.keepdim = keepdim ? 1 : 0;
  c.node().attrs = a;
  if (x.rank == 1 && !keepdim) return c.bad("x is " + text_of(x) + ": a value of one dim needs keepdim");
  if (c.n_inputs() == 2) {
    DPI_ASSIGN_OR_RETURN(const Dims mask, c.floats(1));
    const Dims expected = drop_last(x, x.rank - a.axis - 1);
    if (!(mask == expected)) return c.bad("mask is " + text_of(mask) + ", expected " + text_of(expected));
  }
  Dims y;
  for (int i = 0; i < x.rank; ++i) {
    if (i != a.axis) y = append(y, x.d[i]);
    if (i == a.axis && keepdim) y = append(y, 1);
  }
  return y;
}

}  // namespace dpi::graph_build
