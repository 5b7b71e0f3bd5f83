// All lookups of a row space become one MultiLookup that writes each row's columns where the
// consumers want them; Concat, slices and reshapes become places in a common buffer instead of copies.
//
// A value's place is a column of a root buffer. Views move nothing; a contiguous Concat takes its inputs in
// as columns when nobody else has placed them; whatever a lookup produces ends in the lookup's matrix.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "plan/analysis/form.hpp"
#include "plan/analysis/pieces.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

struct ArenaPlace {
  int32_t root = -1;
  int64_t column = 0;
};

/// One source of a lookup: an Embed, a numeric projection or a raw numeric, and the value it fills.
struct ColumnSource {
  int32_t op = -1;  // -1: raw numeric `input`
  int32_t input = -1;
  int32_t value = -1;
};

class LookupColumns {
 public:
  LookupColumns(Plan& plan, int64_t align)
      : p_(plan), ix_(index_of(plan)), align_(std::max<int64_t>(align, 1)) {
    grow();
  }

  void run() {
    place_views();
    collect_sources();
    place_concats();
    for (RowSpace space : {RowSpace::kShared, RowSpace::kItem}) make_lookup(space);
    apply();
  }

 private:
  void grow() {
    while (parent_.size() < p_.values.size()) parent_.push_back({static_cast<int32_t>(parent_.size()), 0});
    taken_.resize(p_.values.size(), 0);
  }

  ArenaPlace find(int32_t v) const {
    ArenaPlace at{v, 0};
    while (parent_[static_cast<size_t>(at.root)].root != at.root) {
      const ArenaPlace& up = parent_[static_cast<size_t>(at.root)];
      at = {up.root, at.column + up.column};
    }
    return at;
  }

  bool in_arena(int32_t v) const { return value_of(p_, v).storage == Storage::kArena && ix_producer(v) >= 0; }
  int32_t ix_producer(int32_t v) const {
    return static_cast<size_t>(v) < ix_.producer.size() ? ix_.producer[static_cast<size_t>(v)] : -1;
  }

  void put(int32_t v, int32_t root, int64_t column) {
    parent_[static_cast<size_t>(v)] = {root, column};
    taken_[static_cast<size_t>(v)] = 1;
  }

  // ---- views

  /// Column of the input at which the view's elements lie in order, or -1.
  int64_t view_offset(const PlanOp& op) const {
    const auto& v = std::get<kernels::ViewAttrs>(op.attrs);
    const Dims& x = value_of(p_, op.inputs[0]).dims;
    const Dims& y = value_of(p_, op.outputs[0]).dims;
    switch (v.kind) {
      case kernels::ViewKind::kReshape:
        return 0;
      case kernels::ViewKind::kExpand:
        return x.size() == y.size() ? 0 : -1;
      case kernels::ViewKind::kSlice:
        return leading_ones(x, v.axis) ? v.begin * (x.size() / x.d[v.axis]) : -1;
      default:
        return -1;
    }
  }

  void place_views() {
    for (PlanOp& op : p_.ops) {
      if (op.kind != OpKind::kView || !in_arena(op.inputs[0])) continue;
      const int64_t offset = view_offset(op);
      if (offset < 0) continue;
      put(op.outputs[0], op.inputs[0], offset);
      kill(op);
    }
  }

  // ---- what a lookup can fill

  void collect_sources() {
    source_of_.assign(p_.values.size(), -1);
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const PlanOp& op = p_.ops[i];
      const bool embed = op.kind == OpKind::kEmbed &&
                         std::get<kernels::EmbedAttrs>(op.attrs).pooling != kernels::Pooling::kNone;
      const bool projection = numeric_projection(p_, op) && op.params[1] < 0;
      if (!embed && !projection) continue;
      source_of_[static_cast<size_t>(op.outputs[0])] = static_cast<int32_t>(sources_.size());
      sources_.push_back({static_cast<int32_t>(i), op.inputs[0], op.outputs[0]});
    }
  }

  // ---- Concat

  void place_concats() {
    std::vector<int32_t> concats;
    for (size_t i = 0; i < p_.ops.size(); ++i) {
      const PlanOp& op = p_.ops[i];
      if (op.kind != OpKind::kConcat) continue;
      const PlanValue& out = value_of(p_, op.outputs[0]);
      if (leading_ones(out.dims, std::get<kernels::ConcatAttrs>(op.attrs).axis) &&
          out.space != RowSpace::kConstant) {
        concats.push_back(static_cast<int32_t>(i));
      }
    }
    std::sort(concats.begin(), concats.end(),
              [&](int32_t a, int32_t b) { return width(a) != width(b) ? width(a) > width(b) : a < b; });
    for (int32_t i : concats) place_concat(i);
  }

  int64_t width(int32_t op) const {
    return value_of(p_, p_.ops[static_cast<size_t>(op)].outputs[0]).dims.size();
  }

  /// The inputs already stand side by side in one buffer.
  bool lies_in_order(const PlanOp& op, ArenaPlace* at) const {
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (!in_arena(op.inputs[k])) return false;
      const ArenaPlace here = find(op.inputs[k]);
      if (k == 0) {
        *at = here;
        if (value_of(p_, here.root).storage != Storage::kArena) return false;
      }
      if (here.root != at->root) return false;
      int64_t before = 0;
      for (size_t j = 0; j < k; ++j) before += value_of(p_, op.inputs[j]).dims.size();
      if (here.column != at->column + before) return false;
    }
    return true;
  }

  void place_concat(int32_t index) {
    const PlanOp op = p_.ops[static_cast<size_t>(index)];
    const int32_t out = op.outputs[0];
    if (ArenaPlace at; op.inputs.size() > 1 && !taken_[static_cast<size_t>(out)] && lies_in_order(op, &at)) {
      put(out, at.root, at.column);
      kill(p_.ops[static_cast<size_t>(index)]);
      return;
    }
    int64_t column = 0;
    for (int32_t v : op.inputs) {
      place_input(v, out, column, op.name);
      column += value_of(p_, v).dims.size();
    }
    kill(p_.ops[static_cast<size_t>(index)]);
  }

  void place_input(int32_t v, int32_t out, int64_t column, const std::string& name) {
    const PlanValue value = value_of(p_, v);
    const ArenaPlace at = find(v);
    const bool same_rows = value.space == value_of(p_, out).space;
    const bool whole = at.column == 0 && value_of(p_, at.root).dims.size() == value.dims.size();
    const bool fresh =
        in_arena(v) && whole && !taken_[static_cast<size_t>(at.root)] && at.root != find(out).root;
    if (fresh && same_rows && value_of(p_, at.root).storage == Storage::kArena) {
      put(at.root, out, column);
      return;
    }
    const int32_t copy = add_value(p_, name + "/" + value.name, value.dims, value_of(p_, out).space);
    grow();
    put(copy, out, column);
    const int32_t source =
        static_cast<size_t>(v) < source_of_.size() ? source_of_[static_cast<size_t>(v)] : -1;
    if (source >= 0 && same_rows) {
      sources_.push_back(
          {sources_[static_cast<size_t>(source)].op, sources_[static_cast<size_t>(source)].input, copy});
    } else if (value.storage == Storage::kInput && !value.is_bags && same_rows) {
      sources_.push_back({-1, v, copy});
    } else {
      add_copy(v, copy, name);
    }
  }

  void add_copy(int32_t from, int32_t to, const std::string& name) {
    PlanOp op;
    op.kind = OpKind::kUnary;
    op.name = name + "/copy";
    op.attrs = kernels::UnaryAttrs{};
    op.inputs = {from};
    op.outputs = {to};
    op.params = {-1, -1, -1};
    copies_.push_back(std::move(op));
  }

  // ---- the lookup

  /// The MultiLookup that an earlier pass made for its channels, or a new one.
  PlanOp& lookup_op(RowSpace space) {
    for (PlanOp& op : p_.ops) {
      if (op.kind == OpKind::kMultiLookup && value_of(p_, op.inputs[0]).space == space) return op;
    }
    PlanOp op;
    op.kind = OpKind::kMultiLookup;
    op.name = space == RowSpace::kShared ? "lookup_shared" : "lookup";
    op.attrs = kernels::MultiLookupAttrs{};
    op.outputs = {-1, -1};
    op.params = {-1, -1, -1};
    p_.ops.push_back(std::move(op));
    return p_.ops.back();
  }

  void make_lookup(RowSpace space) {
    std::vector<ColumnSource> mine;
    for (const ColumnSource& s : sources_) {
      if (value_of(p_, s.value).space == space) mine.push_back(s);
    }
    if (mine.empty()) return;
    const int32_t matrix = make_matrix(mine, space);
    PlanOp& op = lookup_op(space);
    op.outputs[0] = matrix;
    std::vector<float> vectors = op.params[0] >= 0 ? param_of(p_, op.params[0]).data : std::vector<float>();
    for (const ColumnSource& s : mine) add_source(op, s, find(s.value).column, vectors);
    if (!vectors.empty()) {
      const auto n = static_cast<int64_t>(vectors.size());
      op.params[0] = add_param(p_, op.name + ".vectors", dims_of({n}), std::move(vectors));
    }
  }

  /// The buffer that holds all roots of these sources: the root itself when there is one, else a new value.
  int32_t make_matrix(const std::vector<ColumnSource>& mine, RowSpace space) {
    std::vector<int32_t> roots;
    for (const ColumnSource& s : mine) {
      const int32_t r = find(s.value).root;
      if (std::find(roots.begin(), roots.end(), r) == roots.end()) roots.push_back(r);
    }
    if (roots.size() == 1) return roots[0];
    const std::vector<int32_t> met = roots;
    std::sort(roots.begin(), roots.end(), [&](int32_t a, int32_t b) {
      const int64_t wide_a = value_of(p_, a).dims.size(), wide_b = value_of(p_, b).dims.size();
      if (wide_a != wide_b) return wide_a > wide_b;
      return std::find(met.begin(), met.end(), a) < std::find(met.begin(), met.end(), b);
    });
    int64_t at = 0;
    std::vector<std::pair<int32_t, int64_t>> columns;
    for (int32_t r : roots) {
      const int64_t n = value_of(p_, r).dims.size();
      if (n >= align_) at = (at + align_ - 1) / align_ * align_;
      columns.emplace_back(r, at);
      at += n;
    }
    const int32_t matrix =
        add_value(p_, space == RowSpace::kShared ? "lookup_shared" : "lookup", dims_of({at}), space);
    grow();
    for (const auto& [r, c] : columns) put(r, matrix, c);
    return matrix;
  }

  int32_t operand(PlanOp& op, int32_t v) {
    const auto it = std::find(op.inputs.begin(), op.inputs.end(), v);
    if (it != op.inputs.end()) return static_cast<int32_t>(it - op.inputs.begin());
    op.inputs.push_back(v);
    return static_cast<int32_t>(op.inputs.size() - 1);
  }

  void add_source(PlanOp& op, const ColumnSource& s, int64_t column, std::vector<float>& vectors) {
    const auto col = static_cast<int32_t>(column);
    const auto dim = static_cast<int32_t>(value_of(p_, s.value).dims.size());
    if (s.op >= 0 && embeds_.contains(s.op)) {
      add_embed(op, embeds_.at(s.op), col);
      return;
    }
    if (s.op >= 0 && p_.ops[static_cast<size_t>(s.op)].kind == OpKind::kEmbed) {
      embeds_[s.op] = p_.ops[static_cast<size_t>(s.op)];
      add_embed(op, embeds_.at(s.op), col);
      return;
    }
    kernels::NumericField f;
    f.input = operand(op, s.input);
    f.out_col = col;
    f.dim = dim;
    if (s.op >= 0) {
      const std::vector<float>& v = param_of(p_, p_.ops[static_cast<size_t>(s.op)].params[0]).data;
      f.vec = static_cast<int32_t>(vectors.size());
      vectors.insert(vectors.end(), v.begin(), v.end());
    }
    op.numerics.push_back(f);
  }

  void add_embed(PlanOp& op, const PlanOp& embed, int32_t column) {
    const auto& attrs = std::get<kernels::EmbedAttrs>(embed.attrs);
    const int32_t input = operand(op, embed.inputs[0]);
    const auto it = std::find(op.tables.begin(), op.tables.end(), embed.tables[0]);
    const auto table = static_cast<int32_t>(it - op.tables.begin());
    if (it == op.tables.end()) op.tables.push_back(embed.tables[0]);
    for (kernels::LookupField& f : op.fields) {
      if (f.out_col >= 0 || f.input != input || f.table != table || !same_pooling(f.embed, attrs)) continue;
      f.out_col = column;  // the field that already reads these rows for FM
      return;
    }
    kernels::LookupField f;
    f.embed = attrs;
    f.input = input;
    f.table = table;
    f.out_col = column;
    op.fields.push_back(f);
  }

  // ---- the result

  void apply() {
    for (const ColumnSource& s : sources_) {
      if (s.op >= 0) kill(p_.ops[static_cast<size_t>(s.op)]);
    }
    for (PlanOp& c : copies_) p_.ops.push_back(std::move(c));
    for (size_t v = 0; v < parent_.size(); ++v) {
      PlanValue& value = p_.values[v];
      if (value.storage == Storage::kArena && find(static_cast<int32_t>(v)).root == static_cast<int32_t>(v)) {
        const int64_t n = value.dims.size();
        value.row_stride = n >= align_ ? (n + align_ - 1) / align_ * align_ : n;
      }
    }
    for (size_t v = 0; v < parent_.size(); ++v) {
      PlanValue& value = p_.values[v];
      if (value.storage == Storage::kAlias) {  // made by an earlier pass
        value.row_stride = value_of(p_, value.base).row_stride;
        continue;
      }
      const ArenaPlace at = find(static_cast<int32_t>(v));
      if (at.root == static_cast<int32_t>(v) || value.storage != Storage::kArena) continue;
      value.storage = Storage::kAlias;
      value.base = at.root;
      value.column = at.column;
      value.row_stride = value_of(p_, at.root).row_stride;
    }
  }

  Plan& p_;
  Index ix_;
  int64_t align_;
  std::vector<ArenaPlace> parent_;
  std::vector<char> taken_;  // has a place in another buffer
  std::vector<ColumnSource> sources_;
  std::vector<int32_t> source_of_;  // by value
  std::map<int32_t, PlanOp> embeds_;
  std::vector<PlanOp> copies_;
};

}  // namespace

Result<Plan> fuse_lookup(Plan p, int32_t column_align) {
  LookupColumns(p, column_align).run();
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
