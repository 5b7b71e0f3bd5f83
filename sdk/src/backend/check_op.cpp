#include "backend/check_op.hpp"

#include <algorithm>

#include "backend/op_checker.hpp"

namespace dpi::backend {

using kernels::Dims;
using kernels::OpKind;

Dims dims_of(std::initializer_list<int64_t> extents) {
  Dims d;
  for (const int64_t n : extents) d.d[d.rank++] = n;
  return d;
}

std::string text_of(const Dims& d) {
  std::string text = "[";
  for (int i = 0; i < d.rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(d.d[i]);
  return text + "]";
}

Dims with_extent(Dims d, int axis, int64_t extent) {
  d.d[axis < 0 ? axis + d.rank : axis] = extent;
  return d;
}

Dims without_axis(const Dims& d, int axis) {
  Dims r;
  for (int i = 0; i < d.rank; ++i) {
    if (i != axis) r.d[r.rank++] = d.d[i];
  }
  return r;
}

bool broadcasts_to(const Dims& from, const Dims& to) {
  if (from.rank > to.rank) return false;
  for (int i = 1; i <= from.rank; ++i) {
    if (from.at(-i) != 1 && from.at(-i) != to.at(-i)) return false;
  }
  return true;
}

Status OpChecker::fail(const std::string& what, const std::string& found, const std::string& expected) const {
  return invalid_argument("op '" + op_.name + "' (" + op_name(op_.kind) + "): " + what + " is " + found +
                          ", expected " + expected);
}

Status OpChecker::dims(const char* what, const Dims& found, const Dims& expected) const {
  return require(found == expected, what, text_of(found), text_of(expected));
}

Status OpChecker::value(const char* what, const dpi_value_desc& v, int min_rank) const {
  if (v.is_bags != 0) return fail(what, "ids", "floats");
  if (v.dims.rank < min_rank || v.dims.rank > kernels::kMaxRank) {
    return fail(what, text_of(v.dims),
                std::to_string(min_rank) + " to " + std::to_string(kernels::kMaxRank) + " dims");
  }
  const bool fits = v.row_stride >= v.dims.size() || (v.is_constant != 0 && v.row_stride == 0);
  return require(fits, what, "a row stride of " + std::to_string(v.row_stride),
                 "at least " + std::to_string(v.dims.size()));
}

Status OpChecker::bags(const char* what, const dpi_value_desc& v) const {
  return require(v.is_bags != 0, what, "floats " + text_of(v.dims), "ids");
}

Status OpChecker::param(size_t i, const char* role, int64_t n, bool required) const {
  const kernels::Param p = op_.param(i);
  if (p.data == nullptr) return require(!required, role, "absent", std::to_string(n) + " elements");
  return require(p.dims.size() == n, role, text_of(p.dims), std::to_string(n) + " elements");
}

Status check_unary_params(const OpChecker& c, const kernels::UnaryAttrs& act, size_t first, int64_t n) {
  using kernels::UnaryKind;
  switch (act.kind) {
    case UnaryKind::kAffine: {
      const bool any = c.op().param(first).data != nullptr || c.op().param(first + 1).data != nullptr;
      DPI_RETURN_IF_ERROR(c.param(first, "scale", n, any));
      return c.param(first + 1, "shift", n, any);
    }
    case UnaryKind::kPrelu:
      return c.param(first, "slope", c.op().param(first).dims.size() == 1 ? 1 : n, true);
    case UnaryKind::kDice:
      DPI_RETURN_IF_ERROR(c.param(first, "alpha", n, true));
      DPI_RETURN_IF_ERROR(c.param(first + 1, "scale", n, true));
      return c.param(first + 2, "shift", n, true);
    default: {
      const auto kind = static_cast<int32_t>(act.kind);
      const bool known = kind >= 0 && kind <= static_cast<int32_t>(UnaryKind::kDice);
      return c.require(known, "the function", std::to_string(kind), "a kind of unary.hpp");
    }
  }
}

namespace {

Status check_embed(const OpChecker& c) {
  const auto& a = c.op().as<kernels::EmbedAttrs>();
  DPI_RETURN_IF_ERROR(c.bags("the input", c.op().input(0)));
  DPI_RETURN_IF_ERROR(c.require(c.op().tables.size() == 1, "the number of tables",
                                std::to_string(c.op().tables.size()), "1"));
  const bool laid_out = a.pooling == kernels::Pooling::kNone;
  const bool pads =
      laid_out || (a.mask == kernels::MaskRule::kNone && a.pooling != kernels::Pooling::kSingle);
  DPI_RETURN_IF_ERROR(c.require(!pads || a.max_len > 0, "max_len", std::to_string(a.max_len), "more than 0"));
  const int64_t dim = c.op().tables[0].dim;
  return c.dims("the output", c.out(0), laid_out ? dims_of({a.max_len, dim}) : dims_of({dim}));
}

Status check_mask(const OpChecker& c) {
  const auto& a = c.op().as<kernels::MaskAttrs>();
  if (a.rule != kernels::MaskRule::kNonzero) {
    DPI_RETURN_IF_ERROR(c.bags("the input", c.op().input(0)));
    return c.dims("the output", c.out(0), dims_of({a.max_len}));
  }
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 2));
  return c.dims("the output", c.out(0), dims_of({c.in(0).d[0]}));
}

Status check_linear(const OpChecker& c) {
  const auto& a = c.op().as<kernels::LinearAttrs>();
  const Dims& x = c.in(0);
  const bool field = a.axis == kernels::LinearAxis::kField;
  const bool grouped = a.groups > 1;
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), field || grouped ? 2 : 1));
  DPI_RETURN_IF_ERROR(
      c.require(!(field && grouped), "groups with axis field", std::to_string(a.groups), "1"));
  const Dims w = c.op().param(0).dims;
  DPI_RETURN_IF_ERROR(c.require(w.rank == (grouped ? 3 : 2), "weight", text_of(w),
                                grouped ? "[groups, out, in]" : "[out, in]"));
  DPI_RETURN_IF_ERROR(c.param(0, "weight", w.size(), true));
  const int64_t out = w.at(-2);
  const int64_t in = w.at(-1);
  DPI_RETURN_IF_ERROR(c.param(1, "bias", grouped ? a.groups * out : out, false));
  const int axis = field ? -2 : -1;
  DPI_RETURN_IF_ERROR(
      c.require(x.at(axis) == in, "x", text_of(x), std::to_string(in) + " inputs, as weight " + text_of(w)));
  Dims y = with_extent(x, axis, out);
  if (grouped) {
    DPI_RETURN_IF_ERROR(
        c.require(w.d[0] == a.groups, "weight", text_of(w), std::to_string(a.groups) + " groups"));
    DPI_RETURN_IF_ERROR(
        c.require(x.at(-2) == 1 || x.at(-2) == a.groups, "x", text_of(x), "1 group or as many as weight"));
    y = with_extent(y, -2, a.groups);
  }
  return c.dims("the output", c.out(0), y);
}

Status check_matmul(const OpChecker& c) {
  const auto& at = c.op().as<kernels::MatMulAttrs>();
  const Dims &a = c.in(0), &b = c.in(1), &y = c.out(0);
  DPI_RETURN_IF_ERROR(c.value("a", c.op().input(0), 2));
  DPI_RETURN_IF_ERROR(c.value("b", c.op().input(1), 2));
  DPI_RETURN_IF_ERROR(c.value("the output", c.op().output(0), 2));
  const int64_t m = a.at(at.trans_a != 0 ? -1 : -2), k = a.at(at.trans_a != 0 ? -2 : -1);
  const int64_t k_b = b.at(at.trans_b != 0 ? -1 : -2), n = b.at(at.trans_b != 0 ? -2 : -1);
  DPI_RETURN_IF_ERROR(c.require(k == k_b, "the inner size of b", std::to_string(k_b), std::to_string(k)));
  DPI_RETURN_IF_ERROR(
      c.require(y.rank == std::max(a.rank, b.rank), "the output", text_of(y), "the rank of a and b"));
  DPI_RETURN_IF_ERROR(c.require(y.at(-2) == m && y.at(-1) == n, "the output", text_of(y),
                                "[.., " + std::to_string(m) + ", " + std::to_string(n) + "]"));
  const bool fits = broadcasts_to(with_extent(with_extent(a, -2, 1), -1, 1), y) &&
                    broadcasts_to(with_extent(with_extent(b, -2, 1), -1, 1), y);
  return c.require(fits, "the output", text_of(y),
                   "the leading dims of a " + text_of(a) + " and b " + text_of(b));
}

Status check_binary(const OpChecker& c) {
  const auto kind = static_cast<int32_t>(c.op().as<kernels::BinaryAttrs>().kind);
  DPI_RETURN_IF_ERROR(
      c.require(kind >= 0 && kind <= 5, "the function", std::to_string(kind), "a kind of binary.hpp"));
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.value("y", c.op().input(1), 1));
  DPI_RETURN_IF_ERROR(c.require(broadcasts_to(c.in(0), c.out(0)), "x", text_of(c.in(0)),
                                "dims that broadcast to " + text_of(c.out(0))));
  return c.require(broadcasts_to(c.in(1), c.out(0)), "y", text_of(c.in(1)),
                   "dims that broadcast to " + text_of(c.out(0)));
}

Status check_unary(const OpChecker& c) {
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(check_unary_params(c, c.op().as<kernels::UnaryAttrs>(), 0, c.in(0).at(-1)));
  return c.dims("the output", c.out(0), c.in(0));
}

Status check_layer_norm(const OpChecker& c) {
  const Dims& x = c.in(0);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  for (size_t i = 0; i < 2; ++i) {
    const Dims p = c.op().param(i).dims;
    const int64_t n = p.rank == 2 && x.rank >= 2 ? x.at(-2) * x.at(-1) : x.at(-1);
    DPI_RETURN_IF_ERROR(c.param(i, i == 0 ? "gamma" : "beta", n, false));
  }
  return c.dims("the output", c.out(0), x);
}

Status check_axis(const OpChecker& c, const Dims& x, int axis) {
  return c.require(axis >= 0 && axis < x.rank, "the axis", std::to_string(axis),
                   "0 to " + std::to_string(x.rank - 1));
}

Dims up_to_axis(Dims x, int axis) {
  x.rank = axis + 1;
  return x;
}

Status check_softmax(const OpChecker& c) {
  const auto& a = c.op().as<kernels::SoftmaxAttrs>();
  const Dims &x = c.in(0), &mask = c.in(1);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(check_axis(c, x, a.axis));
  if (a.mask_mode != kernels::SoftmaxMask::kNone) {
    DPI_RETURN_IF_ERROR(c.value("mask", c.op().input(1), 1));
    const bool fits = mask == up_to_axis(x, a.axis) || broadcasts_to(mask, x);
    DPI_RETURN_IF_ERROR(c.require(fits, "mask", text_of(mask),
                                  text_of(up_to_axis(x, a.axis)) + ", or dims that broadcast to x"));
  }
  return c.dims("the output", c.out(0), x);
}

Status check_reduce(const OpChecker& c) {
  const auto& a = c.op().as<kernels::ReduceAttrs>();
  const Dims& x = c.in(0);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(check_axis(c, x, a.axis));
  if (!is_absent(c.op().input(1))) {
    DPI_RETURN_IF_ERROR(c.value("mask", c.op().input(1), 1));
    DPI_RETURN_IF_ERROR(c.dims("mask", c.in(1), up_to_axis(x, a.axis)));
  }
  return c.dims("the output", c.out(0), a.keepdim != 0 ? with_extent(x, a.axis, 1) : without_axis(x, a.axis));
}

Status check_concat(const OpChecker& c) {
  const int axis = c.op().as<kernels::ConcatAttrs>().axis;
  DPI_RETURN_IF_ERROR(c.value("the output", c.op().output(0), 1));
  DPI_RETURN_IF_ERROR(check_axis(c, c.out(0), axis));
  int64_t total = 0;
  for (size_t i = 0; i < c.op().inputs.size(); ++i) {
    const std::string what = "input " + std::to_string(i);
    DPI_RETURN_IF_ERROR(c.value(what.c_str(), c.op().input(i), 1));
    DPI_RETURN_IF_ERROR(c.require(c.in(i).rank == c.out(0).rank, what.c_str(), text_of(c.in(i)),
                                  "the rank of " + text_of(c.out(0))));
    DPI_RETURN_IF_ERROR(c.dims(what.c_str(), c.in(i), with_extent(c.out(0), axis, c.in(i).d[axis])));
    total += c.in(i).d[axis];
  }
  return c.require(total == c.out(0).d[axis], "the output", text_of(c.out(0)),
                   std::to_string(total) + " on the axis");
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
  DPI_RETURN_IF_ERROR(check_axis(c, x, a.axis));
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

Status check_recurrent(const OpChecker& c) {
  const auto& a = c.op().as<kernels::RecurrentAttrs>();
  const Dims& x = c.in(0);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 2));
  DPI_RETURN_IF_ERROR(c.require(x.rank == 2, "x", text_of(x), "[T, i]"));
  DPI_RETURN_IF_ERROR(c.value("mask", c.op().input(1), 1));
  DPI_RETURN_IF_ERROR(c.dims("mask", c.in(1), dims_of({x.d[0]})));
  if (a.kind != kernels::RecurrentKind::kGru) DPI_RETURN_IF_ERROR(c.dims("att", c.in(2), dims_of({x.d[0]})));
  DPI_RETURN_IF_ERROR(c.value("the output", c.op().output(0), 1));
  const int64_t m = c.out(0).at(-1);
  DPI_RETURN_IF_ERROR(c.param(0, "w_input", 3 * m * x.d[1], true));
  DPI_RETURN_IF_ERROR(c.param(1, "w_hidden", 3 * m * m, true));
  DPI_RETURN_IF_ERROR(c.param(2, "b_input", 3 * m, false));
  DPI_RETURN_IF_ERROR(c.param(3, "b_hidden", 3 * m, false));
  const bool all = a.output == kernels::RecurrentOutput::kAll;
  return c.dims("the output", c.out(0), all ? dims_of({x.d[0], m}) : dims_of({m}));
}

Status check_broadcast_rows(const OpChecker& c) {
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  return c.dims("the output", c.out(0), c.in(0));
}

// Every output that is present must be a value with a sound row stride.
Status check_outputs(const OpChecker& c) {
  const OwnedOp& op = c.op();
  DPI_RETURN_IF_ERROR(c.require(!op.outputs.empty(), "the number of outputs", "0", "1 or more"));
  for (const dpi_value_desc& v : op.outputs) {
    if (!is_absent(v)) DPI_RETURN_IF_ERROR(c.value("an output", v, 1));
  }
  const bool may_lack = op.kind == OpKind::kMultiLookup || op.kind == OpKind::kTail;
  return c.require(may_lack || !is_absent(op.output(0)), "the output", "absent", "a value");
}

// Which operands may have 16-bit elements where the backend takes such.
bool may_be_narrow(OpKind kind, bool is_output, size_t i) {
  switch (kind) {
    case OpKind::kMultiLookup:
      return is_output && i == 0;
    case OpKind::kDense:
    case OpKind::kElementwise:
    case OpKind::kBroadcastRows:
      return true;
    case OpKind::kTail:
      return !is_output;
    default:
      return false;
  }
}

std::string type_text(kernels::DType t) {
  constexpr const char* kNames[] = {"f32", "f16", "bf16", "i8"};
  const auto i = static_cast<uint32_t>(t);
  return i < 4 ? kNames[i] : "type " + std::to_string(i);
}

Status check_types(const OpChecker& c, const std::vector<dpi_value_desc>& values, bool is_output,
                   bool narrow) {
  using kernels::DType;
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_absent(values[i]) || values[i].is_bags != 0 || values[i].dtype == DType::kF32) continue;
    const bool takes = narrow && may_be_narrow(c.op().kind, is_output, i);
    const bool fits = takes && (values[i].dtype == DType::kF16 || values[i].dtype == DType::kBF16);
    const std::string what =
        std::string("the element type of ") + (is_output ? "output " : "input ") + std::to_string(i);
    if (!fits) return c.fail(what, type_text(values[i].dtype), takes ? "f32, f16 or bf16" : "f32");
  }
  return ok_status();
}

}  // namespace

Status check_op(const OwnedOp& op, bool narrow) {
  const OpChecker c(op);
  DPI_RETURN_IF_ERROR(check_types(c, op.inputs, false, narrow));
  DPI_RETURN_IF_ERROR(check_types(c, op.outputs, true, narrow));
  DPI_RETURN_IF_ERROR(check_outputs(c));
  switch (op.kind) {
    case OpKind::kEmbed:
      return check_embed(c);
    case OpKind::kMask:
      return check_mask(c);
    case OpKind::kLinear:
      return check_linear(c);
    case OpKind::kMatMul:
      return check_matmul(c);
    case OpKind::kBinary:
      return check_binary(c);
    case OpKind::kUnary:
      return check_unary(c);
    case OpKind::kLayerNorm:
      return check_layer_norm(c);
    case OpKind::kSoftmax:
      return check_softmax(c);
    case OpKind::kReduce:
      return check_reduce(c);
    case OpKind::kConcat:
      return check_concat(c);
    case OpKind::kView:
      return check_view(c);
    case OpKind::kRecurrent:
      return check_recurrent(c);
    case OpKind::kBroadcastRows:
      return check_broadcast_rows(c);
    case OpKind::kMultiLookup:
      return check_multi_lookup(c);
    case OpKind::kDense:
      return check_dense(c);
    case OpKind::kElementwise:
      return check_elementwise(c);
    case OpKind::kCrossV1:
      return check_cross_v1(c);
    case OpKind::kCrossV1Closed:
      return check_cross_v1_closed(c);
    case OpKind::kFm:
      return check_fm(c);
    case OpKind::kTail:
      return check_tail(c);
    default:
      return unsupported(std::string("op kind ") + op_name(op.kind));
  }
}

}  // namespace dpi::backend
