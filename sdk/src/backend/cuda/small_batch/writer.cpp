// Writes the programs of a small batch: write_programs of small_batch/plan.hpp.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>

#include "backend/cuda/small_batch/plan.hpp"

namespace dpi::backend::small_batch {

namespace cuda = kernels::cuda;
namespace gpu = kernels::cuda::small_batch;

namespace {

/// Items of 32 vectors that a fetch takes.
int32_t items_of(const Fetch& f) { return round_up(gpu::kTileRows * ((f.dst.n + 3) / 4), 32) / 32; }

/// Rank of each input: all its fetches go to one, which then reads its ids once; inputs that follow each
/// other, and lie side by side in memory, stay together.
std::vector<int32_t> share_inputs(const BatchModel& model, int32_t ranks) {
  std::vector<int64_t> cost(model.inputs.size(), 0);
  int64_t total = 0;
  for (const Fetch& f : model.fetches) {
    cost[static_cast<size_t>(f.input)] += items_of(f);
    total += items_of(f);
  }
  std::vector<int32_t> rank_of;
  int64_t before = 0;
  for (const int64_t c : cost) {
    rank_of.push_back(static_cast<int32_t>((2 * before + c) * ranks / (2 * total + 1)));
    before += c;
  }
  return rank_of;
}

/// Where the words lie that are staged: ids, and numbers of a model that is in place.
struct Staging {
  std::vector<int32_t> rank;    // per input
  std::vector<int32_t> first;   // per input: its first row of words in that rank; -1: not staged
  std::vector<int32_t> n_rows;  // per rank
  std::vector<gpu::StagedColumn> numbers, ids;
};

bool has_ids(const BatchModel& model, int32_t input) {
  return std::any_of(model.fetches.begin(), model.fetches.end(),
                     [&](const Fetch& f) { return f.input == input && f.table >= 0; });
}

/// words_at: of every rank, in bytes.
Staging stage_inputs(const BatchModel& model, int32_t ranks, int32_t words_at) {
  Staging s;
  s.rank = share_inputs(model, ranks);
  s.first.assign(model.inputs.size(), -1);
  s.n_rows.assign(static_cast<size_t>(ranks), 0);
  for (int32_t i = 0; i < static_cast<int32_t>(model.inputs.size()); ++i) {
    const bool ids = has_ids(model, i);
    const int32_t n = ids || model.in_place ? model.columns_of(i) : 0;
    if (n == 0) continue;
    const int32_t rank = s.rank[static_cast<size_t>(i)];
    int32_t& next = s.n_rows[static_cast<size_t>(rank)];
    s.first[static_cast<size_t>(i)] = next;
    for (int32_t c = 0; c < n; ++c, ++next)
      (ids ? s.ids : s.numbers).push_back({i, c, rank, words_at + next * gpu::kTileRows * 4});
  }
  return s;
}

class Writer {
 public:
  Writer(const BatchModel& model, const Placement& placement, const BatchPlan& plan)
      : m_(model), placement_(placement), plan_(plan), bytes_(sizeof(gpu::Header), '\0') {}

  std::vector<char> write(int32_t rank, const RankPlan& products, int32_t* stream_begin) {
    write_gather(rank);
    for (size_t i = 0; i < m_.nodes.size(); ++i) ops_at_.push_back(write_node(m_.nodes[i]));
    write_levels(products);
    write_streams(products, stream_begin);
    h_.patches_at = placement_.end;
    h_.ring_at = ring_at(plan_.shape, placement_.end);
    h_.stages = plan_.stages;
    bytes_.resize(static_cast<size_t>(round_up(static_cast<int32_t>(bytes_.size()), 16)));
    h_.bytes = static_cast<int32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &h_, sizeof(h_));
    return std::move(bytes_);
  }

 private:
  template <class T>
  int32_t add(const T* data, size_t n) {
    const auto at = round_up(static_cast<int32_t>(bytes_.size()), 16);
    bytes_.resize(static_cast<size_t>(at) + n * sizeof(T));
    if (n > 0) std::memcpy(bytes_.data() + at, data, n * sizeof(T));
    return at;
  }
  template <class T>
  int32_t add(const std::vector<T>& v) {
    return add(v.data(), v.size());
  }

  /// A parameter's offset, each written once.
  int32_t param(const OwnedOp& op, size_t i) {
    const kernels::Param p = op.param(i);
    if (p.data == nullptr) return -1;
    const auto [it, is_new] = params_.try_emplace(p.data, 0);
    if (is_new) it->second = add(p.data, static_cast<size_t>(p.dims.size()));
    return it->second;
  }

  const OwnedOp& op(const Node& s) const { return m_.ops[static_cast<size_t>(s.op)]; }

  // ---- gather

  /// First in the program, so that it lies at one place in all ranks.
  void write_gather(int32_t rank) {
    const int32_t ranks = plan_.shape.ranks;
    const int32_t words_at = round_up(static_cast<int32_t>(bytes_.size()), 16);
    const Staging staging = stage_inputs(m_, ranks, words_at);
    write_staging(staging, rank);
    std::vector<gpu::Item> items;
    for (const Fetch& f : m_.fetches) {
      const bool read = m_.values[static_cast<size_t>(f.dst.value)].is_read();
      if (staging.rank[static_cast<size_t>(f.input)] != rank || f.dst.n == 0 || !read) continue;
      gpu::Record r = record_of(f);
      if (!f.is_bag()) r.staged = staging.first[static_cast<size_t>(f.input)];
      const int32_t at = add(&r, 1);
      for (int32_t k = 0; k < items_of(f); ++k) items.push_back({at, k * 32});
    }
    h_.items_at = add(items);
    h_.n_items = static_cast<int32_t>(items.size());
  }

  /// A rank stages its own columns, of a model that is in place its share of all.
  void write_staging(const Staging& staging, int32_t rank) {
    const bool shared_out = m_.in_place && plan_.shape.ranks > 1;
    std::vector<gpu::StagedColumn> columns;
    const auto add_columns = [&](const std::vector<gpu::StagedColumn>& from) {
      const size_t before = columns.size();
      std::copy_if(from.begin(), from.end(), std::back_inserter(columns),
                   [&](const gpu::StagedColumn& c) { return shared_out || c.rank == rank; });
      return static_cast<int32_t>(columns.size() - before);
    };
    h_.n_number_columns = add_columns(staging.numbers);
    h_.n_id_columns = add_columns(staging.ids);
    h_.shared_out = shared_out ? 1 : 0;
    const auto rows = static_cast<size_t>(staging.n_rows[static_cast<size_t>(rank)]);
    h_.words_at = add(std::vector<uint32_t>(rows * gpu::kTileRows, 0));
    h_.columns_at = add(columns);
  }

  gpu::Record record_of(const Fetch& f) {
    gpu::Record r;
    r.dst = placement_.view_of(f.dst);
    r.input = f.input;
    r.table = f.table;
    r.width = f.dst.n;
    if (f.vec >= 0) r.vec_at = param(m_.ops[static_cast<size_t>(f.op)], 0) + f.vec * 4;
    r.pooling = static_cast<int32_t>(f.embed.pooling);
    r.mask = static_cast<int32_t>(f.embed.mask);
    r.pad_id = f.embed.pad_id;
    r.max_len = static_cast<int32_t>(std::min<int64_t>(f.embed.max_len, INT32_MAX));
    r.eps = f.embed.eps;
    r.empty = f.embed.empty;
    return r;
  }

  // ---- nodes

  int32_t write_node(const Node& s) {
    switch (s.kind) {
      case NodeKind::kProduct:
        return write_dense(s);
      case NodeKind::kChannels:
        return write_channels(s);
      case NodeKind::kElementwise:
        return write_elementwise(s);
      case NodeKind::kFm:
        return write_fm(s);
      case NodeKind::kCrossV1Closed:
        return write_cross(s);
      case NodeKind::kTail:
        return write_tail(s);
      default:
        return write_copy(s);
    }
  }

  int32_t write_dense(const Node& s) {
    const auto& a = op(s).as<kernels::DenseAttrs>();
    std::vector<gpu::Segment> segments;
    for (int32_t i = 0; i < a.n_segments; ++i)
      segments.push_back({a.segments[i].act, static_cast<int32_t>(a.segments[i].end)});
    gpu::Dense d;
    d.segments_at = add(segments);
    d.n_segments = a.n_segments;
    if (s.in.size() > 1) d.mul = placement_.view_of(s.in[1]);
    if (s.in.size() > 2) d.add = placement_.view_of(s.in[2]);
    d.dst = placement_.view_of(s.out[0]);
    d.n = s.out[0].n;
    const BatchValue& value = m_.values[static_cast<size_t>(s.out[0].value)];
    const bool pads = value.product && !value.zeroed;
    d.padded = pads ? round_up(d.n, gpu::kBlockDepth) : d.n;
    d.bias_at = param(op(s), 1);
    d.p0_at = param(op(s), 2);
    d.p1_at = param(op(s), 3);
    d.p2_at = param(op(s), 4);
    d.output = s.kept[0];
    return add(&d, 1);
  }

  /// Vectors of one sort that follow each other at equal distances become one run.
  std::vector<gpu::FmRun> fm_runs(const std::vector<ChannelTerm>& terms, const OwnedOp& o, int32_t fm_dim) {
    std::vector<gpu::FmRun> runs;
    for (size_t i = 0; i < terms.size(); ++i) {
      const ChannelTerm& p = terms[i];
      if (!runs.empty() && follows(terms[i - 1], p, runs.back(), fm_dim)) {
        runs.back().apart = p.x.column - terms[i - 1].x.column;
        ++runs.back().count;
        continue;
      }
      gpu::FmRun r;
      r.x = placement_.view_of(p.x);
      r.count = 1;
      if (p.vec >= 0) r.vec_at = param(o, 0) + p.vec * 4;
      runs.push_back(r);
    }
    return runs;
  }

  static bool follows(const ChannelTerm& last, const ChannelTerm& p, const gpu::FmRun& run, int32_t fm_dim) {
    const int32_t apart = p.x.column - last.x.column;
    const bool same_sort = (p.vec >= 0) == (last.vec >= 0);
    const bool vectors = p.vec < 0 || p.vec == last.vec + fm_dim;
    return p.x.value == last.x.value && same_sort && vectors && (run.count == 1 || run.apart == apart);
  }

  int32_t write_channels(const Node& s) {
    using Kind = ChannelTerm::Kind;
    const auto& a = op(s).as<kernels::MultiLookupAttrs>();
    std::vector<gpu::Scalar> scalars;
    std::vector<gpu::Numeric> numerics;
    std::vector<ChannelTerm> fm;
    const int32_t coef = param(op(s), 1);
    for (const ChannelTerm& p : m_.lookup_of(s.op).terms) {
      const gpu::View x = placement_.view_of(p.x);
      if (p.kind == Kind::kScalar) scalars.push_back({x, p.first_channel, p.x.n});
      if (p.kind == Kind::kNumeric) numerics.push_back({x, coef + p.coef * 4});
      if (p.kind == Kind::kFm) fm.push_back(p);
    }
    gpu::Channels c;
    c.dst = placement_.view_of(s.out[0]);
    c.n_channels = a.n_channels;
    c.bias_at = param(op(s), 2);
    c.scalars_at = add(scalars);
    c.n_scalars = static_cast<int32_t>(scalars.size());
    c.numerics_at = add(numerics);
    c.n_numerics = static_cast<int32_t>(numerics.size());
    const std::vector<gpu::FmRun> runs = fm_runs(fm, op(s), a.fm_dim);
    c.fm_runs_at = add(runs);
    c.n_fm_runs = static_cast<int32_t>(runs.size());
    c.fm_channel = a.fm_channel;
    c.fm_dim = a.fm_dim;
    return add(&c, 1);
  }

  void set_params(gpu::Elementwise* e, const OwnedOp& o, int32_t step, size_t first, int32_t n) {
    for (int32_t i = 0; i < 3; ++i) {
      const size_t k = first + static_cast<size_t>(i);
      e->params_at[step][i] = i < n ? param(o, k) : -1;
      e->single[step][i] = i < n && o.param(k).dims.size() == 1 ? 1 : 0;
    }
  }

  /// A Unary, Binary or Where alone, over inputs 0, 1 and 2.
  static kernels::ElementwiseStep step_of(const OwnedOp& o) {
    kernels::ElementwiseStep step;
    step.y = 1;
    step.z = 2;
    if (o.kind == kernels::OpKind::kUnary) {
      step.unary = o.as<kernels::UnaryAttrs>();
    } else if (o.kind == kernels::OpKind::kBinary) {
      step.kind = kernels::StepKind::kBinary;
      step.binary = o.as<kernels::BinaryAttrs>().kind;
    } else {
      step.kind = kernels::StepKind::kWhere;
    }
    return step;
  }

  int32_t write_elementwise(const Node& s) {
    gpu::Elementwise e;
    const OwnedOp& o = op(s);
    if (o.kind == kernels::OpKind::kElementwise) {
      e.attrs = o.as<kernels::ElementwiseAttrs>();
      for (int32_t k = 0; k < e.attrs.n_steps; ++k) {
        const kernels::ElementwiseStep& step = e.attrs.steps[k];
        const bool some = step.param >= 0;
        set_params(&e, o, k, static_cast<size_t>(some ? step.param : 0), some ? step.n_params : 0);
      }
    } else {
      e.attrs.n_inputs = static_cast<int32_t>(s.in.size());
      e.attrs.n_steps = 1;
      e.attrs.steps[0] = step_of(o);
      set_params(&e, o, 0, 0, o.kind == kernels::OpKind::kUnary ? 3 : 0);
    }
    for (size_t k = 0; k < s.in.size(); ++k) {
      e.inputs[k] = placement_.view_of(s.in[k]);
      e.dims[k] = s.in[k].dims;
    }
    e.dst = placement_.view_of(s.out[0]);
    e.dst_dims = s.out[0].dims;
    e.n = s.out[0].n;
    e.output = s.kept[0];
    return add(&e, 1);
  }

  int32_t write_fm(const Node& s) {
    const auto& a = op(s).as<kernels::FmAttrs>();
    gpu::Fm f;
    f.x = placement_.view_of(s.in[0]);
    f.dst = placement_.view_of(s.out[0]);
    f.fields = static_cast<int32_t>(a.fields);
    f.dim = static_cast<int32_t>(a.dim);
    f.output = s.kept[0];
    return add(&f, 1);
  }

  int32_t write_cross(const Node& s) {
    gpu::CrossV1Closed c;
    c.p = placement_.view_of(s.in[0]);
    c.dst = placement_.view_of(s.out[0]);
    c.layers = static_cast<int32_t>(op(s).as<kernels::CrossV1Attrs>().layers);
    c.k_at = param(op(s), 0);
    c.y0_at = param(op(s), 1);
    c.output = s.kept[0];
    return add(&c, 1);
  }

  int32_t write_tail(const Node& s) {
    const auto& a = op(s).as<kernels::TailAttrs>();
    std::vector<gpu::Branch> branches;
    for (size_t k = 0; k < s.in.size(); ++k)
      branches.push_back({placement_.view_of(s.in[k]), s.in[k].n, param(op(s), k)});
    gpu::Tail t;
    t.act = a.act;
    t.bias = a.bias;
    t.branches_at = add(branches);
    t.n_branches = static_cast<int32_t>(branches.size());
    t.logit = placement_.view_of(s.out[0]);
    t.logit_output = s.kept[0];
    if (s.out.size() > 1) t.value = placement_.view_of(s.out[1]);
    if (s.out.size() > 1) t.value_output = s.kept[1];
    return add(&t, 1);
  }

  int32_t write_copy(const Node& s) {
    gpu::Copy c;
    c.src = placement_.view_of(s.in[0]);
    c.dst = placement_.view_of(s.out[0]);
    c.n = s.out[0].n;
    c.padded = round_up(c.n, gpu::kBlockDepth);
    return add(&c, 1);
  }

  // ---- levels

  static gpu::TaskKind task_kind(NodeKind k) {
    switch (k) {
      case NodeKind::kChannels:
        return gpu::TaskKind::kChannels;
      case NodeKind::kElementwise:
        return gpu::TaskKind::kElementwise;
      case NodeKind::kFm:
        return gpu::TaskKind::kFm;
      case NodeKind::kCrossV1Closed:
        return gpu::TaskKind::kCrossV1Closed;
      case NodeKind::kTail:
        return gpu::TaskKind::kTail;
      default:
        return gpu::TaskKind::kCopy;
    }
  }

  void write_levels(const RankPlan& products) {
    std::vector<gpu::Level> levels;
    for (int32_t l = 1; l <= m_.n_levels; ++l) {
      std::vector<gpu::Task> tasks;
      for (size_t i = 0; i < m_.nodes.size(); ++i) {
        const Node& s = m_.nodes[i];
        if (s.level == l && s.kind != NodeKind::kProduct) tasks.push_back({task_kind(s.kind), ops_at_[i]});
      }
      std::vector<gpu::Round> rounds;
      for (const RoundPlan& r : products.levels[static_cast<size_t>(l - 1)]) rounds.push_back(write_round(r));
      gpu::Level level;
      level.n_rounds = static_cast<int32_t>(rounds.size());
      level.rounds_at = add(rounds);
      level.n_tasks = static_cast<int32_t>(tasks.size());
      level.tasks_at = add(tasks);
      levels.push_back(level);
    }
    h_.n_levels = m_.n_levels;
    h_.levels_at = add(levels);
  }

  gpu::Round write_round(const RoundPlan& r) {
    const bool narrow = gpu::element_bytes(plan_.shape.mode) == 2;
    std::vector<gpu::Unit> units;
    for (const UnitPlan& u : r.units) {
      units.emplace_back();
      if (u.node < 0) continue;
      const gpu::View x = placement_.view_of(m_.nodes[static_cast<size_t>(u.node)].in[0]);
      const int32_t k = u.begin * gpu::kBlockDepth;
      units.back() = {narrow ? x.narrow_at + k * 2 : x.wide_at + k * 4,
                      narrow ? x.narrow_pitch : x.wide_pitch, u.end - u.begin};
    }
    std::vector<gpu::Tile> tiles;
    for (const TilePlan& t : r.tiles)
      tiles.push_back(
          {ops_at_[static_cast<size_t>(t.node)], t.tile * gpu::kTileColumns, t.first_patch, t.slices});
    gpu::Round round;
    round.units_at = add(units);
    round.tiles_at = add(tiles);
    round.n_tiles = static_cast<int32_t>(tiles.size());
    return round;
  }

  void write_streams(const RankPlan& products, int32_t* begin) {
    for (int32_t w = 0; w < plan_.shape.warps; ++w) {
      gpu::WarpWeights& s = h_.streams[w];
      s.begin = *begin;
      for (const auto& rounds : products.levels) {
        for (const RoundPlan& r : rounds) {
          const UnitPlan& u = r.units[static_cast<size_t>(w)];
          s.blocks += u.end - u.begin;
        }
      }
      *begin += s.blocks * (gpu::block_bytes(plan_.shape.mode) / 16);
    }
  }

  const BatchModel& m_;
  const Placement& placement_;
  const BatchPlan& plan_;
  gpu::Header h_;
  std::vector<char> bytes_;
  std::vector<int32_t> ops_at_;
  std::map<const float*, int32_t> params_;
};

}  // namespace

std::vector<char> write_programs(const BatchModel& model, const Placement& placement,
                                 const std::vector<RankPlan>& ranks, const BatchPlan& plan) {
  std::vector<std::vector<char>> programs;
  size_t most = 0;
  int32_t begin = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    programs.push_back(Writer(model, placement, plan).write(static_cast<int32_t>(r), ranks[r], &begin));
    most = std::max(most, programs.back().size());
  }
  std::vector<char> all(most * ranks.size(), '\0');
  for (size_t r = 0; r < ranks.size(); ++r)
    std::memcpy(all.data() + r * most, programs[r].data(), programs[r].size());
  return all;
}

}  // namespace dpi::backend::small_batch
