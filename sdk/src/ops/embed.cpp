// Embed: rows of a table for a feature's ids, pooled per bag.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::EmbedAttrs;
using kernels::MaskRule;
using kernels::Pooling;

namespace {

/// The rules of FORMAT.md part 7 on which pooling goes with which mask and feature. `single` has no mask.
Status check_pooling(const OpContext& c, const EmbedAttrs& a, const FeatureSpec& f,
                     const std::string& pooling) {
  const bool single = a.pooling == Pooling::kSingle;
  if (single != (f.kind == FeatureKind::kCategorical)) {
    return c.bad("pooling '" + pooling + "' needs a " + (single ? "categorical" : "sequence") +
                 " feature, '" + f.name + "' is " + (single ? "a sequence" : "categorical"));
  }
  if (single) return ok_status();
  if ((a.pooling == Pooling::kNone || a.mask == MaskRule::kNone) && f.max_len == 0) {
    return c.bad((a.pooling == Pooling::kNone ? std::string("pooling 'none'") : std::string("mask 'none'")) +
                 " needs max_len > 0 on feature '" + f.name + "'");
  }
  if (a.mask == MaskRule::kNonzero && a.pooling != Pooling::kSum && a.pooling != Pooling::kMean) {
    return c.bad("mask 'nonzero' goes with pooling sum or mean, not '" + pooling + "'");
  }
  if (f.weighted && a.pooling == Pooling::kMax)
    return c.bad("pooling 'max' with the weighted feature '" + f.name + "'");
  if (f.weighted && a.mask == MaskRule::kNone)
    return c.bad("mask 'none' with the weighted feature '" + f.name + "'");
  return ok_status();
}

}  // namespace

Result<Dims> infer_embed(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const FeatureSpec* f, c.bags(0));
  DPI_ASSIGN_OR_RETURN(const std::string table_name, c.text("table"));
  const TableSpec* table = c.model().table(table_name, &c.node().table);
  if (table == nullptr) return c.bad("table '" + table_name + "' does not exist");
  if (f->keys != table->keys) {
    const auto found_by = [](const std::string& keys) {
      return keys.empty() ? std::string("row numbers") : "keys of '" + keys + "'";
    };
    return c.bad("feature '" + f->name + "' has " + found_by(f->keys) + ", the rows of table '" +
                 table->name + "' are found by " + found_by(table->keys));
  }
  if (f->vocab_size > table->rows && (!table->external || table->rows > 0)) {
    return c.bad("feature '" + f->name + "' has vocab_size " + std::to_string(f->vocab_size) + ", table '" +
                 table->name + "' has " + std::to_string(table->rows) + " rows");
  }
  EmbedAttrs a;
  DPI_ASSIGN_OR_RETURN(a.pooling, c.choice<Pooling>("pooling", kPoolings, Pooling::kSingle));
  DPI_ASSIGN_OR_RETURN(a.mask, c.choice<MaskRule>("mask", kMaskRules, MaskRule::kLength));
  DPI_ASSIGN_OR_RETURN(a.eps, c.number("eps", 0.0f));
  DPI_ASSIGN_OR_RETURN(a.empty, c.number("empty", 0.0f));
  a.pad_side = f->pad_side;
  a.pad_id = f->padding();
  a.max_len = f->max_len;
  DPI_ASSIGN_OR_RETURN(const std::string pooling, c.text("pooling", "single"));
  DPI_RETURN_IF_ERROR(check_pooling(c, a, *f, pooling));
  c.node().attrs = a;
  if (a.pooling == Pooling::kNone) return append(append({}, f->max_len), table->dim);
  return append({}, table->dim);
}

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

std::string embed_graph_text(const OpText& t) {
  const auto& a = t.as<kernels::EmbedAttrs>();
  std::string s = field("pooling", pooling_name(a.pooling));
  if (a.pooling == kernels::Pooling::kSingle) return s;
  s += field("mask", mask_name(a.mask)) + field("pad_id", int64_t{a.pad_id}) +
       field("pad_side", pad_side_name(a.pad_side)) + field("max_len", a.max_len);
  if (a.eps != 0) s += field("eps", a.eps);
  if (a.empty != 0) s += field("empty", a.empty);
  return s;
}

std::string embed_text(const OpText& t) {
  const auto& e = t.as<kernels::EmbedAttrs>();
  std::string s = pooling_name(e.pooling);
  if (e.max_len > 0) s += " max_len " + std::to_string(e.max_len);
  if (e.pooling != kernels::Pooling::kSingle) s += std::string(" mask ") + mask_name(e.mask);
  return s;
}

}  // namespace ops

kernels::EmbedArgs embed_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::EmbedAttrs>(), call.inputs[0].bags, call.tables[0], output_tensor(op, call, 0)};
}

}  // namespace dpi
