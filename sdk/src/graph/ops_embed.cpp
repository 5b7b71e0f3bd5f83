// Embed and Mask: what is made of a feature's ids.
#include "graph/op_table.hpp"

namespace dpi::graph_build {
namespace {

using kernels::EmbedAttrs;
using kernels::MaskRule;
using kernels::Pooling;

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
  const auto it = c.state().table_by_name.find(table_name);
  if (it == c.state().table_by_name.end()) return c.bad("table '" + table_name + "' does not exist");
  c.node().table = it->second;
  const TableSpec& table = c.state().graph.tables[it->second];
  if (f->vocab_size > table.rows) {
    return c.bad("feature '" + f->name + "' has vocab_size " + std::to_string(f->vocab_size) + ", table '" +
                 table.name + "' has " + std::to_string(table.rows) + " rows");
  }
  EmbedAttrs a;
  DPI_ASSIGN_OR_RETURN(a.pooling, c.choice<Pooling>("pooling",
                                                    {{"single", Pooling::kSingle},
                                                     {"none", Pooling::kNone},
                                                     {"sum", Pooling::kSum},
                                                     {"mean", Pooling::kMean},
                                                     {"max", Pooling::kMax}},
                                                    Pooling::kSingle));
  DPI_ASSIGN_OR_RETURN(a.mask, c.choice<MaskRule>("mask",
                                                  {{"length", MaskRule::kLength},
                                                   {"id", MaskRule::kId},
                                                   {"none", MaskRule::kNone},
                                                   {"nonzero", MaskRule::kNonzero}},
                                                  MaskRule::kLength));
  DPI_ASSIGN_OR_RETURN(a.eps, c.number("eps", 0.0f));
  DPI_ASSIGN_OR_RETURN(a.empty, c.number("empty", 0.0f));
  a.pad_side = f->pad_side;
  a.pad_id = static_cast<int32_t>(f->pad_id);
  a.max_len = f->max_len;
  DPI_ASSIGN_OR_RETURN(const std::string pooling, c.text("pooling", "single"));
  DPI_RETURN_IF_ERROR(check_pooling(c, a, *f, pooling));
  c.node().attrs = a;
  if (a.pooling == Pooling::kNone) return append(append({}, f->max_len), table.dim);
  return append({}, table.dim);
}

Result<Dims> infer_mask(OpContext& c) {
  kernels::MaskAttrs a;
  DPI_ASSIGN_OR_RETURN(a.rule, c.choice<MaskRule>("rule", {{"id", MaskRule::kId},
                                                           {"length", MaskRule::kLength},
                                                           {"nonzero", MaskRule::kNonzero}}));
  if (a.rule == MaskRule::kNonzero) {
    DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
    if (x.rank != 2) return c.bad("x is " + text_of(x) + ", rule 'nonzero' expects [T, D]");
    a.max_len = x.d[0];
    c.node().attrs = a;
    return append({}, x.d[0]);
  }
  DPI_ASSIGN_OR_RETURN(const FeatureSpec* f, c.bags(0));
  if (f->kind != FeatureKind::kSequence || f->max_len == 0) {
    return c.bad("feature '" + f->name + "' is not a sequence with max_len > 0");
  }
  a.pad_side = f->pad_side;
  a.pad_id = static_cast<int32_t>(f->pad_id);
  a.max_len = f->max_len;
  c.node().attrs = a;
  return append({}, f->max_len);
}

}  // namespace dpi::graph_build
