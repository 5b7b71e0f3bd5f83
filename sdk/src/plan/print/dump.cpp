// Stable text of a plan: one line per table, value and op, in the plan's order. No weights, no addresses.
#include "plan/print/text.hpp"

#include "ops/table.hpp"
#include "plan/analysis/ir.hpp"

namespace dpi {
namespace {

using plan::dims_text;
using plan::number_text;

std::string value_ref(const Plan& p, int32_t v) {
  if (v < 0) return "-";
  const PlanValue& value = p.values[static_cast<size_t>(v)];
  std::string s = "%" + std::to_string(v) + ":";
  if (value.placement >= 0)
    return s + "places of '" + p.features[static_cast<size_t>(value.feature)].name + "' in t" +
           std::to_string(p.placements[static_cast<size_t>(value.placement)].table);
  if (value.is_bags) return s + "bags '" + p.features[static_cast<size_t>(value.feature)].name + "'";
  if (value.storage == Storage::kInput)
    return s + "in '" + p.features[static_cast<size_t>(value.feature)].name + "'";
  return s + dims_text(value.dims);
}

std::string refs(const Plan& p, const std::vector<int32_t>& list) {
  std::string s;
  for (int32_t v : list) s += (s.empty() ? "" : ", ") + value_ref(p, v);
  return s;
}

std::string term_text(const PlanTable::Term& t) {
  const std::string table = "#" + std::to_string(t.table);
  if (t.kind == PlanTable::Term::Kind::kDot) return "dot " + table;
  return number_text(t.factor) + " " + table + "[" + std::to_string(t.column) + "]";
}

void dump_tables(const Plan& p, std::string& out) {
  for (size_t i = 0; i < p.tables.size(); ++i) {
    const PlanTable& t = p.tables[i];
    out += "table t" + std::to_string(i) + " '" + t.name + "' [" + std::to_string(t.rows) + "," +
           std::to_string(t.dim) + "] " + kernels::name_of(t.dtype);
    if (t.source >= 0) out += " = #" + std::to_string(t.source);
    if (t.needs_nonzero) out += " nonzero-bits";
    if (t.tiered) out += " tiered";
    for (const PinnedRow& r : t.pinned)
      out += " row " + std::to_string(r.row) + " at place " + std::to_string(r.place);
    if (t.ride_with >= 0) out += " rides t" + std::to_string(t.ride_with);
    for (size_t c = 0; c < t.columns.size(); ++c) {
      out += (c ? "; " : " : ");
      for (size_t k = 0; k < t.columns[c].size(); ++k) out += (k ? " + " : "") + term_text(t.columns[c][k]);
      if (t.columns[c].empty()) out += "0";
    }
    out += "\n";
  }
}

void dump_values(const Plan& p, std::string& out) {
  for (size_t i = 0; i < p.values.size(); ++i) {
    const PlanValue& v = p.values[i];
    if (v.storage == Storage::kInput) continue;
    out += "value %" + std::to_string(i) + " '" + v.name + "' " + plan::space_name(v.space) + " " +
           dims_text(v.dims);
    switch (v.storage) {
      case Storage::kArena:
        out += " arena stride " + std::to_string(v.row_stride);
        if (v.dtype != kernels::DType::kF32) out += std::string(" ") + kernels::name_of(v.dtype);
        break;
      case Storage::kConst:
        out += " const";
        break;
      case Storage::kAlias:
        out += " = %" + std::to_string(v.base) + " from column " + std::to_string(v.column);
        break;
      case Storage::kOutput:
        out += " score " + std::to_string(v.column);
        break;
      case Storage::kLogit:
        out += " logit " + std::to_string(v.column);
        break;
      default:
        break;
    }
    out += "\n";
  }
}

void dump_lookup(const Plan& p, const PlanOp& op, std::string& out) {
  auto input = [&](int32_t i) { return value_ref(p, op.inputs[static_cast<size_t>(i)]); };
  auto fm = [](bool joins) { return joins ? " fm" : ""; };
  for (const auto& f : op.fields) {
    out += "    field " + input(f.input) + " t" + std::to_string(op.tables[static_cast<size_t>(f.table)]) +
           " " + plan::pooling_name(f.embed.pooling) +
           (f.out_col >= 0 ? " -> column " + std::to_string(f.out_col) : "") + fm(f.fm) + "\n";
  }
  for (const auto& f : op.scalars) {
    out += "    scalars " + input(f.input) + " t" + std::to_string(op.tables[static_cast<size_t>(f.table)]) +
           " " + plan::pooling_name(f.embed.pooling) + " -> channels " + std::to_string(f.first_channel) +
           "+" + std::to_string(f.count) + "\n";
  }
  for (const auto& f : op.numerics) {
    out += "    numeric " + input(f.input) + (f.vec >= 0 ? " times vector" : "") + " dim " +
           std::to_string(f.dim) + (f.out_col >= 0 ? " -> column " + std::to_string(f.out_col) : "") +
           (f.coef >= 0 ? " with coefficients" : "") + fm(f.fm) + "\n";
  }
}

void dump_op(const Plan& p, size_t i, std::string& out) {
  const PlanOp& op = p.ops[i];
  out += "op " + std::to_string(i) + " stream " + std::to_string(op.stream) + " branch " +
         std::to_string(op.branch) + " level " + std::to_string(op.level) + "  " + op_name(op.kind) + " '" +
         op.name + "' (" + refs(p, op.inputs) + ") -> (" + refs(p, op.outputs) + ")";
  std::string params;
  for (int32_t w : op.params) {
    if (w >= 0) params += " " + dims_text(p.params[static_cast<size_t>(w)].dims);
  }
  if (!params.empty() && op.kind != OpKind::kElementwise) out += " params" + params;
  if (const std::string a = plan::attrs_text(op); !a.empty()) out += " {" + a + "}";
  for (int32_t e : op.waits) out += " wait e" + std::to_string(e);
  if (op.records >= 0) out += " record e" + std::to_string(op.records);
  out += "\n";
  if (op.kind == OpKind::kMultiLookup) dump_lookup(p, op, out);
}

}  // namespace

std::string dump_plan(const Plan& p) {
  std::string out = "plan '" + p.name + "': " + std::to_string(p.ops.size()) + " ops, " +
                    std::to_string(p.n_streams) + " streams, " + std::to_string(p.n_events) + " events\n";
  dump_tables(p, out);
  dump_values(p, out);
  if (p.start_event >= 0) out += "start: stream 0 records e" + std::to_string(p.start_event) + "\n";
  for (size_t i = 0; i < p.ops.size(); ++i) dump_op(p, i, out);
  for (int32_t e : p.end_waits) out += "end: stream 0 waits e" + std::to_string(e) + "\n";
  for (const PlanHead& h : p.heads) {
    out += "head '" + h.name + "' value %" + std::to_string(h.value) +
           (h.logit >= 0 ? " logit %" + std::to_string(h.logit) : std::string()) + "\n";
  }
  for (const std::string& n : p.notes) out += "note: " + n + "\n";
  return out;
}

}  // namespace dpi
