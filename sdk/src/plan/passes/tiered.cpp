// Lookups in tiered tables read places instead of row numbers: each pair of a feature and a tiered table gets
// an input of its own, which the store fills per call (store/table_store.hpp).
#include <algorithm>
#include <map>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

class Placer {
 public:
  explicit Placer(Plan& plan) : p_(plan) {}

  void run() {
    for (PlanOp& op : p_.ops) {
      if (op.kind == OpKind::kEmbed) place_embed(op);
      if (op.kind == OpKind::kMultiLookup) place_lookup(op);
      if (op.kind == OpKind::kCoAction) place_history(op);
    }
  }

 private:
  bool tiered(const PlanOp& op, int32_t table) const {
    return p_.tables[static_cast<size_t>(op.tables[static_cast<size_t>(table)])].tiered;
  }

  /// The table at whose places the rows are read.
  int32_t rows_of(int32_t table) const {
    const PlanTable& t = p_.tables[static_cast<size_t>(table)];
    return t.source < 0 ? t.ride_with : table;
  }

  /// The value with the places in `table` of the ids in `bags`.
  int32_t places_of(int32_t bags, int32_t table) {
    const PlanValue& ids = value_of(p_, bags);
    const auto [at, fresh] = made_.try_emplace({ids.feature, table}, static_cast<int32_t>(p_.values.size()));
    if (!fresh) return at->second;
    PlanValue v = ids;
    v.name = ids.name + " in " + p_.tables[static_cast<size_t>(table)].name;
    v.placement = static_cast<int32_t>(p_.placements.size());
    p_.placements.push_back({ids.feature, table});
    p_.values.push_back(std::move(v));
    return at->second;
  }

  /// Kernels read the padding's row, or compare ids with it, by a number that is fixed in the op.
  void pin_padding(int32_t table, int32_t* pad_id) {
    auto& pinned = p_.tables[static_cast<size_t>(table)].pinned;
    auto at =
        std::find_if(pinned.begin(), pinned.end(), [pad_id](const PinnedRow& r) { return r.row == *pad_id; });
    if (at == pinned.end()) at = pinned.insert(at, {*pad_id, n_pinned_++});
    *pad_id = at->place;
  }
  void pin_padding(int32_t table, kernels::EmbedAttrs* attrs) {
    if (attrs->pooling != kernels::Pooling::kSingle) pin_padding(table, &attrs->pad_id);
  }

  void place_embed(PlanOp& op) {
    if (!tiered(op, 0)) return;
    pin_padding(op.tables[0], &std::get<kernels::EmbedAttrs>(op.attrs));
    op.inputs[0] = places_of(op.inputs[0], op.tables[0]);
  }

  void place_history(PlanOp& op) {
    if (op.tables.empty() || !tiered(op, 0)) return;
    pin_padding(op.tables[0], &std::get<kernels::CoActionAttrs>(op.attrs).pad_id);
    op.inputs[1] = places_of(op.inputs[1], op.tables[0]);
  }

  void place_lookup(PlanOp& op) {
    const auto in_tiers = [this](int32_t t) { return p_.tables[static_cast<size_t>(t)].tiered; };
    if (std::none_of(op.tables.begin(), op.tables.end(), in_tiers)) return;
    std::vector<int32_t> inputs;  // those that are still read, in the order in which fields name them
    const auto operand = [&inputs](int32_t value) {
      const auto at = std::find(inputs.begin(), inputs.end(), value);
      if (at != inputs.end()) return static_cast<int32_t>(at - inputs.begin());
      inputs.push_back(value);
      return static_cast<int32_t>(inputs.size() - 1);
    };
    const auto place = [&](auto& field) {
      int32_t value = op.inputs[static_cast<size_t>(field.input)];
      if (tiered(op, field.table)) {
        const int32_t table = rows_of(op.tables[static_cast<size_t>(field.table)]);
        pin_padding(table, &field.embed);
        value = places_of(value, table);
      }
      field.input = operand(value);
    };
    for (auto& f : op.fields) place(f);
    for (auto& f : op.scalars) place(f);
    for (auto& f : op.numerics) f.input = operand(op.inputs[static_cast<size_t>(f.input)]);
    op.inputs = std::move(inputs);
  }

  Plan& p_;
  std::map<std::pair<int32_t, int32_t>, int32_t> made_;  // (feature, table) -> value
  int32_t n_pinned_ = 0;
};

}  // namespace

Result<Plan> mark_tiered(Plan plan, const PlanOptions& options) {
  for (const std::string& name : options.tiered) {
    bool found = false;
    for (PlanTable& t : plan.tables) {
      if (t.source < 0 || t.name != name) continue;
      t.tiered = found = true;
    }
    if (!found) return invalid_argument("the model looks nothing up in a table '" + name + "'");
  }
  for (PlanTable& t : plan.tables) {
    const auto& may = options.may_tier;
    if (t.source < 0 || std::find(may.begin(), may.end(), t.name) == may.end()) continue;
    t.tiered = !t.needs_nonzero;
    if (t.needs_nonzero)
      plan.notes.push_back("table '" + t.name + "' stays resident: a mask asks which of its rows are zero");
  }
  for (PlanTable& t : plan.tables) {
    t.alone = t.tiered || options.fold_as_tiered;
    t.rounded = t.dtype != kernels::DType::kF32 || options.activation != kernels::DType::kF32;
  }
  return plan;
}

Plan place_tiered(Plan plan) {
  Placer(plan).run();
  return plan;
}

}  // namespace dpi::plan
