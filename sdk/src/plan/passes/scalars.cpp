#include "plan/passes/scalars.hpp"

#include <algorithm>

#include "plan/analysis/pieces.hpp"

namespace dpi::plan {
namespace {

constexpr int64_t kMaxScalarsPerRow =
    8;  // channels that one derived row may hold: what fits the padding of a row

// Many heads, or features, that weigh the same table would each get a column of its rows (and each column is
// summed in double first): derived tables may have this many times the bytes of the bundle's, or the least.
constexpr int64_t kMostTimes = 8, kLeastBytes = 1 << 20;

/// A flat parameter; its size is taken before the data moves (the order in which arguments are evaluated is
/// not fixed).
int32_t add_vector(Plan& p, const char* name, std::vector<float> data) {
  const Dims dims = dims_of({static_cast<int64_t>(data.size())});
  return add_param(p, name, dims, std::move(data));
}

bool linear_pooling(const kernels::EmbedAttrs& e) {
  if (e.pooling == kernels::Pooling::kSingle) return true;
  return (e.pooling == kernels::Pooling::kSum || e.pooling == kernels::Pooling::kMean) &&
         e.mask != kernels::MaskRule::kNonzero;
}

/// A few of the names, and how many more.
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kSome = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kSome); ++i) text += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > kSome ? text + " and " + std::to_string(names.size() - kSome) + " more" : text;
}

}  // namespace

Scalars::Scalars(Plan& plan) : p_(plan) {
  for (size_t i = 0; i < p_.ops.size(); ++i)
    if (p_.ops[i].kind == OpKind::kEmbed) embeds_[p_.ops[i].inputs[0]].push_back(i);
  for (const PlanTable& t : p_.tables)
    budget_ = std::min(budget_ + t.rows * kernels::row_bytes_of(t.dtype, t.dim), int64_t{1} << 56);
  budget_ = std::max(kMostTimes * budget_, kLeastBytes);
}

int32_t Scalars::chan() {
  if (chan_ < 0) chan_ = add_value(p_, "lookup/channels", dims_of({1}), RowSpace::kItem);
  return chan_;
}

int32_t Scalars::channel_value(int32_t first, int32_t count, const std::string& name) {
  const int32_t base = chan();
  const int32_t v = add_value(p_, name, dims_of({count}), RowSpace::kItem);
  PlanValue& value = p_.values[static_cast<size_t>(v)];
  value.storage = Storage::kAlias;
  value.base = base;
  value.column = first;
  return v;
}

bool Scalars::can_take(const Index& index, const FormTerm& t) const {
  const PlanValue& v = value_of(p_, t.value);
  if (v.space != RowSpace::kItem) return false;
  if (v.storage == Storage::kInput) return !v.is_bags && v.dims.size() == 1;
  const PlanOp* op = producer_of(p_, index, t.value);
  if (!op) return false;
  if (op->kind == OpKind::kEmbed) {
    // A column that nothing reads may hold what is not finite: 0 times that would reach the score.
    const bool whole = std::find(t.read.begin(), t.read.end(), false) == t.read.end();
    return whole && linear_pooling(std::get<kernels::EmbedAttrs>(op->attrs)) && !keeps_explicit(index, t);
  }
  return numeric_projection(p_, *op);
}

bool Scalars::is_alone(const PlanOp& embed) const {
  return p_.tables[static_cast<size_t>(embed.tables[0])].alone;
}

const PlanTable& Scalars::table_of(const Index& index, const FormTerm& t) const {
  return p_.tables[static_cast<size_t>(producer_of(p_, index, t.value)->tables[0])];
}

bool Scalars::keeps_explicit(const Index& index, const FormTerm& t) const {
  const PlanOp* op = producer_of(p_, index, t.value);
  return op && op->kind == OpKind::kEmbed && t.weighed && is_alone(*op);
}

/// All that it adds to the channels is one column of a stored table.
bool Scalars::is_plain(const Field& f) {
  return f.terms.size() == 1 && f.terms.begin()->second.size() == 1 && f.direct_table >= 0;
}

/// True if what it adds needs no derived table, nor would be nearer in one. Kernels add columns of other
/// types up in another order than float32 ones, or round them later: a tiered table has a derived column
/// where it would have one if all were resident.
bool Scalars::reads_as_stored(const Field& f) const {
  if (!is_plain(f)) return false;
  const PlanTable& table = p_.tables[static_cast<size_t>(f.direct_table)];
  if (table.rounded) return partner_table(f, true) < 0;
  return table.tiered || partner_table(f, false) < 0;
}

/// Bytes of the table of columns first .. last of a bag's ids; 0 where a stored table is read as it is.
int64_t Scalars::derived_bytes(const Field& f) const {
  if (f.terms.empty()) return 0;
  const int32_t first = f.terms.begin()->first, last = f.terms.rbegin()->first;
  if (reads_as_stored(f)) return 0;
  return f.rows * static_cast<int64_t>(sizeof(float)) * (last - first + 1);
}

/// By how many bytes a field's table grows with columns for channels first .. last (behind those it has).
int64_t Scalars::growth(const Index& index, const FormTerm& t, int32_t first, int32_t last) {
  const PlanOp* op = producer_of(p_, index, t.value);
  if (op == nullptr || op->kind != OpKind::kEmbed) return 0;
  const PlanOp& embed = *op;
  const Field* known = find_field(embed);
  if (known == nullptr) {
    const PlanTable& table = p_.tables[static_cast<size_t>(embed.tables[0])];
    return table.rows * static_cast<int64_t>(sizeof(float)) * (last - first + 1);
  }
  const int64_t columns = last - known->terms.begin()->first + 1;
  return known->rows * static_cast<int64_t>(sizeof(float)) * columns - derived_bytes(*known);
}

bool Scalars::within_budget(int64_t growth) {
  if (growth <= budget_) return true;
  if (!noted_)
    p_.notes.push_back("fold: linear parts stay out of the lookup, their columns would take more than " +
                       std::to_string(kMostTimes) + " times the tables");
  noted_ = true;
  return false;
}

Scalars::Field* Scalars::find_field(const PlanOp& embed) {
  const auto& attrs = std::get<kernels::EmbedAttrs>(embed.attrs);
  const auto it = std::find_if(fields_.begin(), fields_.end(), [&](const Field& f) {
    return f.input == embed.inputs[0] && same_pooling(f.embed, attrs) &&
           f.own_table == (is_alone(embed) ? embed.tables[0] : -1);
  });
  return it == fields_.end() ? nullptr : &*it;
}

Scalars::Field& Scalars::field_of(const PlanOp& embed) {
  const PlanTable& table = p_.tables[static_cast<size_t>(embed.tables[0])];
  if (Field* known = find_field(embed)) {
    known->rows = std::min(known->rows, table.rows);
    return *known;
  }
  const auto& attrs = std::get<kernels::EmbedAttrs>(embed.attrs);
  Field f;
  f.input = embed.inputs[0];
  f.embed = attrs;
  f.embed.empty = 0;
  f.rows = table.rows;
  if (is_alone(embed)) f.own_table = embed.tables[0];
  fields_.push_back(std::move(f));
  return fields_.back();
}

void Scalars::add_to_channel(const Index& index, int32_t channel, const FormTerm& t) {
  if (value_of(p_, t.value).storage == Storage::kInput) {
    numerics_[t.value].lin[channel] += t.coef[0];
    return;
  }
  const PlanOp& op = *producer_of(p_, index, t.value);
  if (op.kind == OpKind::kLinear) {
    const std::vector<float>& v = param_of(p_, op.params[0]).data;
    for (size_t d = 0; d < v.size(); ++d) {
      numerics_[op.inputs[0]].lin[channel] += t.coef[d] * static_cast<double>(v[d]);
      if (op.params[1] >= 0)
        bias_[channel] += t.coef[d] * static_cast<double>(param_of(p_, op.params[1]).data[d]);
    }
    return;
  }
  Field& f = field_of(op);
  budget_ += derived_bytes(f);
  const PlanTable& table = p_.tables[static_cast<size_t>(op.tables[0])];
  PlanTable::Term term;
  term.table = table.source;
  if (table.dim == 1) {
    term.kind = PlanTable::Term::Kind::kColumn;
    term.factor = static_cast<float>(t.coef[0]);
    if (t.coef[0] == 1.0) f.direct_table = op.tables[0];
  } else {
    term.kind = PlanTable::Term::Kind::kDot;
    term.weights.assign(t.coef.begin(), t.coef.end());
  }
  f.terms[channel].push_back(std::move(term));
  budget_ -= derived_bytes(f);
}

bool Scalars::take_fm(const Index& index, const FormTerm& t, int32_t channel) {
  const PlanOp* fm = producer_of(p_, index, t.value);
  if (!fm || fm->kind != OpKind::kFm || fm_channel_ >= 0 || value_of(p_, t.value).space != RowSpace::kItem)
    return false;
  const auto& attrs = std::get<kernels::FmAttrs>(fm->attrs);
  std::vector<const PlanOp*> fields;
  for (const int32_t piece : pieces_of(p_, index, fm->inputs[0])) {
    const PlanOp* op = producer_of(p_, index, piece);
    const bool pooled = op && op->kind == OpKind::kEmbed &&
                        std::get<kernels::EmbedAttrs>(op->attrs).pooling != kernels::Pooling::kNone;
    const bool numeric = op && numeric_projection(p_, *op) && op->params[1] < 0;
    if ((!pooled && !numeric) || value_of(p_, piece).dims.size() != attrs.dim ||
        value_of(p_, piece).space != RowSpace::kItem)
      return false;
    fields.push_back(op);
  }
  fm_channel_ = channel;
  fm_dim_ = static_cast<int32_t>(attrs.dim);
  for (const PlanOp* op : fields) {
    if (op->kind == OpKind::kLinear) {
      numerics_[op->inputs[0]].fm_vectors.push_back(param_of(p_, op->params[0]).data);
      continue;
    }
    kernels::LookupField f;
    f.embed = std::get<kernels::EmbedAttrs>(op->attrs);
    f.fm = true;
    fm_fields_.push_back(f);
    fm_sources_.emplace_back(op->inputs[0], op->tables[0]);
  }
  return true;
}

/// p_l = w_l . x0 and q = w_out . x0 as channels, where x0 is made of lookups and numerics. A product over x0
/// would give them too, but a GEMM adds its terms one after another, and the closed form multiplies the error
/// that leaves in each of them: measured 2.8 times CrossV1's with 32 columns.
int32_t Scalars::cross_scalars(const Index& index, const PlanOp& cross,
                               const std::vector<std::vector<double>>& weights) {
  const auto count = static_cast<int64_t>(weights.size());
  if (count > kMaxScalarsPerRow) return -1;
  const int32_t first = n_channels_;
  if (first + count > kernels::kMaxChannels) return -1;
  std::vector<LinearForm> forms;
  std::map<int32_t, int64_t> grown;  // by value
  int64_t bytes = 0, left = room(p_);
  for (const std::vector<double>& w : weights) {
    forms.push_back(linear_form(p_, index, cross.inputs[0], w, FormDepth::kFull, left));
    left -= forms.back().floats;
    for (const std::string& op : forms.back().large) note_no_room(p_, op);
    for (FormTerm& t : forms.back().terms) {
      t.weighed = true;
      if (keeps_explicit(index, t)) explicit_.push_back(table_of(index, t).name);
      if (!can_take(index, t)) return -1;
      const int64_t by = growth(index, t, first, first + static_cast<int32_t>(count) - 1);
      if (grown.emplace(t.value, by).second) bytes += by;
    }
  }
  if (!within_budget(bytes)) return -1;
  n_channels_ += static_cast<int32_t>(count);
  for (size_t k = 0; k < forms.size(); ++k) {
    bias_[first + static_cast<int32_t>(k)] += forms[k].bias;
    for (const FormTerm& t : forms[k].terms) add_to_channel(index, first + static_cast<int32_t>(k), t);
  }
  return channel_value(first, static_cast<int32_t>(count), cross.name + "/p");
}

bool Scalars::take_cross(const Index& index, FormTerm& t) {
  const PlanOp* found = producer_of(p_, index, t.value);
  if (!found || found->kind != OpKind::kCrossV1 || !index.single_use(t.value)) return false;
  const PlanOp cross = *found;
  const auto layers = static_cast<size_t>(std::get<kernels::CrossV1Attrs>(cross.attrs).layers);
  const std::vector<float> w = param_of(p_, cross.params[0]).data;
  const std::vector<float> b = param_of(p_, cross.params[1]).data;
  const size_t n = w.size() / layers;
  std::vector<std::vector<double>> weights;
  std::vector<float> k;
  std::vector<double> c(n, 0.0);
  for (size_t l = 0; l < layers; ++l) {
    weights.emplace_back(w.begin() + static_cast<int64_t>(l * n),
                         w.begin() + static_cast<int64_t>((l + 1) * n));
    double dot = 0;
    for (size_t i = 0; i < n; ++i) {
      dot += weights.back()[i] * c[i];
      c[i] += static_cast<double>(b[l * n + i]);
    }
    k.push_back(static_cast<float>(dot));
  }
  weights.push_back(t.coef);
  const int32_t scalars = cross_scalars(index, cross, weights);
  if (scalars < 0) {
    p_.notes.push_back("fold: cross v1 '" + cross.name + "' stays, the lookup cannot sum its scalars");
    return false;
  }
  double y0 = 0;
  for (size_t i = 0; i < n; ++i) y0 += t.coef[i] * c[i];
  PlanOp op;
  op.kind = OpKind::kCrossV1Closed;
  op.name = cross.name + "/closed";
  op.module = cross.module;
  op.attrs = cross.attrs;
  op.inputs = {scalars};
  op.params = {add_param(p_, op.name + ".k", dims_of({static_cast<int64_t>(layers)}), std::move(k)),
               add_param(p_, op.name + ".y0", dims_of({1}), {static_cast<float>(y0)})};
  const int32_t y = add_value(p_, op.name, dims_of({1}), value_of(p_, t.value).space);
  op.outputs = {y};
  new_ops_.push_back(std::move(op));
  p_.notes.push_back("fold: cross v1 '" + cross.name + "' in closed form");
  t = {y, {1.0}, {}};
  return true;
}

void Scalars::take(const Index& index, LinearForm& form) {
  std::vector<FormTerm> rest;
  int32_t channel = -1;
  auto own_channel = [&] { return channel >= 0 ? channel : channel = n_channels_++; };
  for (FormTerm& t : form.terms) {
    const PlanOp* op = producer_of(p_, index, t.value);
    const int32_t next = channel >= 0 ? channel : n_channels_;
    if (next >= kernels::kMaxChannels) {  // what is behind stays in Tail
      rest.push_back(std::move(t));
    } else if (can_take(index, t) && within_budget(growth(index, t, next, next))) {
      add_to_channel(index, own_channel(), t);
    } else if (op && op->kind == OpKind::kFm && t.coef[0] == 1.0 && take_fm(index, t, next)) {
      own_channel();
    } else {
      if (keeps_explicit(index, t)) explicit_.push_back(table_of(index, t).name);
      rest.push_back(std::move(t));
    }
  }
  if (channel >= 0) {
    rest.insert(rest.begin(),
                FormTerm{channel_value(channel, 1, "lookup/sum" + std::to_string(channel)), {1.0}, {}});
    form.bias += bias_[channel];
    bias_[channel] = 0;
    p_.notes.push_back("fold: linear parts of a head in channel " + std::to_string(channel) +
                       " of the lookup");
  }
  for (FormTerm& t : rest) take_cross(index, t);
  form.terms = std::move(rest);
}

/// A stored table of the same ids whose row the scalars may ride with: the widest.
int32_t Scalars::partner_table(const Field& f, bool or_tiered) const {
  int32_t best = -1;
  const auto found = embeds_.find(f.input);
  if (found == embeds_.end()) return best;
  for (const size_t i : found->second) {
    const PlanOp& op = p_.ops[i];
    if (op.kind != OpKind::kEmbed) continue;  // dead by now
    const PlanTable& t = p_.tables[static_cast<size_t>(op.tables[0])];
    if (t.source < 0 || (t.tiered && !or_tiered) || t.rows != f.rows || t.dim < 2) continue;
    if (best < 0 || t.dim > p_.tables[static_cast<size_t>(best)].dim) best = op.tables[0];
  }
  return best;
}

void Scalars::finish_fields(PlanOp& op) {
  auto operand = [&](int32_t v) {
    const auto it = std::find(op.inputs.begin(), op.inputs.end(), v);
    if (it != op.inputs.end()) return static_cast<int32_t>(it - op.inputs.begin());
    op.inputs.push_back(v);
    return static_cast<int32_t>(op.inputs.size() - 1);
  };
  auto table_slot = [&](int32_t t) {
    const auto it = std::find(op.tables.begin(), op.tables.end(), t);
    if (it != op.tables.end()) return static_cast<int32_t>(it - op.tables.begin());
    op.tables.push_back(t);
    return static_cast<int32_t>(op.tables.size() - 1);
  };
  for (size_t i = 0; i < fm_fields_.size(); ++i) {
    fm_fields_[i].input = operand(fm_sources_[i].first);
    fm_fields_[i].table = table_slot(fm_sources_[i].second);
    op.fields.push_back(fm_fields_[i]);
  }
  for (const Field& f : fields_) {
    const int32_t first = f.terms.begin()->first, last = f.terms.rbegin()->first;
    kernels::ScalarField s;
    s.embed = f.embed;
    s.input = operand(f.input);
    s.first_channel = first;
    s.count = last - first + 1;
    int32_t table = f.direct_table;
    if (!reads_as_stored(f)) {
      p_.tables.push_back(derived_table(f));
      table = static_cast<int32_t>(p_.tables.size() - 1);
    }
    s.table = table_slot(table);
    op.scalars.push_back(s);
  }
}

PlanTable Scalars::derived_table(const Field& f) const {
  const int32_t first = f.terms.begin()->first, last = f.terms.rbegin()->first;
  PlanTable t;
  t.name = p_.features[static_cast<size_t>(value_of(p_, f.input).feature)].name + ".scalars";
  t.rows = f.rows;
  t.dim = last - first + 1;
  t.tiered = f.own_table >= 0 && p_.tables[static_cast<size_t>(f.own_table)].tiered;
  t.ride_with = t.tiered ? f.own_table : partner_table(f, false);
  t.columns.resize(static_cast<size_t>(t.dim));
  for (const auto& [c, terms] : f.terms) t.columns[static_cast<size_t>(c - first)] = terms;
  return t;
}

void Scalars::note_explicit() {
  std::sort(explicit_.begin(), explicit_.end());
  explicit_.erase(std::unique(explicit_.begin(), explicit_.end()), explicit_.end());
  if (explicit_.empty()) return;
  p_.notes.push_back(
      "fold: linear parts of " + some_of(explicit_) +
      " stay explicit: dense weights are in them, and the host tier keeps no columns of these");
}

/// A resident feature has one column for what several tables add to a channel.
void Scalars::note_apart() {
  std::vector<std::string> apart;
  const auto meet = [](const Field& a, const Field& b) {
    return std::any_of(a.terms.begin(), a.terms.end(),
                       [&b](const auto& term) { return b.terms.contains(term.first); });
  };
  for (size_t i = 0; i < fields_.size(); ++i) {
    const Field& f = fields_[i];
    const bool met =
        std::any_of(fields_.begin(), fields_.begin() + static_cast<std::ptrdiff_t>(i), [&](const Field& g) {
          return f.own_table >= 0 && g.input == f.input && same_pooling(g.embed, f.embed) && meet(f, g);
        });
    if (met) apart.push_back(p_.tables[static_cast<size_t>(f.own_table)].name);
  }
  if (apart.empty()) return;
  p_.notes.push_back("fold: scalars of " + some_of(apart) +
                     " stay apart from other tables' of the same ids: rows of the host tier come one by one");
}

/// A feature has a field per vector of FM; its coefficients ride with the first, or with a field of their
/// own.
void Scalars::finish_numerics(PlanOp& op) {
  std::vector<float> vectors, coefs;
  for (const auto& [input, numeric] : numerics_) {
    kernels::NumericField f;
    const auto it = std::find(op.inputs.begin(), op.inputs.end(), input);
    f.input = static_cast<int32_t>(it - op.inputs.begin());
    if (it == op.inputs.end()) op.inputs.push_back(input);
    if (!numeric.lin.empty()) {
      f.coef = static_cast<int32_t>(coefs.size());
      coefs.resize(coefs.size() + static_cast<size_t>(n_channels_), 0.0f);
      for (const auto& [c, v] : numeric.lin) coefs[static_cast<size_t>(f.coef + c)] = static_cast<float>(v);
    }
    if (numeric.fm_vectors.empty()) op.numerics.push_back(f);
    for (const std::vector<float>& v : numeric.fm_vectors) {
      f.vec = static_cast<int32_t>(vectors.size());
      f.dim = static_cast<int32_t>(v.size());
      f.fm = true;
      vectors.insert(vectors.end(), v.begin(), v.end());
      op.numerics.push_back(f);
      f.coef = -1;
    }
  }
  if (!vectors.empty()) op.params[0] = add_vector(p_, "lookup.vectors", std::move(vectors));
  if (!coefs.empty()) op.params[1] = add_vector(p_, "lookup.coefficients", std::move(coefs));
}

void Scalars::finish() {
  for (PlanOp& op : new_ops_) p_.ops.push_back(std::move(op));
  new_ops_.clear();
  note_explicit();
  note_apart();
  if (n_channels_ == 0) return;
  PlanOp op;
  op.kind = OpKind::kMultiLookup;
  op.name = "lookup";
  kernels::MultiLookupAttrs attrs;
  attrs.n_channels = n_channels_;
  attrs.fm_channel = fm_channel_;
  attrs.fm_dim = fm_channel_ >= 0 ? fm_dim_ : 0;
  op.attrs = attrs;
  op.params = {-1, -1, -1};
  finish_fields(op);
  finish_numerics(op);
  std::vector<float> bias(static_cast<size_t>(n_channels_), 0.0f);
  bool any = false;
  for (const auto& [c, b] : bias_) {
    bias[static_cast<size_t>(c)] = static_cast<float>(b);
    any |= b != 0;
  }
  if (any) op.params[2] = add_param(p_, "lookup.bias", dims_of({n_channels_}), std::move(bias));
  PlanValue& chan = p_.values[static_cast<size_t>(chan_)];
  chan.dims = dims_of({n_channels_});
  chan.row_stride = n_channels_;
  for (PlanValue& v : p_.values) {
    if (v.storage == Storage::kAlias && v.base == chan_) v.row_stride = n_channels_;
  }
  op.outputs = {-1, chan_};
  p_.ops.push_back(std::move(op));
}

}  // namespace dpi::plan
