// CoAction: a micro-MLP out of one feature's row over the items of another, pooled.
#include <dpi/kernels/co_action.hpp>

#include <algorithm>
#include <bitset>

#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

using kernels::CoActionAttrs;
using kernels::kMaxMicroLevels;
using kernels::kMaxMicroNumbers;
using kernels::MicroLevel;
using kernels::UnaryKind;

namespace {

/// Runs of the micro-MLP for one item.
int64_t runs_of(const CoActionAttrs& a) { return a.joined != 0 ? 1 : a.orders; }

/// Columns [first, first + n) of every run lie within `total`.
Status check_columns(const OpChecker& c, const char* what, int64_t first, int64_t n, int64_t step,
                     int64_t total) {
  const int64_t last = first + (runs_of(c.op().as<CoActionAttrs>()) - 1) * step + n;
  return c.require(first >= 0 && last <= total, what, number(first) + " to " + number(last),
                   "inside 0 to " + number(total));
}

Status check_level(const OpChecker& c, const CoActionAttrs& a, int64_t inputs, const MicroLevel& level) {
  DPI_RETURN_IF_ERROR(
      c.require(level.inputs == inputs, "a level's inputs", number(level.inputs), number(inputs)));
  DPI_RETURN_IF_ERROR(between(c, "a level's outputs", level.outputs, 1, kMaxMicroNumbers / runs_of(a)));
  const int64_t size = c.in(0).size();
  DPI_RETURN_IF_ERROR(
      check_columns(c, "a level's weights", level.weight, inputs * level.outputs, a.weight_step, size));
  if (level.bias >= 0)
    DPI_RETURN_IF_ERROR(check_columns(c, "a level's bias", level.bias, level.outputs, a.weight_step, size));
  if (level.out_col >= 0)
    DPI_RETURN_IF_ERROR(
        check_columns(c, "a level's columns", level.out_col, level.outputs, a.out_step, c.out(0).size()));
  const bool plain = level.act.kind != UnaryKind::kPrelu && level.act.kind != UnaryKind::kDice;
  return c.require(plain, "a level's activation", unary_name(level.act.kind), "one without parameters");
}

/// Kernels write a whole row of dst: no column may be left to chance.
Status check_all_written(const OpChecker& c, const CoActionAttrs& a) {
  std::bitset<kMaxMicroNumbers> written;
  for (int32_t l = 0; l < a.n_levels; ++l) {
    for (int64_t p = 0; a.levels[l].out_col >= 0 && p < runs_of(a); ++p) {
      for (int32_t o = 0; o < a.levels[l].outputs; ++o)
        written.set(static_cast<size_t>(a.levels[l].out_col + p * a.out_step + o));
    }
  }
  const auto n = static_cast<int64_t>(written.count());
  return c.require(n == c.out(0).size(), "columns that are collected", number(n), number(c.out(0).size()));
}

Status check_feed(const OpChecker& c, const CoActionAttrs& a) {
  const auto n_tables = static_cast<int64_t>(c.op().tables.size());
  if (a.max_len == 0) {
    DPI_RETURN_IF_ERROR(c.value("feed", c.op().input(1), 1));
    DPI_RETURN_IF_ERROR(
        c.require(n_tables == 0 && a.mapped == 0, "the number of tables", number(n_tables), "0"));
    return between(c, "the feed's last column", a.feed_col + a.feed_dim, 0, c.in(1).size());
  }
  DPI_RETURN_IF_ERROR(c.bags("feed", c.op().input(1)));
  DPI_RETURN_IF_ERROR(c.require(n_tables == 1, "the number of tables", number(n_tables), "1"));
  const bool rule = a.mask == kernels::MaskRule::kLength || a.mask == kernels::MaskRule::kId;
  DPI_RETURN_IF_ERROR(c.require(rule, "mask", mask_name(a.mask), "length or id"));
  return between(c, "the feed's last column", a.feed_col + a.feed_dim, 0, c.op().tables[0].dim);
}

}  // namespace

Status check_co_action(const OpChecker& c) {
  const auto& a = c.op().as<CoActionAttrs>();
  DPI_RETURN_IF_ERROR(c.value("induction", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(between(c, "levels", a.n_levels, 1, kMaxMicroLevels));
  DPI_RETURN_IF_ERROR(between(c, "orders", a.orders, 1, kMaxMicroNumbers));
  DPI_RETURN_IF_ERROR(between(c, "feed_dim", a.feed_dim, 1, kMaxMicroNumbers / a.orders));
  DPI_RETURN_IF_ERROR(between(c, "feed_col", a.feed_col, 0, INT32_MAX - kMaxMicroNumbers));
  DPI_RETURN_IF_ERROR(between(c, "weight_step", a.weight_step, 0, c.in(0).size()));
  DPI_RETURN_IF_ERROR(between(c, "out_step", a.out_step, 0, c.out(0).size()));
  DPI_RETURN_IF_ERROR(between(c, "the output", c.out(0).size(), 1, kMaxMicroNumbers));
  DPI_RETURN_IF_ERROR(check_feed(c, a));
  int64_t inputs = a.joined != 0 ? int64_t{a.orders} * a.feed_dim : a.feed_dim;
  for (int32_t l = 0; l < a.n_levels; ++l) {
    DPI_RETURN_IF_ERROR(check_level(c, a, inputs, a.levels[l]));
    inputs = a.levels[l].outputs;
  }
  return check_all_written(c, a);
}

std::string co_action_text(const OpText& t) {
  const auto& a = t.as<CoActionAttrs>();
  std::string s = std::to_string(a.levels[0].inputs);
  for (int32_t l = 0; l < a.n_levels; ++l) {
    const MicroLevel& level = a.levels[l];
    s += " > " + std::to_string(level.outputs);
    if (level.bias >= 0) s += " bias";
    if (level.act.kind != UnaryKind::kIdentity) s += " " + function_text(level.act);
    if (level.out_col >= 0) s += " @" + std::to_string(level.out_col);
  }
  s += ", weights " + std::to_string(a.levels[0].weight);
  if (a.weight_step > 0) s += "+" + std::to_string(a.weight_step);
  s += ", feed [" + std::to_string(a.feed_col) + "," + std::to_string(a.feed_col + a.feed_dim) + ")";
  if (a.orders > 1) {
    s += ", " + std::to_string(a.orders) + " orders ";
    s += a.joined != 0 ? "joined" : a.out_step == 0 ? "added" : "side by side";
  }
  if (a.max_len == 0) return s;
  s += std::string(", ") + (a.mean != 0 ? "mean" : "sum") + " max_len " + std::to_string(a.max_len);
  return s + " mask " + mask_name(a.mask) + (a.mapped != 0 ? ", shared rows" : "");
}

OpWork co_action_work(const OpSizes& s) {
  const auto& a = std::get<CoActionAttrs>(s.attrs);
  const auto items = static_cast<double>(std::max<int64_t>(1, a.max_len));
  double flops = static_cast<double>(a.orders) * a.feed_dim;
  for (int32_t l = 0; l < a.n_levels; ++l)
    flops += static_cast<double>(runs_of(a)) * a.levels[l].inputs * a.levels[l].outputs;
  return {items * flops, s.inputs + s.outputs + items * a.feed_dim};
}

}  // namespace ops

kernels::CoActionArgs co_action_args(const OwnedOp& op, const dpi_op_call& call) {
  const auto& attrs = op.as<kernels::CoActionAttrs>();
  const bool history = attrs.max_len > 0;
  return {attrs,
          input_tensor(op, call, 0),
          history ? call.inputs[1].bags : kernels::Bags{},
          history ? call.tables[0] : kernels::TableView{},
          attrs.mapped != 0 ? call.row_map : nullptr,
          history ? kernels::Tensor{} : input_tensor(op, call, 1),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
