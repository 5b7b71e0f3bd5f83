// MultiLookup: all lookups of a model in one pass.
#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

namespace {

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
  return c.require(!f.fm || dim == a.fm_dim, "an FM field's dim", number(dim), number(a.fm_dim));
}

Status check_scalar(const OpChecker& c, const kernels::MultiLookupAttrs& a, const kernels::ScalarField& f) {
  DPI_RETURN_IF_ERROR(check_sources(c, f.input, f.table));
  const int64_t dim = c.op().tables[static_cast<size_t>(f.table)].dim;
  DPI_RETURN_IF_ERROR(
      c.require(f.count <= dim, "a scalar field's count", number(f.count), "at most " + number(dim)));
  if (kernels::row_form(c.op().tables[static_cast<size_t>(f.table)].dtype).whole)  // read as whole rows
    DPI_RETURN_IF_ERROR(c.require(f.count == dim, "a scalar field's count", number(f.count), number(dim)));
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
    DPI_RETURN_IF_ERROR(check_columns(c, "numeric coefficients", f.coef, a.n_channels, coef_size));
  if (f.out_col >= 0)
    DPI_RETURN_IF_ERROR(check_columns(c, "a numeric field's columns", f.out_col, f.dim, c.out(0).size()));
  return c.require(!f.fm || f.dim == a.fm_dim, "an FM numeric's dim", number(f.dim), number(a.fm_dim));
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

std::string multi_lookup_text(const OpText& t) {
  const auto& m = t.as<kernels::MultiLookupAttrs>();
  std::string s = std::to_string(t.arrays.fields.size()) + " fields, " +
                  std::to_string(t.arrays.scalars.size()) + " scalar fields, " +
                  std::to_string(t.arrays.numerics.size()) + " numerics, " + std::to_string(m.n_channels) +
                  " channels";
  if (m.fm_channel >= 0)
    s += ", fm in channel " + std::to_string(m.fm_channel) + " dim " + std::to_string(m.fm_dim);
  return s;
}

/// Rows are read from their tables before they are written.
OpWork multi_lookup_work(const OpSizes& s) { return {0, s.inputs + 2 * s.outputs}; }

}  // namespace ops

kernels::MultiLookupArgs multi_lookup_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::MultiLookupAttrs>(),
          call.inputs,
          call.tables,
          op.param(0),
          op.param(1),
          op.param(2),
          call.rows,
          output_tensor(op, call, 0),
          output_tensor(op, call, 1)};
}

}  // namespace dpi
