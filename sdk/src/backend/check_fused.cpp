// Shape checks of the fused forms, and of a call's operands.
#include "backend/check_op.hpp"
#include "backend/op_checker.hpp"

namespace dpi::backend {

using kernels::Dims;

namespace {

std::string number(int64_t n) { return std::to_string(n); }

// Columns [first, first + n) lie within `total`.
Status check_columns(const OpChecker& c, const char* what, int64_t first, int64_t n, int64_t total) {
  return c.require(first >= 0 && n >= 0 && first + n <= total, what,
                   number(first) + " to " + number(first + n), "inside 0 to " + number(total));
}

Status check_sources(const OpChecker& c, int32_t input, int32_t table) {
  const auto n_in = static_cast<int32_t>(c.op().inputs.size());
  const auto n_tables = static_cast<int32_t>(c.op().tables.size());
  DPI_RETURN_IF_ERROR(
      c.require(input >= 0 && input < n_in, "a field's input", number(input), "below " + number(n_in)));
  DPI_RETURN_IF_ERROR(c.require(table >= 0 && table < n_tables, "a field's table", number(table),
                                "below " + number(n_tables)));
  return c.bags("a field's input", c.op().input(static_cast<size_t>(input)));
}

Status check_field(const OpChecker& c, const kernels::MultiLookupAttrs& a, const kernels::LookupField& f) {
  DPI_RETURN_IF_ERROR(check_sources(c, f.input, f.table));
  DPI_RETURN_IF_ERROR(
      c.require(f.embed.pooling != kernels::Pooling::kNone, "a field's pooling", "none", "a pooled form"));
  const int64_t dim = c.op().tables[static_cast<size_t>(f.table)].dim;
  if (f.out_col >= 0)
    DPI_RETURN_IF_ERROR(check_columns(c, "a field's columns", f.out_col, dim, c.out(0).size()));
  const bool in_fm = f.fm != kernels::FmRole::kNone;
  return c.require(!in_fm || dim == a.fm_dim, "an FM field's dim", number(dim), number(a.fm_dim));
}

Status check_scalar(const OpChecker& c, const kernels::MultiLookupAttrs& a, const kernels::ScalarField& f) {
  DPI_RETURN_IF_ERROR(check_sources(c, f.input, f.table));
  const int64_t dim = c.op().tables[static_cast<size_t>(f.table)].dim;
  DPI_RETURN_IF_ERROR(
      c.require(f.count <= dim, "a scalar field's count", number(f.count), "at most " + number(dim)));
  return check_columns(c, "a scalar field's channels", f.first_channel, f.count, a.n_channels);
}

Status check_numeric(const OpChecker& c, const kernels::MultiLookupAttrs& a, const kernels::NumericField& f) {
  const auto n_in = static_cast<int32_t>(c.op().inputs.size());
  DPI_RETURN_IF_ERROR(c.require(f.input >= 0 && f.input < n_in, "a numeric field's input", number(f.input),
                                "below " + number(n_in)));
  const dpi_value_desc& x = c.op().input(static_cast<size_t>(f.input));
  DPI_RETURN_IF_ERROR(c.value("a numeric field's input", x, 1));
  const int64_t vec_size = c.op().param(0).data != nullptr ? c.op().param(0).dims.size() : 0;
  const int64_t coef_size = c.op().param(1).data != nullptr ? c.op().param(1).dims.size() : 0;
  if (f.vec >= 0) DPI_RETURN_IF_ERROR(check_columns(c, "a numeric vector", f.vec, f.dim, vec_size));
  if (f.vec < 0)
    DPI_RETURN_IF_ERROR(c.require(f.dim <= x.dims.size(), "a numeric field's dim", number(f.dim),
                                  "at most " + number(x.dims.size())));
  if (f.coef >= 0)
    DPI_RETURN_IF_ERROR(check_columns(c, "numeric coefficients", f.coef, 2 * a.n_channels, coef_size));
  if (f.out_col >= 0)
    DPI_RETURN_IF_ERROR(check_columns(c, "a numeric field's columns", f.out_col, f.dim, c.out(0).size()));
  const bool in_fm = f.fm != kernels::FmRole::kNone;
  return c.require(!in_fm || f.dim == a.fm_dim, "an FM numeric's dim", number(f.dim), number(a.fm_dim));
}

Status check_no_output(const OpChecker& c, const char* what, size_t i) {
  return c.require(is_absent(c.op().output(i)), what, text_of(c.out(i)), "absent");
}

}  // namespace

Status check_multi_lookup(const OpChecker& c) {
  const auto& a = c.op().as<kernels::MultiLookupAttrs>();
  if (a.n_channels > 0) {
    DPI_RETURN_IF_ERROR(c.dims("chan", c.out(1), dims_of({a.n_channels})));
  } else {
    DPI_RETURN_IF_ERROR(check_no_output(c, "chan", 1));
  }
  DPI_RETURN_IF_ERROR(c.param(2, "channel_bias", a.n_channels, false));
  DPI_RETURN_IF_ERROR(c.require(a.fm_channel < a.n_channels, "fm_channel", number(a.fm_channel),
                                "below " + number(a.n_channels)));
  for (int32_t i = 0; i < a.n_fields; ++i) DPI_RETURN_IF_ERROR(check_field(c, a, a.fields[i]));
  for (int32_t i = 0; i < a.n_scalars; ++i) DPI_RETURN_IF_ERROR(check_scalar(c, a, a.scalars[i]));
  for (int32_t i = 0; i < a.n_numerics; ++i) DPI_RETURN_IF_ERROR(check_numeric(c, a, a.numerics[i]));
  return ok_status();
}

Status check_dense(const OpChecker& c) {
  const auto& a = c.op().as<kernels::DenseAttrs>();
  const Dims w = c.op().param(0).dims;
  DPI_RETURN_IF_ERROR(c.require(w.rank == 2, "weight", text_of(w), "[out, in]"));
  DPI_RETURN_IF_ERROR(c.param(0, "weight", w.size(), true));
  DPI_RETURN_IF_ERROR(c.param(1, "bias", w.d[0], false));
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(
      c.require(c.in(0).size() == w.d[1], "x", text_of(c.in(0)), number(w.d[1]) + " elements"));
  DPI_RETURN_IF_ERROR(
      c.require(c.out(0).size() == w.d[0], "the output", text_of(c.out(0)), number(w.d[0]) + " elements"));
  for (size_t i = 1; i <= 2; ++i) {
    if (is_absent(c.op().input(i))) continue;
    const char* what = i == 1 ? "mul" : "add";
    DPI_RETURN_IF_ERROR(c.value(what, c.op().input(i), 1));
    DPI_RETURN_IF_ERROR(
        c.require(c.in(i).size() == w.d[0], what, text_of(c.in(i)), number(w.d[0]) + " elements"));
  }
  int64_t next = 0;
  for (int32_t s = 0; s < a.n_segments; ++s) {
    const kernels::DenseSegment& g = a.segments[s];
    DPI_RETURN_IF_ERROR(
        c.require(g.begin == next && g.end >= g.begin, "a segment's begin", number(g.begin), number(next)));
    DPI_RETURN_IF_ERROR(check_unary_params(c, g.act, 2, w.d[0]));
    next = g.end;
  }
  return c.require(next == w.d[0], "the end of the last segment", number(next), number(w.d[0]));
}

Status check_elementwise(const OpChecker& c) {
  const auto& a = c.op().as<kernels::ElementwiseAttrs>();
  const auto n_in = static_cast<int64_t>(c.op().inputs.size());
  DPI_RETURN_IF_ERROR(c.require(a.n_inputs == n_in && n_in >= 1 && n_in <= kernels::kMaxElementwiseInputs,
                                "n_inputs", number(a.n_inputs),
                                "the op's " + number(n_in) + " inputs, 1 to 8"));
  DPI_RETURN_IF_ERROR(c.require(a.n_steps >= 1 && a.n_steps <= kernels::kMaxElementwiseSteps, "n_steps",
                                number(a.n_steps), "1 to 16"));
  for (size_t i = 0; i < c.op().inputs.size(); ++i) {
    DPI_RETURN_IF_ERROR(c.value("an input", c.op().input(i), 1));
    DPI_RETURN_IF_ERROR(c.require(broadcasts_to(c.in(i), c.out(0)), "an input", text_of(c.in(i)),
                                  "dims that broadcast to " + text_of(c.out(0))));
  }
  for (int32_t k = 0; k < a.n_steps; ++k) {
    const kernels::ElementwiseStep& s = a.steps[k];
    const int32_t known = a.n_inputs + k;
    DPI_RETURN_IF_ERROR(
        c.require(s.x >= 0 && s.x < known, "a step's x", number(s.x), "below " + number(known)));
    if (s.is_binary != 0)
      DPI_RETURN_IF_ERROR(
          c.require(s.y >= 0 && s.y < known, "a step's y", number(s.y), "below " + number(known)));
    const size_t first = s.param >= 0 && s.n_params > 0 ? static_cast<size_t>(s.param) : c.op().params.size();
    if (s.is_binary == 0) DPI_RETURN_IF_ERROR(check_unary_params(c, s.unary, first, c.out(0).at(-1)));
  }
  return ok_status();
}

Status check_cross_v1(const OpChecker& c) {
  const int64_t layers = c.op().as<kernels::CrossV1Attrs>().layers;
  DPI_RETURN_IF_ERROR(c.require(layers >= 1, "layers", number(layers), "1 or more"));
  DPI_RETURN_IF_ERROR(c.value("x0", c.op().input(0), 1));
  const int64_t n = c.in(0).size();
  DPI_RETURN_IF_ERROR(c.param(0, "w", layers * n, true));
  DPI_RETURN_IF_ERROR(c.param(1, "b", layers * n, true));
  return c.require(c.out(0).size() == n, "the output", text_of(c.out(0)), number(n) + " elements");
}

Status check_cross_v1_closed(const OpChecker& c) {
  const int64_t layers = c.op().as<kernels::CrossV1Attrs>().layers;
  DPI_RETURN_IF_ERROR(c.require(layers >= 1, "layers", number(layers), "1 or more"));
  DPI_RETURN_IF_ERROR(c.value("p", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(
      c.require(c.in(0).size() == layers + 1, "p", text_of(c.in(0)), number(layers + 1) + " elements"));
  DPI_RETURN_IF_ERROR(c.param(0, "k", layers, true));
  DPI_RETURN_IF_ERROR(c.param(1, "y0", 1, true));
  return c.require(c.out(0).size() == 1, "the output", text_of(c.out(0)), "1 element");
}

Status check_fm(const OpChecker& c) {
  const auto& a = c.op().as<kernels::FmAttrs>();
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.require(a.fields >= 0 && a.dim >= 0 && c.in(0).size() == a.fields * a.dim, "x",
                                text_of(c.in(0)), number(a.fields) + " x " + number(a.dim) + " elements"));
  return c.require(c.out(0).size() == 1, "the output", text_of(c.out(0)), "1 element");
}

Status check_tail(const OpChecker& c) {
  for (size_t i = 0; i < c.op().inputs.size(); ++i) {
    DPI_RETURN_IF_ERROR(c.value("an input", c.op().input(i), 1));
    const int64_t n = c.in(i).size();
    const bool dotted = c.op().param(i).data != nullptr;
    DPI_RETURN_IF_ERROR(
        c.require(dotted || n == 1, "an input without weight", text_of(c.in(i)), "1 element"));
    DPI_RETURN_IF_ERROR(c.param(i, "weight", n, false));
  }
  for (size_t i = 0; i < 2; ++i) {
    if (is_absent(c.op().output(i))) continue;
    DPI_RETURN_IF_ERROR(
        c.require(c.out(i).size() == 1, i == 0 ? "logit" : "value", text_of(c.out(i)), "1 element"));
  }
  return check_unary_params(c, c.op().as<kernels::TailAttrs>().act, c.op().params.size(), 1);
}

namespace {

// nullptr when the operand is as it was described, else what is wrong with it.
const char* wrong_tensor(const dpi_value_desc& v, const kernels::Tensor& t) {
  if (t.data == nullptr) return "has no data";
  if (!(t.dims == v.dims)) return "has other dims than prepared";
  if (t.row_stride != v.row_stride) return "has another row stride than prepared";
  if (t.dtype != v.dtype) return "has another element type than prepared";
  return nullptr;
}

const char* wrong_input(const dpi_value_desc& v, const kernels::Operand& o) {
  if (v.is_bags == 0) return wrong_tensor(v, o.tensor);
  return o.bags.ids == nullptr && o.bags.offsets == nullptr ? "has no ids" : nullptr;
}

}  // namespace

Status check_call(const OwnedOp& op, const dpi_op_call& call) {
  const OpChecker c(op);
  if (call.rows < 0) return c.fail("rows", number(call.rows), "0 or more");
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (is_absent(op.inputs[i])) continue;
    const char* wrong = wrong_input(op.inputs[i], call.inputs[i]);
    if (wrong != nullptr)
      return internal_error("op '" + op.name + "': input " + number(static_cast<int64_t>(i)) + " " + wrong);
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (is_absent(op.outputs[i])) continue;
    const char* wrong = wrong_tensor(op.outputs[i], call.outputs[i]);
    if (call.outputs[i].data == nullptr && op.kind == kernels::OpKind::kTail)
      continue;  // logits nobody wants
    if (wrong != nullptr)
      return internal_error("op '" + op.name + "': output " + number(static_cast<int64_t>(i)) + " " + wrong);
  }
  return ok_status();
}

}  // namespace dpi::backend
