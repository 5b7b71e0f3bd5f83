#include "plan/print/text.hpp"

#include <charconv>

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

const char* unary_name(kernels::UnaryKind kind) {
  constexpr const char* kNames[] = {
      "identity", "relu",      "sigmoid",  "tanh",  "exp", "log", "abs",   "sqrt",   "rsqrt", "silu", "selu",
      "gelu_erf", "gelu_tanh", "softplus", "leaky", "elu", "pow", "clamp", "affine", "prelu", "dice"};
  return kNames[static_cast<int32_t>(kind)];
}
const char* binary_name(kernels::BinaryKind kind) {
  constexpr const char* kNames[] = {"add", "sub", "mul", "div", "max", "min"};
  return kNames[static_cast<int32_t>(kind)];
}
const char* reduce_name(kernels::ReduceKind kind) {
  constexpr const char* kNames[] = {"sum", "mean", "max", "sumsq"};
  return kNames[static_cast<int32_t>(kind)];
}
const char* view_name(kernels::ViewKind kind) {
  constexpr const char* kNames[] = {"reshape", "transpose", "slice", "index_select", "expand"};
  return kNames[static_cast<int32_t>(kind)];
}
const char* pooling_name(kernels::Pooling pooling) {
  constexpr const char* kNames[] = {"single", "none", "sum", "mean", "max"};
  return kNames[static_cast<int32_t>(pooling)];
}
const char* space_name(RowSpace space) {
  constexpr const char* kNames[] = {"const", "shared", "item"};
  return kNames[static_cast<int32_t>(space)];
}

std::string number_text(double x) {
  char buffer[32];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(x));
  return std::string(buffer, r.ptr);
}

std::string unary_text(const kernels::UnaryAttrs& a) {
  using K = kernels::UnaryKind;
  std::string s = unary_name(a.kind);
  if (a.kind == K::kLeaky || a.kind == K::kElu || a.kind == K::kPow) s += "(" + number_text(a.a) + ")";
  if (a.kind == K::kClamp || (a.kind == K::kAffine && (a.a != 0 || a.b != 0))) {
    s += "(" + number_text(a.a) + "," + number_text(a.b) + ")";
  }
  return s;
}

namespace {

std::string embed_text(const kernels::EmbedAttrs& e) {
  std::string s = pooling_name(e.pooling);
  if (e.max_len > 0) s += " max_len " + std::to_string(e.max_len);
  constexpr const char* kRules[] = {"length", "id", "nonzero", "none"};
  if (e.pooling != kernels::Pooling::kSingle)
    s += std::string(" mask ") + kRules[static_cast<int32_t>(e.mask)];
  return s;
}

std::string view_text(const PlanOp& op) {
  const auto& v = std::get<kernels::ViewAttrs>(op.attrs);
  std::string s = view_name(v.kind);
  switch (v.kind) {
    case kernels::ViewKind::kSlice:
      return s + " axis " + std::to_string(v.axis) + " [" + std::to_string(v.begin) + "," +
             std::to_string(v.end) + ")";
    case kernels::ViewKind::kIndexSelect:
      return s + " axis " + std::to_string(v.axis) + ", " + std::to_string(op.indices.size()) + " indices";
    default:
      return s + " " + dims_text(v.dims);
  }
}

std::string dense_text(const PlanOp& op) {
  std::string s;
  for (const kernels::DenseSegment& g : op.segments) {
    if (!s.empty()) s += " | ";
    s += "[" + std::to_string(g.begin) + "," + std::to_string(g.end) + ") " + unary_text(g.act);
  }
  if (op.inputs[1] >= 0) s += " *mul";
  if (op.inputs[2] >= 0) s += " +add";
  return s;
}

std::string elementwise_text(const PlanOp& op) {
  const auto& e = std::get<kernels::ElementwiseAttrs>(op.attrs);
  std::string s;
  for (int k = 0; k < e.n_steps; ++k) {
    const kernels::ElementwiseStep& step = e.steps[k];
    s += (k ? "; r" : "r") + std::to_string(e.n_inputs + k) + "=";
    if (step.is_binary) {
      s += std::string(binary_name(step.binary)) + "(r" + std::to_string(step.x) + ",r" +
           std::to_string(step.y) + ")";
    } else {
      s += unary_text(step.unary) + "(r" + std::to_string(step.x) + ")";
    }
  }
  return s;
}

std::string lookup_text(const PlanOp& op) {
  const auto& m = std::get<kernels::MultiLookupAttrs>(op.attrs);
  std::string s = std::to_string(op.lookup.fields.size()) + " fields, " +
                  std::to_string(op.lookup.scalars.size()) + " scalar fields, " +
                  std::to_string(op.lookup.numerics.size()) + " numerics, " + std::to_string(m.n_channels) +
                  " channels";
  if (m.fm_channel >= 0)
    s += ", fm in channel " + std::to_string(m.fm_channel) + " dim " + std::to_string(m.fm_dim);
  return s;
}

std::string linear_text(const PlanOp& op) {
  const auto& l = std::get<kernels::LinearAttrs>(op.attrs);
  std::string s = l.groups > 1 ? "groups " + std::to_string(l.groups) : "";
  if (l.axis == kernels::LinearAxis::kField) s += s.empty() ? "axis field" : " axis field";
  return s;
}

std::string reduce_text(const PlanOp& op) {
  const auto& r = std::get<kernels::ReduceAttrs>(op.attrs);
  return std::string(reduce_name(r.kind)) + " axis " + std::to_string(r.axis) + (r.keepdim ? " keepdim" : "");
}

}  // namespace

std::string attrs_text(const Plan&, const PlanOp& op) {
  switch (op.kind) {
    case OpKind::kEmbed:
      return embed_text(std::get<kernels::EmbedAttrs>(op.attrs));
    case OpKind::kLinear:
      return linear_text(op);
    case OpKind::kUnary:
      return unary_text(std::get<kernels::UnaryAttrs>(op.attrs));
    case OpKind::kBinary:
      return binary_name(std::get<kernels::BinaryAttrs>(op.attrs).kind);
    case OpKind::kReduce:
      return reduce_text(op);
    case OpKind::kConcat:
      return "axis " + std::to_string(std::get<kernels::ConcatAttrs>(op.attrs).axis);
    case OpKind::kView:
      return view_text(op);
    case OpKind::kMultiLookup:
      return lookup_text(op);
    case OpKind::kDense:
      return dense_text(op);
    case OpKind::kElementwise:
      return elementwise_text(op);
    case OpKind::kCrossV1:
    case OpKind::kCrossV1Closed:
      return std::to_string(std::get<kernels::CrossV1Attrs>(op.attrs).layers) + " layers";
    case OpKind::kFm: {
      const auto& f = std::get<kernels::FmAttrs>(op.attrs);
      return std::to_string(f.fields) + " x " + std::to_string(f.dim);
    }
    case OpKind::kTail:
      return unary_text(std::get<kernels::TailAttrs>(op.attrs).act);
    default:
      return "";
  }
}

}  // namespace dpi::plan
