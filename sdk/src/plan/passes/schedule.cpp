// Issue order, streams and events.
//
// Breadth-first (DPIFrame, arXiv 2606.21101, section on stream scheduling): ops are issued level by level,
// within a level by the longest remaining path (its cost, or as option debug.order says), so that every
// branch has its first op on the device after one launch. The heaviest child keeps its parent's stream; other
// children get streams of their own. Events are the cross-stream edges that survive a transitive reduction
// over dependencies and stream order together.
#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/analysis/branch.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

std::vector<int32_t> iota(size_t n) {
  std::vector<int32_t> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}

/// The order of two ops that may both start: true if x goes first.
class Before {
 public:
  Before(const Branches& b, StartOrder order) : b_(b), order_(order) {}

  bool operator()(int32_t x, int32_t y) const {
    const size_t i = static_cast<size_t>(x), j = static_cast<size_t>(y);
    if (order_ == StartOrder::kOps && b_.ops_left[i] != b_.ops_left[j])
      return b_.ops_left[i] > b_.ops_left[j];
    if (b_.remaining[i] == b_.remaining[j]) return x < y;
    const bool heavier = b_.remaining[i] > b_.remaining[j];
    return order_ == StartOrder::kLight ? !heavier : heavier;
  }

 private:
  const Branches& b_;
  StartOrder order_;
};

std::vector<int32_t> breadth_order(const Branches& b, const Before& before) {
  std::vector<int32_t> order = iota(b.level.size());
  std::sort(order.begin(), order.end(), [&](int32_t x, int32_t y) {
    const size_t i = static_cast<size_t>(x), j = static_cast<size_t>(y);
    return b.level[i] != b.level[j] ? b.level[i] < b.level[j] : before(x, y);
  });
  return order;
}

/// One branch to its end, then the next: of the ready successors of the op just issued the first comes first.
std::vector<int32_t> depth_order(const Branches& b, const Before& before) {
  const size_t n = b.level.size();
  std::vector<size_t> waiting(n);
  std::vector<int32_t> stack, order;
  auto push_ready = [&](std::vector<int32_t> ready) {
    std::sort(ready.begin(), ready.end(), [&](int32_t x, int32_t y) { return before(y, x); });
    stack.insert(stack.end(), ready.begin(), ready.end());
  };
  std::vector<int32_t> roots;
  for (size_t i = 0; i < n; ++i) {
    waiting[i] = b.preds[i].size();
    if (waiting[i] == 0) roots.push_back(static_cast<int32_t>(i));
  }
  push_ready(roots);
  while (!stack.empty()) {
    const int32_t i = stack.back();
    stack.pop_back();
    order.push_back(i);
    std::vector<int32_t> ready;
    for (int32_t s : b.succs[static_cast<size_t>(i)]) {
      if (--waiting[static_cast<size_t>(s)] == 0) ready.push_back(s);
    }
    push_ready(std::move(ready));
  }
  return order;
}

int32_t heaviest_child(const Branches& b, int32_t op) {
  int32_t best = -1;
  for (int32_t s : b.succs[static_cast<size_t>(op)]) {
    if (best < 0 || b.remaining[static_cast<size_t>(s)] > b.remaining[static_cast<size_t>(best)]) best = s;
  }
  return best;
}

/// Streams, given op by op in breadth-first order.
class StreamAssigner {
 public:
  StreamAssigner(const Branches& b, const Reach& reach, int32_t max_streams, int64_t light)
      : b_(b), reach_(reach), max_streams_(max_streams), light_(static_cast<double>(light)) {
    stream_.assign(b.level.size(), -1);
  }

  std::vector<int32_t> run(const std::vector<int32_t>& order, int32_t* n_streams) {
    for (int32_t i : order) {
      const int32_t s = choose(i);
      stream_[static_cast<size_t>(i)] = s;
      last_[static_cast<size_t>(s)] = i;
      load_[static_cast<size_t>(s)] += b_.remaining[static_cast<size_t>(i)];
    }
    *n_streams = std::max<int32_t>(1, static_cast<int32_t>(last_.size()));
    return stream_;
  }

 private:
  int32_t choose(int32_t i) {
    int32_t from = -1, heaviest_pred = -1;
    for (int32_t p : b_.preds[static_cast<size_t>(i)]) {
      if (finishes_later(p, heaviest_pred)) heaviest_pred = p;
      if (heaviest_child(b_, p) == i && finishes_later(p, from)) from = p;
    }
    if (from >= 0) return stream_[static_cast<size_t>(from)];
    const auto branch = static_cast<size_t>(b_.branch[static_cast<size_t>(i)]);
    if (b_.branch_floats[branch] < light_ && !last_.empty()) {
      return heaviest_pred >= 0 ? stream_[static_cast<size_t>(heaviest_pred)] : 0;
    }
    return free_stream(i);
  }

  bool finishes_later(int32_t a, int32_t b) const {
    return b < 0 || b_.finished[static_cast<size_t>(a)] > b_.finished[static_cast<size_t>(b)];
  }

  /// A stream whose work is all before op i anyway, a new one, or the least loaded.
  int32_t free_stream(int32_t i) {
    for (size_t s = 0; s < last_.size(); ++s) {
      const int32_t child = heaviest_child(b_, last_[s]);
      const bool kept_for_child = child >= 0 && stream_[static_cast<size_t>(child)] < 0;
      if (!kept_for_child && reach_(last_[s], i)) return static_cast<int32_t>(s);
    }
    if (static_cast<int32_t>(last_.size()) < max_streams_) {
      last_.push_back(-1);
      load_.push_back(0);
      return static_cast<int32_t>(last_.size() - 1);
    }
    return static_cast<int32_t>(std::min_element(load_.begin(), load_.end()) - load_.begin());
  }

  const Branches& b_;
  const Reach& reach_;
  int32_t max_streams_;
  double light_;
  std::vector<int32_t> stream_;
  std::vector<int32_t> last_;
  std::vector<double> load_;
};

/// Moves the ops into issue order and gives the dependencies between the new positions.
Edges reorder(Plan& plan, const std::vector<int32_t>& order, const Edges& succs) {
  std::vector<int32_t> position(order.size());
  std::vector<PlanOp> ops;
  ops.reserve(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    position[static_cast<size_t>(order[k])] = static_cast<int32_t>(k);
    ops.push_back(std::move(plan.ops[static_cast<size_t>(order[k])]));
  }
  plan.ops = std::move(ops);
  Edges moved(order.size());
  for (size_t k = 0; k < order.size(); ++k) {
    for (int32_t s : succs[static_cast<size_t>(order[k])])
      moved[k].push_back(position[static_cast<size_t>(s)]);
  }
  return moved;
}

/// Events for the cross-stream edges that remain, the start of the other streams and their end.
void add_events(Plan& plan, Edges succs) {
  const size_t n = plan.ops.size();
  std::vector<int32_t> last(static_cast<size_t>(plan.n_streams), -1);
  for (size_t i = 0; i < n; ++i) {
    int32_t& previous = last[static_cast<size_t>(plan.ops[i].stream)];
    if (previous >= 0) succs[static_cast<size_t>(previous)].push_back(static_cast<int32_t>(i));
    previous = static_cast<int32_t>(i);
  }
  const Reach reach(succs, iota(n));
  const Edges kept = transitive_reduction(succs, reach);
  std::vector<char> stream_started(static_cast<size_t>(plan.n_streams), 0);
  std::vector<char> starts_freely(n, 0);
  std::vector<char> has_wait(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (int32_t s : kept[i])
      has_wait[static_cast<size_t>(s)] |= plan.ops[static_cast<size_t>(s)].stream != plan.ops[i].stream;
    const auto stream = static_cast<size_t>(plan.ops[i].stream);
    starts_freely[i] = !stream_started[stream] && stream != 0 && !has_wait[i];
    stream_started[stream] = 1;
  }
  if (std::count(starts_freely.begin(), starts_freely.end(), 1) > 0) plan.start_event = plan.n_events++;
  for (size_t i = 0; i < n; ++i) {
    PlanOp& op = plan.ops[i];
    if (starts_freely[i]) op.waits.push_back(plan.start_event);
    const bool at_end =
        last[static_cast<size_t>(op.stream)] == static_cast<int32_t>(i) && op.stream != 0 && kept[i].empty();
    for (int32_t s : kept[i]) {
      PlanOp& later = plan.ops[static_cast<size_t>(s)];
      if (later.stream == op.stream) continue;
      if (op.records < 0) op.records = plan.n_events++;
      later.waits.push_back(op.records);
    }
    if (at_end) {
      op.records = plan.n_events++;
      plan.end_waits.push_back(op.records);
    }
  }
}

void clear_schedule(Plan& plan) {
  plan.n_streams = 1;
  plan.n_events = 0;
  plan.start_event = -1;
  plan.end_waits.clear();
  for (PlanOp& op : plan.ops) {
    op.branch = op.level = op.stream = 0;
    op.waits.clear();
    op.records = -1;
  }
}

}  // namespace

Result<Plan> schedule(Plan plan, const PlanOptions& options) {
  clear_schedule(plan);
  const size_t n = plan.ops.size();
  if (n > kMaxPairOps) {
    plan.notes.push_back("schedule: single stream, " + std::to_string(n) + " ops are too many for branches");
    return plan;
  }
  const Dag dag = dag_of(plan);
  const Reach reach(dag.succs, iota(n));
  const Branches b = find_branches(plan, dag.succs, reach);
  for (size_t i = 0; i < n; ++i) {
    plan.ops[i].branch = b.branch[i];
    plan.ops[i].level = b.level[i];
  }
  if (options.schedule == ScheduleMode::kSingleStream || options.max_streams <= 1) return plan;
  const std::vector<int32_t> by_cost = breadth_order(b, Before(b, StartOrder::kCost));
  const int64_t light = options.light_branch >= 0 ? options.light_branch : options.fold ? 256 : 0;
  StreamAssigner assigner(b, reach, options.max_streams, light);
  const std::vector<int32_t> streams =
      assigner.run(by_cost, &plan.n_streams);  // the same in every order of issue
  for (size_t i = 0; i < n; ++i) plan.ops[i].stream = streams[i];
  const Before before(b, options.order);
  const bool depth = options.schedule == ScheduleMode::kDepthFirst;
  Edges moved = reorder(plan, depth ? depth_order(b, before) : breadth_order(b, before), dag.succs);
  if (plan.n_streams > 1) add_events(plan, std::move(moved));
  return plan;
}

}  // namespace dpi::plan
