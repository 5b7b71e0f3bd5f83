// Attention: heads of scaled products, softmax or SiLU, weighted sums. The format's op and the plan's own.
#include <dpi/kernels/attention.hpp>

#include <vector>

#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

using kernels::AttentionAttrs;
using kernels::AttentionForm;
using kernels::HeadLayout;
using kernels::SoftmaxMask;

namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 24;  // of a row; steps and extents below it do not overflow

/// Every number of `positions` positions and `columns` columns lies within `size`.
Status check_layout(const OpChecker& c, const char* what, const HeadLayout& l, int64_t positions,
                    int64_t columns, int64_t size) {
  const int64_t heads = c.op().as<AttentionAttrs>().heads;
  for (const int64_t n : {l.first, l.head, l.position})
    DPI_RETURN_IF_ERROR(between(c, what, n, 0, kMostNumbers));
  const int64_t last = l.at(heads - 1, positions - 1) + columns;
  return c.require(last <= size, what, "up to " + number(last), "inside 0 to " + number(size));
}

/// Kernels write a whole row of dst: no number may be left to chance, or be written twice.
Status check_all_written(const OpChecker& c, const AttentionAttrs& a) {
  std::vector<bool> written(static_cast<size_t>(c.out(0).size()));
  int64_t n = 0;
  for (int64_t h = 0; h < a.heads; ++h) {
    for (int64_t i = 0; i < a.queries; ++i) {
      for (int64_t k = 0; k < a.value_dim; ++k) {
        const auto at = static_cast<size_t>(a.y.at(h, i) + k);
        n += written[at] ? 0 : 1;
        written[at] = true;
      }
    }
  }
  DPI_RETURN_IF_ERROR(
      c.require(n == c.out(0).size(), "numbers that are written", number(n), number(c.out(0).size())));
  const int64_t all = a.heads * a.queries * a.value_dim;
  return c.require(n == all, "numbers that are written", number(n), number(all) + " of all heads");
}

/// Keys and values of shared rows, in front of the others.
Status check_prefix(const OpChecker& c, const AttentionAttrs& a) {
  DPI_RETURN_IF_ERROR(between(c, "prefix", a.prefix, 0, a.keys));
  DPI_RETURN_IF_ERROR(between(c, "before", a.before, 0, a.prefix));
  if (a.prefix == 0) return ok_status();
  const bool placed = a.before == a.prefix && a.queries == a.keys - a.prefix;
  DPI_RETURN_IF_ERROR(c.require(placed || (a.causal == 0 && a.candidates == 0), "before", number(a.before),
                                number(a.prefix) + ", and as many queries as keys behind it"));
  DPI_RETURN_IF_ERROR(between(c, "candidates", a.candidates, 0, a.keys - a.prefix));
  DPI_RETURN_IF_ERROR(c.require(a.counted == 0, "counted", number(a.counted), "0 behind a prefix"));
  DPI_RETURN_IF_ERROR(c.value("prefix_k", c.op().input(5), 1));
  DPI_RETURN_IF_ERROR(c.value("prefix_v", c.op().input(6), 1));
  DPI_RETURN_IF_ERROR(check_layout(c, "prefix_k", a.k, a.prefix, a.dim, c.in(5).size()));
  return check_layout(c, "prefix_v", a.v, a.prefix, a.value_dim, c.in(6).size());
}

/// Checks attributes that only the format's op has.
Status check_streamed(const OpChecker& c, const AttentionAttrs& a) {
  DPI_RETURN_IF_ERROR(between(c, "heads", a.heads, 1, kernels::kMostHeads));
  DPI_RETURN_IF_ERROR(between(c, "keys", a.keys, 1, kernels::kMostPositions));
  DPI_RETURN_IF_ERROR(between(c, "queries", a.queries, 1, kernels::kMostPositions));
  DPI_RETURN_IF_ERROR(between(c, "form", static_cast<int64_t>(a.form), 0, 1));
  DPI_RETURN_IF_ERROR(between(c, "candidates", a.candidates, 0, a.keys));
  const bool pairs = a.candidates == 0 || a.queries == a.keys - a.prefix;
  DPI_RETURN_IF_ERROR(
      c.require(pairs, "queries", number(a.queries), number(a.keys - a.prefix) + ", as keys"));
  DPI_RETURN_IF_ERROR(check_prefix(c, a));
  const bool mode = a.mask_mode == SoftmaxMask::kNone || a.mask_mode == SoftmaxMask::kNinf;
  DPI_RETURN_IF_ERROR(c.require(mode, "mask_mode", softmax_mask_name(a.mask_mode), "none or ninf"));
  DPI_RETURN_IF_ERROR(c.require(a.divisor > 0, "divisor", text_of(a.divisor), "above 0"));
  if (a.biased == 0) return ok_status();
  const size_t at = a.mask_mode == SoftmaxMask::kNone ? 3 : 4;
  DPI_RETURN_IF_ERROR(c.value("bias", c.op().input(at), 1));
  DPI_RETURN_IF_ERROR(between(c, "bias", a.bias.first, 0, kMostNumbers));
  DPI_RETURN_IF_ERROR(between(c, "bias", a.bias.head, 0, kMostNumbers));
  DPI_RETURN_IF_ERROR(between(c, "bias", a.bias.position, -1, kMostNumbers));
  const int64_t low = a.bias.at(0, a.bias.position < 0 ? a.queries - 1 : 0);
  const int64_t high = a.bias.at(a.heads - 1, a.bias.position < 0 ? 0 : a.queries - 1) + a.keys;
  return c.require(low >= 0 && high <= c.in(at).size(), "bias", number(low) + " to " + number(high),
                   "inside 0 to " + number(c.in(at).size()));
}

Status check_attention_mask(const OpChecker& c, const AttentionAttrs& a) {
  const bool masked = a.mask_mode != SoftmaxMask::kNone;
  const bool known = a.mask_mode >= SoftmaxMask::kNone && a.mask_mode <= SoftmaxMask::kReplace;
  DPI_RETURN_IF_ERROR(c.require(known, "mask_mode", number(static_cast<int64_t>(a.mask_mode)), "a mode"));
  const bool given = !is_absent(c.op().input(a.biased != 0 ? 4 : 3));  // the bias is the last input
  DPI_RETURN_IF_ERROR(
      c.require(masked == given, "mask", given ? "given" : "absent", masked ? "given" : "absent"));
  if (!masked) return c.require(a.counted == 0, "counted", number(a.counted), "0 without a mask");
  DPI_RETURN_IF_ERROR(c.value("mask", c.op().input(3), 1));
  const bool positions = a.queries == a.keys && a.mask_head == 0 && a.mask_query == 0;
  DPI_RETURN_IF_ERROR(c.require(a.counted == 0 || positions, "counted", number(a.counted),
                                "0 where queries are not the positions of the mask"));
  const HeadLayout mask{0, a.mask_head, a.mask_query};
  return check_layout(c, "mask", mask, a.queries, a.keys, c.in(3).size());
}

/// Forms of a mask or a bias of the format's op.
enum class Given { kNone, kKeys, kPairs, kRelative };
constexpr std::pair<std::string_view, Given> kMasks[] = {
    {"none", Given::kNone}, {"keys", Given::kKeys}, {"pairs", Given::kPairs}};
constexpr std::pair<std::string_view, Given> kBiases[] = {
    {"none", Given::kNone}, {"pairs", Given::kPairs}, {"relative", Given::kRelative}};
constexpr std::pair<std::string_view, AttentionForm> kAttentionForms[] = {
    {"softmax", AttentionForm::kSoftmax}, {"silu", AttentionForm::kSilu}};
constexpr std::pair<std::string_view, int32_t> kEmpties[] = {{"zeros", 0}, {"mean", 1}};

/// [positions, heads x n] with 1 to kMostPositions positions: n.
Result<int64_t> columns_of(const OpContext& c, const char* what, const Dims& d, int64_t heads) {
  if (d.rank != 2) return c.bad(std::string(what) + " is " + text_of(d) + ", expected [T, heads x dim]");
  if (d.d[0] > kernels::kMostPositions) {
    return c.bad(std::string(what) + " has " + number(d.d[0]) + " positions, " +
                 number(kernels::kMostPositions) + " are the most");
  }
  if (d.d[1] % heads != 0)
    return c.bad(std::string(what) + " is " + text_of(d) + ", not a multiple of " + number(heads) + " heads");
  return d.d[1] / heads;
}

Status read_operands(const OpContext& c, AttentionAttrs* a) {
  DPI_ASSIGN_OR_RETURN(const Dims q, c.floats(0));
  DPI_ASSIGN_OR_RETURN(const Dims k, c.floats(1));
  DPI_ASSIGN_OR_RETURN(const Dims v, c.floats(2));
  DPI_ASSIGN_OR_RETURN(a->heads, c.integer("heads", 1));
  if (a->heads < 1 || a->heads > kernels::kMostHeads)
    return c.bad("heads is " + number(a->heads) + ", expected 1 to " + number(kernels::kMostHeads));
  DPI_ASSIGN_OR_RETURN(a->dim, columns_of(c, "q", q, a->heads));
  DPI_ASSIGN_OR_RETURN(const int64_t of_keys, columns_of(c, "k", k, a->heads));
  DPI_ASSIGN_OR_RETURN(a->value_dim, columns_of(c, "v", v, a->heads));
  const std::string beside = "k is " + text_of(k);
  if (of_keys != a->dim) return c.bad(beside + ", q is " + text_of(q) + ": expected as many columns");
  if (v.d[0] != k.d[0]) return c.bad(beside + ", v is " + text_of(v) + ": expected as many positions");
  a->queries = q.d[0];
  a->keys = k.d[0];
  a->q = a->k = {0, a->dim, a->heads * a->dim};
  a->v = a->y = {0, a->value_dim, a->heads * a->value_dim};
  return ok_status();
}

Status read_weighing(const OpContext& c, AttentionAttrs* a) {
  DPI_ASSIGN_OR_RETURN(a->scale, c.number("scale", 1.0f));
  DPI_ASSIGN_OR_RETURN(a->form, c.choice<AttentionForm>("form", kAttentionForms, AttentionForm::kSoftmax));
  DPI_ASSIGN_OR_RETURN(a->divisor, c.number("divisor", 1.0f));
  if (!(a->divisor > 0)) return c.bad("divisor is " + text_of(a->divisor) + ", expected a number above 0");
  DPI_ASSIGN_OR_RETURN(a->mean_of_none, c.choice<int32_t>("empty", kEmpties, 0));
  const bool softmax = a->form == AttentionForm::kSoftmax;
  if (softmax && c.has("divisor")) return c.not_known("divisor is for form silu");
  if (!softmax && c.has("empty")) return c.not_known("empty is for form softmax");
  DPI_ASSIGN_OR_RETURN(const bool causal, c.flag("causal", false));
  a->causal = causal ? 1 : 0;
  DPI_ASSIGN_OR_RETURN(a->candidates, c.integer("candidates", 0));
  if (a->candidates < 0 || a->candidates > a->keys)
    return c.bad("candidates is " + number(a->candidates) + ", expected 0 to " + number(a->keys));
  if (a->candidates > 0 && a->queries != a->keys)
    return c.bad("candidates are positions of one sequence: " + number(a->queries) + " queries, " +
                 number(a->keys) + " keys");
  return ok_status();
}

/// The input after `*next` as [columns], [rows, columns] or, with heads, [heads, ..]; its steps.
Status read_pairs(const OpContext& c, const char* what, Given given, bool by_head, const AttentionAttrs& a,
                  size_t i, HeadLayout* l) {
  DPI_ASSIGN_OR_RETURN(const Dims d, c.floats(i));
  const Dims keys = dims_of({given == Given::kRelative ? a.queries + a.keys - 1 : a.keys});
  const Dims one = given == Given::kPairs ? dims_of({a.queries, a.keys}) : keys;
  Dims all = dims_of({a.heads});
  for (int k = 0; k < one.rank; ++k) all = append(all, one.d[k]);
  const bool of_heads = by_head && d == all;
  if (!of_heads && !(d == one)) {
    return c.bad(std::string(what) + " is " + text_of(d) + ", expected " + text_of(one) +
                 (by_head ? " or " + text_of(all) : ""));
  }
  *l = {given == Given::kRelative ? a.queries - 1 : 0, of_heads ? one.size() : 0,
        given == Given::kRelative ? -1
        : given == Given::kPairs  ? a.keys
                                  : 0};
  return ok_status();
}

}  // namespace

Result<Dims> infer_attention(OpContext& c) {
  AttentionAttrs a;
  a.streamed = 1;
  DPI_RETURN_IF_ERROR(read_operands(c, &a));
  DPI_RETURN_IF_ERROR(read_weighing(c, &a));
  DPI_ASSIGN_OR_RETURN(const Given mask, c.choice<Given>("mask", kMasks, Given::kNone));
  DPI_ASSIGN_OR_RETURN(const Given bias, c.choice<Given>("bias", kBiases, Given::kNone));
  const size_t expected = 3u + (mask != Given::kNone ? 1u : 0u) + (bias != Given::kNone ? 1u : 0u);
  if (c.n_inputs() != expected)
    return c.bad(std::to_string(c.n_inputs()) + " inputs, mask and bias say " + std::to_string(expected));
  if (mask != Given::kNone) {
    HeadLayout l;
    DPI_RETURN_IF_ERROR(read_pairs(c, "mask", mask, false, a, 3, &l));
    a.mask_mode = SoftmaxMask::kNinf;
    a.mask_query = l.position;
  }
  if (bias != Given::kNone) {
    a.biased = 1;
    DPI_RETURN_IF_ERROR(read_pairs(c, "bias", bias, true, a, expected - 1, &a.bias));
  }
  c.node().attrs = a;
  return dims_of({a.queries, a.heads * a.value_dim});
}

std::string attention_graph_text(const OpText& t) {
  const auto& a = t.as<AttentionAttrs>();
  std::string s = field("heads", a.heads);
  if (a.scale != 1) s += field("scale", a.scale);
  if (a.form == AttentionForm::kSilu) s += " form=silu" + field("divisor", a.divisor);
  if (a.causal != 0) s += " causal";
  if (a.candidates > 0) s += field("candidates", a.candidates);
  if (a.mask_mode != SoftmaxMask::kNone) s += a.mask_query != 0 ? " mask=pairs" : " mask=keys";
  if (a.biased != 0) s += a.bias.position < 0 ? " bias=relative" : " bias=pairs";
  return s + (a.mean_of_none != 0 ? " empty=mean" : "");
}

Status check_attention(const OpChecker& c) {
  const auto& a = c.op().as<AttentionAttrs>();
  DPI_RETURN_IF_ERROR(c.value("q", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.value("k", c.op().input(1), 1));
  DPI_RETURN_IF_ERROR(c.value("v", c.op().input(2), 1));
  if (a.streamed != 0) {
    DPI_RETURN_IF_ERROR(check_streamed(c, a));
  } else {
    DPI_RETURN_IF_ERROR(between(c, "keys", a.keys, 1, kernels::kMaxAttentionKeys));
    DPI_RETURN_IF_ERROR(between(c, "prefix", a.prefix, 0, 0));
  }
  for (const auto& [what, n] : {std::pair{"heads", a.heads}, std::pair{"queries", a.queries},
                                std::pair{"dim", a.dim}, std::pair{"value_dim", a.value_dim}})
    DPI_RETURN_IF_ERROR(between(c, what, n, 1, kMostNumbers));
  DPI_RETURN_IF_ERROR(check_layout(c, "q", a.q, a.queries, a.dim, c.in(0).size()));
  if (a.keys > a.prefix) {
    DPI_RETURN_IF_ERROR(check_layout(c, "k", a.k, a.keys - a.prefix, a.dim, c.in(1).size()));
    DPI_RETURN_IF_ERROR(check_layout(c, "v", a.v, a.keys - a.prefix, a.value_dim, c.in(2).size()));
  }
  DPI_RETURN_IF_ERROR(check_layout(c, "the output", a.y, a.queries, a.value_dim, c.out(0).size()));
  DPI_RETURN_IF_ERROR(check_attention_mask(c, a));
  return check_all_written(c, a);
}

std::string attention_text(const OpText& t) {
  const auto& a = t.as<AttentionAttrs>();
  if (a.streamed != 0) {
    return number(a.queries) + " x " + number(a.keys) + " of " + number(a.dim) + "," +
           attention_graph_text(t) + (a.counted != 0 ? ", places that count" : "") +
           (a.prefix > 0 ? ", " + number(a.prefix) + " keys of shared rows" : "");
  }
  std::string s = number(a.heads) + (a.heads == 1 ? " head, " : " heads, ") + number(a.queries) + " x " +
                  number(a.keys) + " of " + number(a.dim);
  if (a.value_dim != a.dim) s += ", values of " + number(a.value_dim);
  for (const auto& [name, l] :
       {std::pair{"q", a.q}, std::pair{"k", a.k}, std::pair{"v", a.v}, std::pair{"y", a.y}})
    s += std::string(", ") + name + " " + number(l.first) + "+" + number(l.head) + "h+" + number(l.position) +
         "i";
  if (a.scale != 1) s += ", scale " + text_of(a.scale);
  if (a.mask_mode == SoftmaxMask::kNone) return s;
  s += std::string(", mask ") + softmax_mask_name(a.mask_mode);
  if (a.mask_mode != SoftmaxMask::kNinf) s += " " + text_of(a.value);
  if (a.mask_head != 0) s += " of heads";
  if (a.mask_query != 0) s += " of queries";
  return s + (a.counted != 0 ? ", places that count" : "");
}

OpWork attention_work(const OpSizes& s) {
  const auto& a = std::get<AttentionAttrs>(s.attrs);
  const auto scores = static_cast<double>(a.heads) * static_cast<double>(a.queries * a.keys);
  const double read = a.causal != 0 ? 0.5 : 1.0;
  return {read * scores * static_cast<double>(a.dim + a.value_dim + 10), s.inputs + s.outputs};
}

}  // namespace ops

kernels::AttentionArgs attention_args(const OwnedOp& op, const dpi_op_call& call) {
  const auto& a = op.as<kernels::AttentionAttrs>();
  const bool masked = a.mask_mode != kernels::SoftmaxMask::kNone;
  return {a,
          input_tensor(op, call, 0),
          input_tensor(op, call, 1),
          input_tensor(op, call, 2),
          masked ? input_tensor(op, call, 3) : kernels::Tensor{},
          a.biased != 0 ? input_tensor(op, call, masked ? 4 : 3) : kernels::Tensor{},
          output_tensor(op, call, 0),
          call.scratch,
          input_tensor(op, call, 5),
          input_tensor(op, call, 6),
          call.row_map};
}

}  // namespace dpi
