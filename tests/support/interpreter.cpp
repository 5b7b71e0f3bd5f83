#include "support/interpreter.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "ops/table.hpp"

namespace dpi::test {
namespace {

namespace k = kernels;

struct FlatBags {
  std::vector<int32_t> ids, offsets;
  bool single = false;
};

class Machine {
 public:
  Machine(const Plan& plan, const TestBatch& batch, const std::vector<std::vector<float>>& tables)
      : p_(plan), b_(batch) {
    Result<MemoryPlan> m = plan_memory(plan, batch.rows, batch.shared_rows, 64);
    if (!m.ok()) throw std::runtime_error(m.status().message());
    memory_ = std::move(m).value();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    arena_.assign(static_cast<size_t>(memory_.arena_bytes / 4 + 16), nan);
    scores_.value.assign(static_cast<size_t>(batch.rows) * plan.heads.size(), nan);
    scores_.logit = scores_.value;
    for (const PlanTable& t : plan.tables) tables_.push_back(load(t, tables));
    for (size_t f = 0; f < plan.features.size(); ++f) bags_.push_back(flatten(f));
  }

  void run(const PlanOp& op);
  Scores take() { return std::move(scores_); }

 private:
  std::vector<float> load(const PlanTable& t, const std::vector<std::vector<float>>& bundle) const {
    if (t.source >= 0) return bundle[static_cast<size_t>(t.source)];
    std::vector<float> out(static_cast<size_t>(t.rows) * static_cast<size_t>(t.dim));
    for (int64_t r = 0; r < t.rows; ++r) {
      for (int32_t c = 0; c < t.dim; ++c) {
        double sum = 0;
        for (const PlanTable::Term& term : t.columns[static_cast<size_t>(c)])
          sum += value_of(term, bundle, r, t.rows);
        out[static_cast<size_t>(r * t.dim + c)] = static_cast<float>(sum);
      }
    }
    return out;
  }
  static double value_of(const PlanTable::Term& t, const std::vector<std::vector<float>>& bundle, int64_t r,
                         int64_t rows) {
    const std::vector<float>& table = bundle[static_cast<size_t>(t.table)];
    const auto dim = static_cast<int64_t>(table.size()) / rows;
    const float* row = table.data() + r * dim;
    if (t.kind == PlanTable::Term::Kind::kColumn) return static_cast<double>(t.factor) * row[t.column];
    double sum = 0;
    for (int64_t i = 0; i < dim; ++i) sum += static_cast<double>(row[i]) * t.weights[static_cast<size_t>(i)];
    return sum;
  }

  FlatBags flatten(size_t f) const {
    FlatBags out;
    const FeatureSpec& spec = p_.features[f];
    if (!spec.is_slot()) return out;
    out.single = spec.kind == FeatureKind::kCategorical;
    out.offsets.push_back(0);
    for (const auto& row : b_.ids[f]) {
      out.ids.insert(out.ids.end(), row.begin(), row.end());
      out.offsets.push_back(static_cast<int32_t>(out.ids.size()));
    }
    return out;
  }

  int64_t rows_of(RowSpace s) const {
    return s == RowSpace::kItem ? b_.rows : s == RowSpace::kShared ? b_.shared_rows : 1;
  }

  k::Tensor tensor(int32_t v) {
    k::Tensor t;
    if (v < 0) return t;
    const PlanValue& value = p_.values[static_cast<size_t>(v)];
    t.dims = value.dims;
    t.rows = rows_of(value.space);
    t.row_stride = value.row_stride;
    const auto heads = static_cast<int64_t>(p_.heads.size());
    switch (value.storage) {
      case Storage::kArena:
        t.data = arena_.data() + memory_.offset[static_cast<size_t>(v)] / 4;
        break;
      case Storage::kAlias:
        t.data = arena_.data() + memory_.offset[static_cast<size_t>(value.base)] / 4 + value.column;
        break;
      case Storage::kConst:
        t.data = const_cast<float*>(p_.params[static_cast<size_t>(value.param)].data.data());
        t.row_stride = 0;
        break;
      case Storage::kInput:
        t.data = const_cast<float*>(b_.floats[static_cast<size_t>(value.feature)].data());
        t.row_stride = value.dims.size();
        break;
      case Storage::kOutput:
        t.data = scores_.value.data() + value.column;
        t.row_stride = heads;
        break;
      case Storage::kLogit:
        t.data = scores_.logit.data() + value.column;
        t.row_stride = heads;
        break;
    }
    if (value.space == RowSpace::kConstant) t.row_stride = 0;
    return t;
  }
  k::Operand operand(int32_t v) {
    k::Operand o;
    if (v < 0) return o;
    const PlanValue& value = p_.values[static_cast<size_t>(v)];
    if (!value.is_bags) {
      o.tensor = tensor(v);
      return o;
    }
    const FlatBags& f = bags_[static_cast<size_t>(value.feature)];
    o.bags.ids = f.ids.data();
    o.bags.offsets = f.single ? nullptr : f.offsets.data();
    o.bags.stride = 1;
    o.bags.rows = rows_of(value.space);
    return o;
  }
  k::Param param(const PlanOp& op, size_t i) const {
    if (i >= op.params.size() || op.params[i] < 0) return {};
    const PlanParam& w = p_.params[static_cast<size_t>(op.params[i])];
    return {w.data.data(), w.dims};
  }
  k::TableView table(int32_t t) const {
    const PlanTable& spec = p_.tables[static_cast<size_t>(t)];
    k::TableView v;
    v.base = tables_[static_cast<size_t>(t)].data();
    v.rows = spec.rows;
    v.dim = spec.dim;
    v.row_bytes = spec.dim * 4;
    return v;
  }

  bool run_primitive(const PlanOp& op);  // false: not one of its kinds
  void run_lookup(const PlanOp& op);
  void run_dense(const PlanOp& op);
  void run_tail(const PlanOp& op);
  void run_co_action(const PlanOp& op, const k::Tensor& dst);
  void run_fused(const PlanOp& op);
  void run_moves(const PlanOp& op);

  const Plan& p_;
  const TestBatch& b_;
  MemoryPlan memory_;
  std::vector<float> arena_;
  Scores scores_;
  std::vector<std::vector<float>> tables_;
  std::vector<FlatBags> bags_;
};

void Machine::run_lookup(const PlanOp& op) {
  std::vector<k::Operand> in;
  for (int32_t v : op.inputs) in.push_back(operand(v));
  std::vector<k::TableView> tables;
  for (int32_t t : op.tables) tables.push_back(table(t));
  k::MultiLookupArgs a;
  a.attrs = std::get<k::MultiLookupAttrs>(op.attrs);
  a.inputs = in.data();
  a.tables = tables.data();
  a.numeric_vec = param(op, 0);
  a.numeric_coef = param(op, 1);
  a.channel_bias = param(op, 2);
  a.rows = rows_of(p_.values[static_cast<size_t>(op.inputs[0])].space);
  a.out = tensor(op.outputs[0]);
  a.chan = tensor(op.outputs[1]);
  k::ref::multi_lookup(a);
}

void Machine::run_dense(const PlanOp& op) {
  k::DenseArgs a;
  a.attrs = std::get<k::DenseAttrs>(op.attrs);
  a.x = tensor(op.inputs[0]);
  a.mul = tensor(op.inputs[1]);
  a.add = tensor(op.inputs[2]);
  if (op.inputs.size() > 3) a.shared = tensor(op.inputs[3]);
  a.row_map = b_.row_map.data();
  a.weight = param(op, 0);
  a.bias = param(op, 1);
  a.p0 = param(op, 2);
  a.p1 = param(op, 3);
  a.p2 = param(op, 4);
  a.dst = tensor(op.outputs[0]);
  k::ref::dense(a);
}

void Machine::run_tail(const PlanOp& op) {
  std::vector<k::Operand> in;
  std::vector<k::Param> weights;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    in.push_back(operand(op.inputs[i]));
    weights.push_back(param(op, i));
  }
  k::TailArgs a;
  a.attrs = std::get<k::TailAttrs>(op.attrs);
  a.inputs = in.data();
  a.weights = weights.data();
  a.n_inputs = static_cast<int64_t>(in.size());
  a.rows = rows_of(p_.values[static_cast<size_t>(op.outputs[1])].space);
  a.logit = tensor(op.outputs[0]);
  a.value = tensor(op.outputs[1]);
  k::ref::tail(a);
}

void Machine::run_co_action(const PlanOp& op, const k::Tensor& dst) {
  k::CoActionArgs a;
  a.attrs = std::get<k::CoActionAttrs>(op.attrs);
  a.induction = tensor(op.inputs[0]);
  a.dst = dst;
  const k::Operand feed = operand(op.inputs[1]);
  a.ids = feed.bags;
  a.x = feed.tensor;
  if (!op.tables.empty()) a.table = table(op.tables[0]);
  if (a.attrs.mapped != 0) a.row_map = b_.row_map.data();
  k::ref::co_action(a);
}

void Machine::run_fused(const PlanOp& op) {
  const k::Tensor dst = tensor(op.outputs[0]);
  if (op.kind == OpKind::kElementwise) {
    std::vector<k::Operand> in;
    std::vector<k::Param> params;
    for (int32_t v : op.inputs) in.push_back(operand(v));
    for (size_t i = 0; i < op.params.size(); ++i) params.push_back(param(op, i));
    k::ref::elementwise({std::get<k::ElementwiseAttrs>(op.attrs), in.data(), params.data(), dst});
  } else if (op.kind == OpKind::kCrossV1) {
    k::ref::cross_v1(
        {std::get<k::CrossV1Attrs>(op.attrs), tensor(op.inputs[0]), param(op, 0), param(op, 1), dst});
  } else if (op.kind == OpKind::kCrossV1Closed) {
    k::ref::cross_v1_closed(
        {std::get<k::CrossV1Attrs>(op.attrs), tensor(op.inputs[0]), param(op, 0), param(op, 1), dst});
  } else if (op.kind == OpKind::kFm) {
    k::ref::fm({std::get<k::FmAttrs>(op.attrs), tensor(op.inputs[0]), dst});
  } else if (op.kind == OpKind::kCin) {
    const k::Tensor y = op.inputs[1] < 0 ? k::Tensor{} : tensor(op.inputs[1]);
    k::ref::cin({std::get<k::CinAttrs>(op.attrs), tensor(op.inputs[0]), y, param(op, 0), param(op, 1), dst});
  } else if (op.kind == OpKind::kCoAction) {
    run_co_action(op, dst);
  } else if (op.kind == OpKind::kAttention) {
    const auto& a = std::get<k::AttentionAttrs>(op.attrs);
    const bool masked = a.mask_mode != k::SoftmaxMask::kNone;
    const auto given = [&](size_t i) { return tensor(i < op.inputs.size() ? op.inputs[i] : -1); };
    k::ref::attention({a, given(0), given(1), given(2), masked ? given(3) : k::Tensor{},
                       a.biased != 0 ? given(masked ? 4 : 3) : k::Tensor{}, dst, nullptr, given(5), given(6),
                       b_.row_map.data()});
  } else {
    throw std::runtime_error(std::string("no rule for op ") + op_name(op.kind));
  }
}

void Machine::run_moves(const PlanOp& op) {
  const k::Tensor dst = tensor(op.outputs[0]);
  if (op.kind == OpKind::kConcat) {
    std::vector<k::Operand> in;
    for (int32_t v : op.inputs) in.push_back(operand(v));
    k::ref::concat({std::get<k::ConcatAttrs>(op.attrs), in.data(), static_cast<int64_t>(in.size()), dst});
  } else if (op.kind == OpKind::kView) {
    k::ref::view({std::get<k::ViewAttrs>(op.attrs), tensor(op.inputs[0]), dst});
  } else {
    k::ref::broadcast_rows({tensor(op.inputs[0]), b_.row_map.data(), dst});
  }
}

bool Machine::run_primitive(const PlanOp& op) {
  const k::Tensor dst = tensor(op.outputs[0]);
  if (op.kind == OpKind::kEmbed) {
    k::ref::embed({std::get<k::EmbedAttrs>(op.attrs), operand(op.inputs[0]).bags, table(op.tables[0]), dst});
  } else if (op.kind == OpKind::kMask) {
    const k::Operand x = operand(op.inputs[0]);
    k::ref::mask({std::get<k::MaskAttrs>(op.attrs), x.bags, x.tensor, dst});
  } else if (op.kind == OpKind::kLinear) {
    k::LinearArgs a;
    a.attrs = std::get<k::LinearAttrs>(op.attrs);
    a.x = tensor(op.inputs[0]);
    a.weight = param(op, 0);
    a.bias = param(op, 1);
    a.dst = dst;
    if (op.inputs.size() > 1) a.once = tensor(op.inputs[1]);
    if (op.inputs.size() > 2) a.shared = tensor(op.inputs[2]);
    a.row_map = b_.row_map.data();
    if (op.inputs.size() > 3) a.positions = tensor(op.inputs[3]);
    k::ref::linear(a);
  } else if (op.kind == OpKind::kMatMul) {
    k::ref::matmul({std::get<k::MatMulAttrs>(op.attrs), tensor(op.inputs[0]), tensor(op.inputs[1]), dst});
  } else if (op.kind == OpKind::kBinary) {
    k::ref::binary({std::get<k::BinaryAttrs>(op.attrs), tensor(op.inputs[0]), tensor(op.inputs[1]), dst,
                    op.inputs.size() > 2 ? tensor(op.inputs[2]) : k::Tensor{}});
  } else if (op.kind == OpKind::kWhere) {
    k::ref::where({tensor(op.inputs[0]), tensor(op.inputs[1]), tensor(op.inputs[2]), dst});
  } else if (op.kind == OpKind::kTopK) {
    k::ref::top_k({std::get<k::TopKAttrs>(op.attrs), tensor(op.inputs[0]), dst});
  } else if (op.kind == OpKind::kGather) {
    k::ref::gather({std::get<k::GatherAttrs>(op.attrs), tensor(op.inputs[0]), tensor(op.inputs[1]), dst});
  } else if (op.kind == OpKind::kUnary) {
    k::ref::unary({std::get<k::UnaryAttrs>(op.attrs), tensor(op.inputs[0]), param(op, 0), param(op, 1),
                   param(op, 2), dst, op.inputs.size() > 1 ? tensor(op.inputs[1]) : k::Tensor{}});
  } else if (op.kind == OpKind::kLayerNorm) {
    k::ref::layer_norm({std::get<k::LayerNormAttrs>(op.attrs), tensor(op.inputs[0]), param(op, 0),
                        param(op, 1), dst, op.inputs.size() > 1 ? tensor(op.inputs[1]) : k::Tensor{}});
  } else if (op.kind == OpKind::kSoftmax) {
    k::ref::softmax({std::get<k::SoftmaxAttrs>(op.attrs), tensor(op.inputs[0]), tensor(op.inputs[1]), dst});
  } else if (op.kind == OpKind::kReduce) {
    k::ref::reduce({std::get<k::ReduceAttrs>(op.attrs), tensor(op.inputs[0]), tensor(op.inputs[1]), dst});
  } else {
    return false;
  }
  return true;
}

void Machine::run(const PlanOp& op) {
  if (op.kind == OpKind::kConcat || op.kind == OpKind::kView || op.kind == OpKind::kBroadcastRows) {
    run_moves(op);
  } else if (op.kind == OpKind::kMultiLookup) {
    run_lookup(op);
  } else if (op.kind == OpKind::kDense) {
    run_dense(op);
  } else if (op.kind == OpKind::kTail) {
    run_tail(op);
  } else if (!run_primitive(op)) {
    run_fused(op);
  }
}

/// An order that the streams and events allow, as unlike the issue order as possible: stream by stream from
/// the last.
std::vector<size_t> late_order(const Plan& plan) {
  std::vector<std::vector<size_t>> queue(static_cast<size_t>(plan.n_streams));
  for (size_t i = 0; i < plan.ops.size(); ++i) queue[static_cast<size_t>(plan.ops[i].stream)].push_back(i);
  std::vector<size_t> next(queue.size(), 0), order;
  std::vector<char> recorded(static_cast<size_t>(plan.n_events), 0);
  if (plan.start_event >= 0) recorded[static_cast<size_t>(plan.start_event)] = 1;
  while (order.size() < plan.ops.size()) {
    const size_t before = order.size();
    for (size_t s = queue.size(); s-- > 0;) {
      if (next[s] == queue[s].size()) continue;
      const PlanOp& op = plan.ops[queue[s][next[s]]];
      bool ready = true;
      for (int32_t e : op.waits) ready = ready && recorded[static_cast<size_t>(e)];
      if (!ready) continue;
      order.push_back(queue[s][next[s]++]);
      if (op.records >= 0) recorded[static_cast<size_t>(op.records)] = 1;
      break;
    }
    if (order.size() == before) throw std::runtime_error("the streams wait for each other");
  }
  return order;
}

}  // namespace

Scores interpret(const Plan& plan, const TestBatch& batch, const std::vector<std::vector<float>>& tables,
                 bool late) {
  Machine m(plan, batch, tables);
  if (late) {
    for (size_t i : late_order(plan)) m.run(plan.ops[i]);
  } else {
    for (const PlanOp& op : plan.ops) m.run(op);
  }
  return m.take();
}

TestBatch random_batch(const std::vector<FeatureSpec>& features, int64_t rows, int64_t shared_rows,
                       uint32_t seed) {
  std::mt19937 random(seed);
  TestBatch b;
  b.rows = rows;
  b.shared_rows = shared_rows;
  for (int64_t r = 0; r < rows; ++r)
    b.row_map.push_back(shared_rows > 0 ? static_cast<int32_t>(r * shared_rows / rows) : 0);
  b.floats.resize(features.size());
  b.ids.resize(features.size());
  for (size_t f = 0; f < features.size(); ++f) {
    const FeatureSpec& spec = features[f];
    const int64_t n = spec.space == RowSpace::kShared ? shared_rows : rows;
    if (!spec.is_slot()) {
      std::normal_distribution<float> d(0.0f, 1.0f);
      for (int64_t i = 0; i < n * spec.dim; ++i) b.floats[f].push_back(d(random));
      continue;
    }
    for (int64_t r = 0; r < n; ++r) {
      const int64_t len = spec.kind == FeatureKind::kCategorical
                              ? 1
                              : static_cast<int64_t>(random() % static_cast<uint32_t>(spec.max_len + 1));
      std::vector<int32_t> bag;
      for (int64_t i = 0; i < len; ++i)
        bag.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(spec.vocab_size)));
      b.ids[f].push_back(std::move(bag));
    }
  }
  return b;
}

}  // namespace dpi::test
