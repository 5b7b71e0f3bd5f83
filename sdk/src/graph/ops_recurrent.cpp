// Recurrent: GRU and its attention forms.
#include "graph/op_table.hpp"

namespace dpi::graph_build {
namespace {

using kernels::RecurrentAttrs;
using kernels::RecurrentKind;
using kernels::RecurrentOutput;
using kernels::ResetGate;

Result<RecurrentAttrs> read_attrs(const OpContext& c) {
  RecurrentAttrs a;
  DPI_ASSIGN_OR_RETURN(a.kind, c.choice<RecurrentKind>("kind", {{"gru", RecurrentKind::kGru},
                                                                {"agru", RecurrentKind::kAgru},
                                                                {"augru", RecurrentKind::kAugru},
                                                                {"vecatt", RecurrentKind::kVecAtt}}));
  DPI_ASSIGN_OR_RETURN(
      a.reset, c.choice<ResetGate>("reset", {{"after", ResetGate::kAfter}, {"before", ResetGate::kBefore}}));
  DPI_ASSIGN_OR_RETURN(a.output, c.choice<RecurrentOutput>("output", {{"last", RecurrentOutput::kLast},
                                                                      {"all", RecurrentOutput::kAll}}));
  return a;
}

}  // namespace

Result<Dims> infer_recurrent(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const RecurrentAttrs a, read_attrs(c));
  c.node().attrs = a;
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  if (x.rank != 2) return c.bad("x is " + text_of(x) + ", expected [T, i]");
  const size_t expected_inputs = a.kind == RecurrentKind::kGru ? 2 : 3;
  if (c.n_inputs() != expected_inputs) {
    return c.bad(std::to_string(c.n_inputs()) + " inputs, this kind takes " +
                 std::to_string(expected_inputs));
  }
  const Dims steps = append({}, x.d[0]);
  for (size_t i = 1; i < c.n_inputs(); ++i) {
    DPI_ASSIGN_OR_RETURN(const Dims per_step, c.floats(i));
    if (!(per_step == steps)) {
      return c.bad(std::string(i == 1 ? "mask" : "att") + " is " + text_of(per_step) + ", expected " +
                   text_of(steps));
    }
  }
  DPI_ASSIGN_OR_RETURN(const Dims w, c.param_shape("w_hidden"));
  const bool is_square = w.rank == 2 && w.d[0] % 3 == 0 && w.d[0] / 3 == w.d[1];
  if (!is_square) return c.bad("w_hidden is " + text_of(w) + ", expected [3 m, m]");
  DPI_RETURN_IF_ERROR(c.use_param("w_input", append(append({}, w.d[0]), x.d[1])));
  DPI_RETURN_IF_ERROR(c.use_param("w_hidden"));
  DPI_RETURN_IF_ERROR(c.use_param("b_input", append({}, w.d[0])));
  DPI_RETURN_IF_ERROR(c.use_param("b_hidden", append({}, w.d[0])));
  if (a.output == RecurrentOutput::kAll) return append(steps, w.d[1]);
  return append({}, w.d[1]);
}

}  // namespace dpi::graph_build
