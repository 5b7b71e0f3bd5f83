#include "backend/cuda/small_batch/model.hpp"

#include <algorithm>
#include <iterator>
#include <map>

#include "kernels/cuda/small_batch/program.hpp"
#include "ops/check_op.hpp"
#include "ops/table.hpp"

namespace dpi::backend::small_batch {
namespace {

using kernels::OpKind;
namespace cuda = kernels::cuda;
namespace gpu = kernels::cuda::small_batch;

constexpr int64_t kMaxColumns = 1 << 20;

class Builder {
 public:
  Builder(const dpi_small_batch_desc& desc, Order order) : desc_(desc), order_(order) {}

  Result<BatchModel> build() {
    for (int32_t i = 0; i < desc_.n_ops; ++i) {
      DPI_ASSIGN_OR_RETURN(OwnedOp op, own_op(desc_.ops[i]));
      DPI_RETURN_IF_ERROR(check_op(op, true));
      DPI_RETURN_IF_ERROR(check_kind(op));
      m_.ops.push_back(std::move(op));
    }
    for (int32_t i = 0; i < desc_.n_ops; ++i) DPI_RETURN_IF_ERROR(note_outputs(i));
    for (int32_t i = 0; i < desc_.n_ops; ++i) DPI_RETURN_IF_ERROR(add_op(i));
    DPI_RETURN_IF_ERROR(check_counts());
    align_products();
    if (order_ == Order::kSideBySide) {
      set_levels();
    } else {
      order_nodes();
    }
    set_lives();
    return std::move(m_);
  }

 private:
  struct OutputColumn {
    int32_t number;
    int32_t column;
    bool kept;
  };

  static Status refuse(const OwnedOp& op, const std::string& why) {
    return unsupported("op '" + op.name + "': " + why);
  }

  static Status check_kind(const OwnedOp& op) {
    constexpr OpKind kDone[] = {OpKind::kMultiLookup, OpKind::kDense,         OpKind::kElementwise,
                                OpKind::kUnary,       OpKind::kBinary,        OpKind::kWhere,
                                OpKind::kFm,          OpKind::kCrossV1Closed, OpKind::kTail};
    if (op.kind == OpKind::kDense && !is_absent(op.input(3)))
      return refuse(op, "rows that share a part are not done in a small batch");
    const bool unary = op.kind == OpKind::kUnary, binary = op.kind == OpKind::kBinary;
    if ((unary || binary) && !is_absent(op.input(unary ? 1 : 2)))
      return refuse(op, "positions that do not count are not done in a small batch");
    if (std::find(std::begin(kDone), std::end(kDone), op.kind) != std::end(kDone)) return ok_status();
    return refuse(op, std::string(op_name(op.kind)) + " is not done in a small batch");
  }

  /// The plan's value that a number stands for, and where in it.
  OutputColumn output_column_of(int32_t number) const {
    if (number < 0 || number >= desc_.n_values) return {number, 0, desc_.n_values == 0};
    const dpi_small_batch_value& v = desc_.values[number];
    return {v.base >= 0 ? v.base : number, v.base >= 0 ? v.column : 0, v.kept != 0};
  }

  int32_t new_value() {
    m_.values.emplace_back();
    return static_cast<int32_t>(m_.values.size()) - 1;
  }

  Ref extend(int32_t value, int32_t column, const kernels::Dims& dims) {
    const auto n = static_cast<int32_t>(dims.size());
    BatchValue& v = m_.values[static_cast<size_t>(value)];
    v.columns = std::max(v.columns, column + n);
    return {value, column, n, dims};
  }

  Status note_outputs(int32_t i) {
    const OwnedOp& op = m_.ops[static_cast<size_t>(i)];
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const dpi_value_desc& d = op.outputs[k];
      if (is_absent(d)) continue;
      if (d.is_constant != 0) return refuse(op, "its result is the same for all rows");
      if (d.dims.size() > kMaxColumns) return refuse(op, "its result has too many columns");
      const OutputColumn at = output_column_of(desc_.output_values[i][k]);
      const auto [it, is_new] = made_.try_emplace(at.number, -1);
      if (is_new) it->second = new_value();
      extend(it->second, at.column, d.dims);
    }
    return ok_status();
  }

  /// Input k of op i: made by another op, or fetched from outside.
  Result<Ref> ref_of(int32_t i, int32_t k) {
    const OwnedOp& op = m_.ops[static_cast<size_t>(i)];
    const dpi_value_desc& d = op.input(static_cast<size_t>(k));
    if (is_absent(d)) return Ref{};
    const int32_t number = desc_.input_values[i][k];
    const OutputColumn at = output_column_of(number);
    if (const auto made = made_.find(at.number); made != made_.end())
      return extend(made->second, at.column, d.dims);
    if (d.dtype != kernels::DType::kF32) return refuse(op, "an input from outside is not float32");
    if (d.dims.size() > kMaxColumns) return refuse(op, "an input has too many columns");
    const auto [it, is_new] = loaded_.try_emplace(number, -1);
    if (is_new) {
      it->second = new_value();
      Fetch f;
      f.dst = extend(it->second, 0, d.dims);
      f.input = input_of(i, k);
      m_.fetches.push_back(f);
    }
    return extend(it->second, 0, d.dims);
  }

  int32_t input_of(int32_t op, int32_t index) {
    const auto next = static_cast<int32_t>(m_.inputs.size());
    const auto [it, is_new] = inputs_.try_emplace(desc_.input_values[op][index], next);
    if (is_new) m_.inputs.push_back({op, index});
    return it->second;
  }

  int32_t table_of(int32_t op, int32_t index) {
    const auto next = static_cast<int32_t>(m_.tables.size());
    const auto [it, is_new] = tables_.try_emplace({op, index}, next);
    if (is_new) m_.tables.push_back({op, index});
    return it->second;
  }

  Status add_op(int32_t i) {
    const OwnedOp& op = m_.ops[static_cast<size_t>(i)];
    if (op.kind == OpKind::kMultiLookup) return add_lookup(i);
    Node s;
    s.op = i;
    s.kind = op.kind == OpKind::kDense           ? NodeKind::kProduct
             : op.kind == OpKind::kFm            ? NodeKind::kFm
             : op.kind == OpKind::kCrossV1Closed ? NodeKind::kCrossV1Closed
             : op.kind == OpKind::kTail          ? NodeKind::kTail
                                                 : NodeKind::kElementwise;
    for (int32_t k = 0; k < static_cast<int32_t>(op.inputs.size()); ++k) {
      if (op.inputs[static_cast<size_t>(k)].is_bags != 0) return refuse(op, "it reads ids");
      DPI_ASSIGN_OR_RETURN(Ref r, ref_of(i, k));
      s.in.push_back(r);
    }
    DPI_RETURN_IF_ERROR(add_outputs(i, &s));
    m_.nodes.push_back(std::move(s));
    return ok_status();
  }

  Status add_outputs(int32_t i, Node* s) {
    const OwnedOp& op = m_.ops[static_cast<size_t>(i)];
    for (int32_t k = 0; k < static_cast<int32_t>(op.outputs.size()); ++k) {
      const dpi_value_desc& d = op.outputs[static_cast<size_t>(k)];
      s->out.emplace_back();
      s->kept.push_back(-1);
      if (is_absent(d)) continue;
      const OutputColumn at = output_column_of(desc_.output_values[i][k]);
      s->out.back() = extend(made_.at(at.number), at.column, d.dims);
      if (!at.kept) continue;
      if (d.dtype != kernels::DType::kF32) return refuse(op, "a score is not float32");
      s->kept.back() = static_cast<int32_t>(m_.outputs.size());
      m_.outputs.push_back({i, k});
    }
    return ok_status();
  }

  // ---- lookups

  Status add_lookup(int32_t i) {
    const OwnedOp& op = m_.ops[static_cast<size_t>(i)];
    const auto& a = op.as<kernels::MultiLookupAttrs>();
    Node s;
    s.kind = NodeKind::kChannels;
    s.op = i;
    DPI_RETURN_IF_ERROR(add_outputs(i, &s));
    if (std::any_of(s.kept.begin(), s.kept.end(), [](int32_t k) { return k >= 0; }))
      return refuse(op, "what it looks up is read outside the small batch");
    s.out.resize(2);
    m_.lookups.push_back({i, {}});
    extra_ = -1;
    for (int32_t f = 0; f < a.n_fields; ++f) add_field(a, a.fields[f], s.out[0]);
    for (int32_t f = 0; f < a.n_numerics; ++f) add_numeric(a, a.numerics[f], s.out[0]);
    for (int32_t f = 0; f < a.n_scalars; ++f) add_scalar(a.scalars[f]);
    if (a.n_channels == 0) return ok_status();
    for (const ChannelTerm& p : m_.lookups.back().terms) s.in.push_back(p.x);
    s.out = {s.out[1]};
    s.kept = {-1};
    m_.nodes.push_back(std::move(s));
    return ok_status();
  }

  /// Columns of a lookup's own that no other op reads: scalars, raw numerics, vectors for FM alone.
  Ref extra(int32_t n) {
    if (extra_ < 0) extra_ = new_value();
    return extend(extra_, m_.values[static_cast<size_t>(extra_)].columns, {1, {n}});
  }

  Ref columns_of(const Ref& out, int32_t first, int64_t n) {
    return extend(out.value, out.column + first, {1, {n}});
  }

  int32_t lookup_op() const { return m_.lookups.back().op; }

  Fetch fetch_of(const Ref& dst, int32_t input) {
    Fetch f;
    f.dst = dst;
    f.op = lookup_op();
    f.input = input_of(f.op, input);
    return f;
  }

  Fetch fetch_rows(const Ref& dst, int32_t input, int32_t table, const kernels::EmbedAttrs& e) {
    Fetch f = fetch_of(dst, input);
    f.table = table_of(f.op, table);
    f.embed = e;
    f.one_id = e.pooling == kernels::Pooling::kSingle;
    return f;
  }

  void add_term(ChannelTerm::Kind kind, const Ref& x, int32_t number) {
    ChannelTerm p;
    p.kind = kind;
    p.x = x;
    p.first_channel = number;
    p.coef = number;
    m_.lookups.back().terms.push_back(p);
    if (kind == ChannelTerm::Kind::kFm) m_.values[static_cast<size_t>(x.value)].wide = true;
  }

  void add_field(const kernels::MultiLookupAttrs& a, const kernels::LookupField& f, const Ref& out) {
    const bool copied = f.out_col >= 0 && out.value >= 0;
    const bool in_fm = f.fm && a.fm_channel >= 0;
    if (!copied && !in_fm) return;
    const int32_t dim = m_.ops[static_cast<size_t>(lookup_op())].tables[static_cast<size_t>(f.table)].dim;
    const Ref dst = copied ? columns_of(out, f.out_col, dim) : extra(dim);
    m_.fetches.push_back(fetch_rows(dst, f.input, f.table, f.embed));
    if (in_fm) add_term(ChannelTerm::Kind::kFm, dst, 0);
  }

  void add_numeric(const kernels::MultiLookupAttrs& a, const kernels::NumericField& f, const Ref& out) {
    const bool copied = f.out_col >= 0 && out.value >= 0;
    const bool in_fm = f.fm && a.fm_channel >= 0;
    const bool in_channels = f.coef >= 0 && a.n_channels > 0;
    Ref dst;
    if (copied) {
      dst = columns_of(out, f.out_col, f.dim);
      m_.fetches.push_back(fetch_of(dst, f.input));
      m_.fetches.back().vec = f.vec;
    }
    Ref raw = f.vec < 0 ? dst : Ref{};
    const bool raw_in_fm = in_fm && !copied;
    if (raw.value < 0 && (in_channels || raw_in_fm)) {
      raw = extra(f.vec < 0 ? f.dim : 1);
      m_.fetches.push_back(fetch_of(raw, f.input));
    }
    if (in_fm) add_term(ChannelTerm::Kind::kFm, copied ? dst : raw, 0);
    if (raw_in_fm) m_.lookups.back().terms.back().vec = f.vec;
    if (in_channels) add_term(ChannelTerm::Kind::kNumeric, raw, f.coef);
  }

  void add_scalar(const kernels::ScalarField& f) {
    const Ref dst = extra(f.count);
    m_.fetches.push_back(fetch_rows(dst, f.input, f.table, f.embed));
    add_term(ChannelTerm::Kind::kScalar, dst, f.first_channel);
  }

  Status check_counts() const {
    const auto check = [](size_t n, int limit, const char* what) {
      if (n <= static_cast<size_t>(limit)) return ok_status();
      return unsupported("a small batch takes at most " + std::to_string(limit) + " " + what + ", " +
                         std::to_string(n) + " asked");
    };
    DPI_RETURN_IF_ERROR(check(m_.inputs.size(), gpu::kMaxInputs, "inputs"));
    DPI_RETURN_IF_ERROR(check(m_.tables.size(), gpu::kMaxInputs, "tables"));
    DPI_RETURN_IF_ERROR(check(m_.outputs.size(), gpu::kMaxOutputs, "scores and logits"));
    if (m_.outputs.empty()) return unsupported("nothing that the small batch computes is read outside it");
    return ok_status();
  }

  // ---- levels

  /// Products read their input in blocks of 16 columns from a multiple of 16 on, with nothing but zeros
  /// behind it: one that lies otherwise is copied.
  void align_products() {
    std::vector<Node> nodes;
    for (Node& s : m_.nodes) {
      if (s.kind == NodeKind::kProduct && !is_aligned(s.in[0])) {
        Ref& x = s.in[0];
        Node copy;
        copy.in = {x};
        x = extend(new_value(), 0, {1, {x.n}});
        copy.out = {x};
        copy.kept = {-1};
        nodes.push_back(std::move(copy));
      }
      nodes.push_back(std::move(s));
    }
    m_.nodes = std::move(nodes);
  }

  bool is_aligned(const Ref& x) const {
    const bool ends = x.column + x.n == m_.values[static_cast<size_t>(x.value)].columns;
    return x.column % gpu::kBlockDepth == 0 && (ends || x.n % gpu::kBlockDepth == 0);
  }

  /// Node i reads what node j writes.
  bool reads(size_t i, size_t j) const {
    for (const Ref& in : m_.nodes[i].in) {
      for (const Ref& out : m_.nodes[j].out) {
        const bool overlap = in.value >= 0 && out.value == in.value && out.column < in.column + in.n &&
                             in.column < out.column + out.n;
        if (overlap) return true;
      }
    }
    return false;
  }

  void set_levels() {
    for (size_t i = 0; i < m_.nodes.size(); ++i) {
      Node& s = m_.nodes[i];
      s.level = 1;
      for (size_t j = 0; j < i; ++j) {
        if (reads(i, j)) s.level = std::max(s.level, m_.nodes[j].level + 1);
      }
      m_.n_levels = std::max(m_.n_levels, s.level);
    }
  }

  /// A node a level: each time the one that leaves least alive.
  void order_nodes() {
    const size_t n = m_.nodes.size();
    for (Node& s : m_.nodes) s.level = 0;
    while (m_.n_levels < static_cast<int32_t>(n)) {
      size_t best = n;
      for (size_t i = 0; i < n; ++i) {
        if (m_.nodes[i].level != 0 || !is_ready(i)) continue;
        if (best == n || growth_of(i) < growth_of(best)) best = i;
      }
      m_.nodes[best].level = ++m_.n_levels;
    }
  }

  bool is_ready(size_t i) const {
    for (size_t j = 0; j < i; ++j) {
      if (m_.nodes[j].level == 0 && reads(i, j)) return false;
    }
    return true;
  }

  /// Columns that are alive after node i more than before it.
  int64_t growth_of(size_t i) const {
    int64_t columns = 0;
    for (const Ref& out : m_.nodes[i].out) columns += out.value >= 0 ? out.n : 0;
    std::vector<int32_t> counted;
    for (const Ref& in : m_.nodes[i].in) {
      if (in.value < 0 || std::find(counted.begin(), counted.end(), in.value) != counted.end()) continue;
      counted.push_back(in.value);
      if (!is_read_later(in.value, i)) columns -= m_.values[static_cast<size_t>(in.value)].columns;
    }
    return columns;
  }

  bool is_read_later(int32_t value, size_t but) const {
    for (size_t j = 0; j < m_.nodes.size(); ++j) {
      if (j == but || m_.nodes[j].level != 0) continue;
      for (const Ref& in : m_.nodes[j].in) {
        if (in.value == value) return true;
      }
    }
    return false;
  }

  void read(const Ref& r, int32_t level, bool BatchValue::* how) {
    if (r.value < 0) return;
    BatchValue& v = m_.values[static_cast<size_t>(r.value)];
    v.last = std::max(v.last, level);
    v.*how = true;
  }

  void set_lives() {
    std::vector<int32_t> writers(m_.values.size(), 0);
    for (const Fetch& f : m_.fetches) writers[static_cast<size_t>(f.dst.value)] += 2;
    for (const Node& s : m_.nodes) {
      const bool product = s.kind == NodeKind::kProduct;
      for (size_t k = 0; k < s.in.size(); ++k)
        read(s.in[k], s.level,
             !product ? &BatchValue::exact
             : k == 0 ? &BatchValue::product
                      : &BatchValue::factor);
      for (const Ref& out : s.out) {
        if (out.value < 0) continue;
        BatchValue& v = m_.values[static_cast<size_t>(out.value)];
        const bool whole = out.column == 0 && out.n == v.columns;
        const bool pads = product || s.kind == NodeKind::kCopy;
        writers[static_cast<size_t>(out.value)] += whole && pads ? 1 : 2;
        v.first = s.level;
      }
    }
    for (size_t i = 0; i < m_.values.size(); ++i) {
      m_.values[i].zeroed = writers[i] != 1;
      if (m_.values[i].zeroed) m_.values[i].first = 0;
    }
  }

  const dpi_small_batch_desc& desc_;
  const Order order_;
  BatchModel m_;
  std::map<int32_t, int32_t> made_;    // number of the plan -> value written by an op
  std::map<int32_t, int32_t> loaded_;  // number of the plan -> value fetched from outside
  std::map<int32_t, int32_t> inputs_;  // number of the plan -> input of the launch
  std::map<std::pair<int32_t, int32_t>, int32_t> tables_;
  int32_t extra_ = -1;
};

}  // namespace

const Lookup& BatchModel::lookup_of(int32_t op) const {
  return *std::find_if(lookups.begin(), lookups.end(), [op](const Lookup& l) { return l.op == op; });
}

int64_t BatchModel::weights() const {
  int64_t n = 0;
  for (const Node& s : nodes) {
    if (s.kind == NodeKind::kProduct) n += int64_t{s.in[0].n} * s.out[0].n;
  }
  return n;
}

int32_t BatchModel::columns_of(int32_t input) const {
  int32_t n = 0;
  for (const Fetch& f : fetches) {
    const bool read = f.dst.n > 0 && values[static_cast<size_t>(f.dst.value)].is_read();
    if (f.input == input && read && !f.is_bag()) n = std::max(n, f.one_id || f.vec >= 0 ? 1 : f.dst.n);
  }
  return n;
}

std::string BatchModel::why_not_in_place() const {
  for (const Fetch& f : fetches) {
    if (f.is_bag()) return "op '" + ops[static_cast<size_t>(f.op)].name + "' looks bags up";
  }
  int64_t columns = 0;
  for (size_t i = 0; i < inputs.size(); ++i) columns += columns_of(static_cast<int32_t>(i));
  if (columns <= gpu::kMaxInPlaceColumns) return "";
  return std::to_string(columns) + " words a row, at most " + std::to_string(gpu::kMaxInPlaceColumns);
}

Result<BatchModel> make_model(const dpi_small_batch_desc& desc, Order order) {
  if (desc.n_ops <= 0) return unsupported("a small batch of no ops");
  return Builder(desc, order).build();
}

}  // namespace dpi::backend::small_batch
