// The text form of a graph: one line per feature, table, parameter, node and head, in order. Tests hold it
// fixed.
#include "graph/graph.hpp"
#include "graph/op_context.hpp"

namespace dpi {
namespace {

using graph_build::text_of;

template <size_t N, class E>
const char* name_of(const char* const (&names)[N], E value) {
  const auto i = static_cast<size_t>(value);
  return i < N ? names[i] : "?";
}

constexpr const char* kPoolings[] = {"single", "none", "sum", "mean", "max"};
constexpr const char* kMasks[] = {"length", "id", "nonzero", "none"};
constexpr const char* kPadSides[] = {"post", "pre"};
constexpr const char* kBinaryKinds[] = {"add", "sub", "mul", "div", "max", "min"};
constexpr const char* kUnaryKinds[] = {
    "identity", "relu",      "sigmoid",  "tanh",  "exp", "log", "abs",   "sqrt",   "rsqrt", "silu", "selu",
    "gelu_erf", "gelu_tanh", "softplus", "leaky", "elu", "pow", "clamp", "affine", "prelu", "dice"};
constexpr const char* kSoftmaxMasks[] = {"none", "ninf", "add", "replace"};
constexpr const char* kReduceKinds[] = {"sum", "mean", "max", "sumsq"};
constexpr const char* kViewKinds[] = {"reshape", "transpose", "slice", "index_select", "expand"};
constexpr const char* kRecurrentKinds[] = {"gru", "agru", "augru", "vecatt"};

std::string field(const char* key, const std::string& value) {
  return std::string(" ").append(key).append("=") + value;
}
std::string field(const char* key, int64_t value) { return field(key, std::to_string(value)); }
std::string field(const char* key, float value) { return field(key, text_of(value)); }

/// Attributes as " key=value"; one overload per struct. Values of their default that say nothing are left
/// out.
struct AttrText {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const kernels::EmbedAttrs& a) const {
    std::string s = field("pooling", name_of(kPoolings, a.pooling));
    if (a.pooling == kernels::Pooling::kSingle) return s;
    s += field("mask", name_of(kMasks, a.mask)) + field("pad_id", int64_t{a.pad_id}) +
         field("pad_side", name_of(kPadSides, a.pad_side)) + field("max_len", a.max_len);
    if (a.eps != 0) s += field("eps", a.eps);
    if (a.empty != 0) s += field("empty", a.empty);
    return s;
  }
  std::string operator()(const kernels::MaskAttrs& a) const {
    const std::string s = field("rule", name_of(kMasks, a.rule));
    if (a.rule == kernels::MaskRule::kNonzero) return s;
    return s + field("pad_id", int64_t{a.pad_id}) + field("pad_side", name_of(kPadSides, a.pad_side));
  }
  std::string operator()(const kernels::LinearAttrs& a) const {
    std::string s = a.groups == 1 ? "" : field("groups", a.groups);
    if (a.axis == kernels::LinearAxis::kField) s += field("axis", "field");
    return s;
  }
  std::string operator()(const kernels::MatMulAttrs& a) const {
    std::string s = std::string(a.trans_a != 0 ? " trans_a" : "") + (a.trans_b != 0 ? " trans_b" : "");
    if (a.alpha != 1) s += field("alpha", a.alpha);
    return s;
  }
  std::string operator()(const kernels::BinaryAttrs& a) const {
    return field("kind", name_of(kBinaryKinds, a.kind));
  }
  std::string operator()(const kernels::UnaryAttrs& a) const {
    std::string s = field("kind", name_of(kUnaryKinds, a.kind));
    if (a.a != 0 || a.b != 0) s += field("a", a.a);
    if (a.b != 0) s += field("b", a.b);
    return s;
  }
  std::string operator()(const kernels::LayerNormAttrs& a) const { return field("eps", a.eps); }
  std::string operator()(const kernels::SoftmaxAttrs& a) const {
    std::string s = field("axis", int64_t{a.axis});
    if (a.mask_mode == kernels::SoftmaxMask::kNone) return s;
    return s + field("mask_mode", name_of(kSoftmaxMasks, a.mask_mode)) + field("value", a.value);
  }
  std::string operator()(const kernels::ReduceAttrs& a) const {
    std::string s = field("kind", name_of(kReduceKinds, a.kind)) + field("axis", int64_t{a.axis});
    if (a.keepdim != 0) s += " keepdim";
    if (a.eps != 0) s += field("eps", a.eps);
    if (a.empty != 0) s += field("empty", a.empty);
    return s;
  }
  std::string operator()(const kernels::ConcatAttrs& a) const { return field("axis", int64_t{a.axis}); }
  std::string operator()(const kernels::ViewAttrs& a) const {
    const std::string s = field("kind", name_of(kViewKinds, a.kind));
    switch (a.kind) {
      case kernels::ViewKind::kTranspose:
        return s + field("perm", text_of(a.dims));
      case kernels::ViewKind::kSlice:
        return s + field("axis", int64_t{a.axis}) + field("begin", a.begin) + field("end", a.end);
      case kernels::ViewKind::kIndexSelect:
        return s + field("axis", int64_t{a.axis});
      default:
        return s;
    }
  }
  std::string operator()(const kernels::RecurrentAttrs& a) const {
    return field("kind", name_of(kRecurrentKinds, a.kind)) +
           field("reset", a.reset == kernels::ResetGate::kAfter ? "after" : "before") +
           field("output", a.output == kernels::RecurrentOutput::kLast ? "last" : "all");
  }
};

std::string feature_line(const FeatureSpec& f) {
  std::string s = f.name + " " + dpi::name_of(f.kind) + " " + dpi::name_of(f.space);
  if (f.is_slot()) s += field("vocab", f.vocab_size);
  if (f.kind == FeatureKind::kDense) s += field("dim", f.dim);
  if (f.max_len > 0) s += field("max_len", f.max_len);
  return s + (f.weighted ? " weighted" : "");
}

std::string node_line(const Graph& g, const GraphNode& n) {
  std::string s = std::string(kernels::op_name(n.kind)) + " " + n.name + "(";
  for (size_t i = 0; i < n.inputs.size(); ++i) s += (i == 0 ? "" : ", ") + g.values[n.inputs[i]].name;
  s += ")";
  if (n.feature >= 0) s += field("feature", g.features[n.feature].name);
  if (n.table >= 0) s += field("table", g.tables[n.table].name);
  s += std::visit(AttrText{}, n.attrs);
  if (!n.indices.empty()) s += field("indices", text_of(std::span<const int64_t>(n.indices)));
  bool any = false;
  for (const int32_t p : n.params) any = any || p >= 0;
  if (any) {
    s += " params=";
    for (size_t i = 0; i < n.params.size(); ++i) {
      s += (i == 0 ? "" : ",") + (n.params[i] < 0 ? std::string("-") : g.params[n.params[i]].name);
    }
  }
  const GraphValue& out = g.values[n.output];
  s += " -> " + (out.is_bags ? std::string("ids") : text_of(out.dims)) + " " + dpi::name_of(out.space);
  return n.module.empty() ? s : s + "  # " + n.module;
}

}  // namespace

std::string dump_graph(const Graph& g) {
  std::string s = "graph " + g.name + "\nfeatures\n";
  for (const FeatureSpec& f : g.features) s += "  " + feature_line(f) + "\n";
  s += "tables\n";
  for (const TableSpec& t : g.tables) {
    s += "  " + t.name + " [" + std::to_string(t.rows) + ", " + std::to_string(t.dim) + "] " +
         kernels::name_of(t.dtype) + "\n";
  }
  s += "params\n";
  for (const GraphParam& p : g.params) s += "  " + p.name + " " + text_of(p.dims) + "\n";
  s += "nodes\n";
  for (const GraphNode& n : g.nodes) s += "  " + node_line(g, n) + "\n";
  s += "heads\n";
  for (const GraphHead& h : g.heads) {
    s += "  " + h.name + field("value", g.values[h.value].name);
    if (h.logit >= 0) s += field("logit", g.values[h.logit].name);
    if (!h.activation.empty()) s += field("activation", h.activation);
    s += "\n";
  }
  return s;
}

}  // namespace dpi
