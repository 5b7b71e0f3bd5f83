#include "runtime/load/row_groups.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/load/derived_sums.hpp"
#include "store/resident/spare_rows.hpp"

namespace dpi {

namespace {

/// Least size of a group's largest table: spare rows take whole huge pages; less is copied in a moment.
constexpr int64_t kLargeBytes = int64_t{4} << 20;

/// Finds which tables and features belong together.
class Grouper {
 public:
  explicit Grouper(const Plan& plan) : plan_(plan), parent_(plan.tables.size() + plan.features.size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    pads_.resize(parent_.size());
    other_use_.resize(parent_.size(), false);
    for (const PlanOp& op : plan.ops) look_at(op);
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      if (plan.tables[t].ride_with >= 0) join(static_cast<int32_t>(t), plan.tables[t].ride_with);
    }
  }

  std::vector<RowGroup> run() {
    std::vector<RowGroup> groups(parent_.size());
    std::vector<bool> other(parent_.size(), false);
    const auto tables = static_cast<int32_t>(plan_.tables.size());
    for (int32_t i = 0; i < static_cast<int32_t>(parent_.size()); ++i) {
      RowGroup& g = groups[static_cast<size_t>(find(i))];
      (i < tables ? g.tables : g.features).push_back(i < tables ? i : i - tables);
      const auto at = static_cast<size_t>(i);
      g.fixed.insert(g.fixed.end(), pads_[at].begin(), pads_[at].end());
      if (other_use_[at]) other[static_cast<size_t>(find(i))] = true;
    }
    std::vector<RowGroup> whole;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (!other[g] && !groups[g].tables.empty() && !groups[g].features.empty())
        whole.push_back(std::move(groups[g]));
    }
    return whole;
  }

 private:
  int32_t find(int32_t i) {
    while (parent_[static_cast<size_t>(i)] != i) i = parent_[static_cast<size_t>(i)];
    return i;
  }
  void join(int32_t a, int32_t b) {
    a = find(a), b = find(b);
    parent_[static_cast<size_t>(std::max(a, b))] = std::min(a, b);
  }
  int32_t node_of(int32_t feature) const { return static_cast<int32_t>(plan_.tables.size()) + feature; }

  void add(const PlanOp& op, int32_t table, int32_t input, int64_t pad) {
    const PlanValue& ids = plan_.values[static_cast<size_t>(op.inputs[static_cast<size_t>(input)])];
    if (ids.placement >= 0) return;  // the store writes where its rows are
    join(op.tables[static_cast<size_t>(table)], node_of(ids.feature));
    if (pad >= 0) pads_[static_cast<size_t>(node_of(ids.feature))].push_back(pad);
  }
  static int64_t pad_of(const kernels::EmbedAttrs& a) {
    return a.pooling == kernels::Pooling::kSingle ? -1 : a.pad_id;
  }

  void look_at(const PlanOp& op) {
    if (op.kind == OpKind::kEmbed) return add(op, 0, 0, pad_of(std::get<kernels::EmbedAttrs>(op.attrs)));
    if (op.kind == OpKind::kMultiLookup) {
      for (const auto& f : op.fields) add(op, f.table, f.input, pad_of(f.embed));
      for (const auto& f : op.scalars) add(op, f.table, f.input, pad_of(f.embed));
      return;
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) look_at_input(op, i);
    if (op.kind == OpKind::kCoAction) return;
    for (const int32_t t : op.tables) other_use_[static_cast<size_t>(t)] = true;
  }

  void look_at_input(const PlanOp& op, size_t input) {
    if (op.inputs[input] < 0) return;
    const PlanValue& v = plan_.values[static_cast<size_t>(op.inputs[input])];
    if (!v.is_bags || v.placement >= 0 || v.feature < 0) return;
    if (op.kind == OpKind::kCoAction && !op.tables.empty() && input == 1)
      return add(op, 0, 1, std::get<kernels::CoActionAttrs>(op.attrs).pad_id);
    const auto node = static_cast<size_t>(node_of(v.feature));
    if (op.kind == OpKind::kMask)
      pads_[node].push_back(std::get<kernels::MaskAttrs>(op.attrs).pad_id);
    else
      other_use_[node] = true;
  }

  const Plan& plan_;
  std::vector<int32_t> parent_;  // tables, then features
  std::vector<std::vector<int64_t>> pads_;
  std::vector<bool> other_use_;
};

bool may_have_spare_rows(const Bundle& bundle, const Plan& plan, const RowGroup& g) {
  bool large = false;
  for (const int32_t i : g.tables) {
    const PlanTable& t = plan.tables[static_cast<size_t>(i)];
    if (t.tiered || t.needs_nonzero || t.rows != plan.tables[static_cast<size_t>(g.tables[0])].rows)
      return false;
    if (t.source >= 0 && bundle.manifest().tables[static_cast<size_t>(t.source)].external) return false;
    large = large || t.rows >= kLargeBytes / kernels::row_bytes_of(t.dtype, t.dim);
  }
  return large;
}

/// Adds the rows of a table of the bundle that are others than in the base. False: more than `most` do, or
/// rows have moved.
bool add_changed(const RowHistory& history, int64_t rows, size_t most, std::vector<int32_t>* changed) {
  for (int64_t row = 0; row < rows;) {
    const RowHistory::Run run = history.at(row, rows);
    if (run.before >= 0 && run.before != row) return false;
    if (run.before < 0) {
      if (changed->size() + static_cast<size_t>(run.rows) > most) return false;
      for (int64_t r = 0; r < run.rows; ++r) changed->push_back(static_cast<int32_t>(row + r));
    }
    row += run.rows;
  }
  return true;
}

/// One group while it is looked at.
struct Taking {
  const Bundle& bundle;
  const Plan& plan;
  const LoadBase& base;
  const RowGroup& group;
  std::vector<StoreTable>& tables;

  /// Where the base has all its tables side by side; null = it has not.
  std::shared_ptr<RowVersion> before() const {
    std::shared_ptr<RowVersion> version;
    for (const int32_t i : group.tables) {
      const StoreTable& t = tables[static_cast<size_t>(i)];
      if (t.before.version == nullptr || t.before.count != t.rows || t.before.terms != t.terms)
        return nullptr;
      if (version != nullptr && t.before.version != version) return nullptr;
      version = t.before.version;
    }
    return version != nullptr && version->rows().spare() == tables[static_cast<size_t>(group.tables[0])].spare
               ? version
               : nullptr;
  }

  /// By rising number; false where they cannot lie elsewhere.
  bool changed_rows(size_t most, std::vector<int32_t>* changed) const {
    const auto& specs = bundle.manifest().tables;
    for (size_t s = 0; s < specs.size(); ++s) {
      const auto reads = [&](int32_t i) {
        const PlanTable& t = plan.tables[static_cast<size_t>(i)];
        return t.source == static_cast<int32_t>(s) || is_derived_from(t, static_cast<int32_t>(s));
      };
      if (std::none_of(group.tables.begin(), group.tables.end(), reads)) continue;
      const size_t before = changed->size();
      if (!add_changed(base.rows[s], specs[s].rows, most + before, changed)) return false;
      const auto is_changed = [&](int64_t row) {
        return std::binary_search(changed->begin() + static_cast<int64_t>(before), changed->end(), row);
      };
      if (std::any_of(base.pads[s].begin(), base.pads[s].end(), is_changed)) return false;
    }
    std::sort(changed->begin(), changed->end());
    changed->erase(std::unique(changed->begin(), changed->end()), changed->end());
    return std::none_of(group.fixed.begin(), group.fixed.end(), [&](int64_t row) {
      return std::binary_search(changed->begin(), changed->end(), row);
    });
  }
};

}  // namespace

std::vector<RowGroup> row_groups(const Bundle& bundle, const Plan& plan) {
  std::vector<RowGroup> groups = Grouper(plan).run();
  std::erase_if(groups, [&](const RowGroup& g) { return !may_have_spare_rows(bundle, plan, g); });
  return groups;
}

void take_rows_over(const Bundle& bundle, const Plan& plan, const LoadBase& base,
                    const std::function<void(const std::string& text)>& note,
                    std::vector<StoreTable>* tables) {
  for (const RowGroup& group : row_groups(bundle, plan)) {
    const Taking taking{bundle, plan, base, group, *tables};
    const std::shared_ptr<RowVersion> before = taking.before();
    if (before == nullptr) continue;
    std::vector<int32_t> changed;
    const auto most = static_cast<size_t>(before->rows().spare());
    std::shared_ptr<RowVersion> next;
    if (taking.changed_rows(most, &changed)) next = before->rows().next(*before, changed);
    if (next == nullptr)
      note("table '" + plan.tables[static_cast<size_t>(group.tables[0])].name +
           "' is copied with what changes: of " + std::to_string(most) + " spare rows " +
           std::to_string(before->rows().free_rows()) +
           " are free, and rows that move, padding or more of them change");
    for (const int32_t t : group.tables) (*tables)[static_cast<size_t>(t)].version = next;
  }
}

}  // namespace dpi
