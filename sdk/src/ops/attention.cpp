// Attention: heads of scaled products, softmax over the keys, weighted sums.
#include <dpi/kernels/attention.hpp>

#include <vector>

#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

using kernels::AttentionAttrs;
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

Status check_attention_mask(const OpChecker& c, const AttentionAttrs& a) {
  const bool masked = a.mask_mode != SoftmaxMask::kNone;
  const bool known = a.mask_mode >= SoftmaxMask::kNone && a.mask_mode <= SoftmaxMask::kReplace;
  DPI_RETURN_IF_ERROR(c.require(known, "mask_mode", number(static_cast<int64_t>(a.mask_mode)), "a mode"));
  const bool given = c.op().inputs.size() > 3 && !is_absent(c.op().input(3));
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

}  // namespace

Status check_attention(const OpChecker& c) {
  const auto& a = c.op().as<AttentionAttrs>();
  DPI_RETURN_IF_ERROR(c.value("q", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.value("k", c.op().input(1), 1));
  DPI_RETURN_IF_ERROR(c.value("v", c.op().input(2), 1));
  DPI_RETURN_IF_ERROR(between(c, "keys", a.keys, 1, kernels::kMaxAttentionKeys));
  for (const auto& [what, n] : {std::pair{"heads", a.heads}, std::pair{"queries", a.queries},
                                std::pair{"dim", a.dim}, std::pair{"value_dim", a.value_dim}})
    DPI_RETURN_IF_ERROR(between(c, what, n, 1, kMostNumbers));
  DPI_RETURN_IF_ERROR(check_layout(c, "q", a.q, a.queries, a.dim, c.in(0).size()));
  DPI_RETURN_IF_ERROR(check_layout(c, "k", a.k, a.keys, a.dim, c.in(1).size()));
  DPI_RETURN_IF_ERROR(check_layout(c, "v", a.v, a.keys, a.value_dim, c.in(2).size()));
  DPI_RETURN_IF_ERROR(check_layout(c, "the output", a.y, a.queries, a.value_dim, c.out(0).size()));
  DPI_RETURN_IF_ERROR(check_attention_mask(c, a));
  return check_all_written(c, a);
}

std::string attention_text(const OpText& t) {
  const auto& a = t.as<AttentionAttrs>();
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
  return {scores * static_cast<double>(a.dim + a.value_dim + 10), s.inputs + s.outputs};
}

}  // namespace ops

kernels::AttentionArgs attention_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::AttentionAttrs>(),
          input_tensor(op, call, 0),
          input_tensor(op, call, 1),
          input_tensor(op, call, 2),
          input_tensor(op, call, 3),
          output_tensor(op, call, 0),
          call.scratch};
}

}  // namespace dpi
