// Dead code, topological order, and renumbering of values, params and tables.
#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "plan/analysis/ir.hpp"

namespace dpi::plan {
namespace {

/// Ops that some head depends on.
std::vector<char> live_ops(const Plan& plan, const Dag& dag) {
  std::vector<char> live(plan.ops.size(), 0);
  std::vector<char> wanted(plan.values.size(), 0);
  for (const PlanHead& h : plan.heads) {
    for (int32_t v : {h.value, h.logit}) {
      if (v < 0) continue;
      if (const Region r = region_of(plan, v); r.base >= 0) wanted[static_cast<size_t>(r.base)] = 1;
    }
  }
  std::vector<int32_t> stack;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for (const Region& r : writes_of(plan, plan.ops[i])) {
      if (wanted[static_cast<size_t>(r.base)] && !live[i]) {
        live[i] = 1;
        stack.push_back(static_cast<int32_t>(i));
      }
    }
  }
  while (!stack.empty()) {
    const int32_t i = stack.back();
    stack.pop_back();
    for (int32_t p : dag.preds[static_cast<size_t>(i)]) {
      if (live[static_cast<size_t>(p)]) continue;
      live[static_cast<size_t>(p)] = 1;
      stack.push_back(p);
    }
  }
  return live;
}

/// Kahn's algorithm; among the ready ops the one that stands first now.
std::vector<int32_t> topological(const Dag& dag, const std::vector<char>& live) {
  std::vector<int32_t> waiting(dag.preds.size(), 0);
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ready;
  for (size_t i = 0; i < dag.preds.size(); ++i) {
    if (!live[i]) continue;
    waiting[i] = static_cast<int32_t>(dag.preds[i].size());
    if (waiting[i] == 0) ready.push(static_cast<int32_t>(i));
  }
  std::vector<int32_t> order;
  while (!ready.empty()) {
    const int32_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (int32_t s : dag.succs[static_cast<size_t>(i)]) {
      if (live[static_cast<size_t>(s)] && --waiting[static_cast<size_t>(s)] == 0) ready.push(s);
    }
  }
  return order;
}

/// Old index -> new index for the entries in use, in the old order.
std::vector<int32_t> renumber(const std::vector<char>& used) {
  std::vector<int32_t> map(used.size(), -1);
  int32_t next = 0;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) map[i] = next++;
  }
  return map;
}

template <class T>
void keep_used(std::vector<T>& list, const std::vector<int32_t>& map) {
  size_t out = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (map[i] < 0) continue;
    if (out != i) list[out] = std::move(list[i]);
    ++out;
  }
  list.resize(out);
}

void remap(std::vector<int32_t>& list, const std::vector<int32_t>& map) {
  for (int32_t& v : list) v = v < 0 ? v : map[static_cast<size_t>(v)];
}

void mark(std::vector<char>& used, const std::vector<int32_t>& list) {
  for (int32_t v : list) {
    if (v >= 0) used[static_cast<size_t>(v)] = 1;
  }
}

void compact_values(Plan& plan) {
  std::vector<char> used(plan.values.size(), 0);
  for (const PlanOp& op : plan.ops) {
    mark(used, op.inputs);
    mark(used, op.outputs);
  }
  for (const PlanHead& h : plan.heads) mark(used, {h.value, h.logit});
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] && plan.values[i].base >= 0) used[static_cast<size_t>(plan.values[i].base)] = 1;
  }
  const std::vector<int32_t> map = renumber(used);
  keep_used(plan.values, map);
  for (PlanValue& v : plan.values) v.base = v.base < 0 ? -1 : map[static_cast<size_t>(v.base)];
  for (PlanOp& op : plan.ops) {
    remap(op.inputs, map);
    remap(op.outputs, map);
  }
  for (PlanHead& h : plan.heads) {
    h.value = h.value < 0 ? -1 : map[static_cast<size_t>(h.value)];
    h.logit = h.logit < 0 ? -1 : map[static_cast<size_t>(h.logit)];
  }
}

void compact_params(Plan& plan) {
  std::vector<char> used(plan.params.size(), 0);
  for (const PlanOp& op : plan.ops) mark(used, op.params);
  for (const PlanValue& v : plan.values) mark(used, {v.param});
  const std::vector<int32_t> map = renumber(used);
  keep_used(plan.params, map);
  plan.floats = 0;
  for (const PlanParam& p : plan.params) plan.floats += p.dims.size();
  for (PlanOp& op : plan.ops) remap(op.params, map);
  for (PlanValue& v : plan.values) v.param = v.param < 0 ? -1 : map[static_cast<size_t>(v.param)];
}

void compact_tables(Plan& plan) {
  std::vector<char> used(plan.tables.size(), 0);
  for (const PlanOp& op : plan.ops) mark(used, op.tables);
  for (size_t t = 0; t < used.size(); ++t) {  // what rides with rows that the store moves has no other home
    if (used[t] && plan.tables[t].tiered) mark(used, {plan.tables[t].ride_with});
  }
  const std::vector<int32_t> map = renumber(used);
  keep_used(plan.tables, map);
  for (PlanOp& op : plan.ops) remap(op.tables, map);
  for (PlanTable& t : plan.tables) t.ride_with = t.ride_with < 0 ? -1 : map[static_cast<size_t>(t.ride_with)];
}

}  // namespace

Result<Plan> cleanup(Plan plan) {
  const Dag dag = dag_of(plan);
  const std::vector<char> live = live_ops(plan, dag);
  const std::vector<int32_t> order = topological(dag, live);
  if (order.size() != static_cast<size_t>(std::count(live.begin(), live.end(), 1))) {
    return internal_error("plan '" + plan.name + "': the ops form a cycle");
  }
  std::vector<PlanOp> ops;
  ops.reserve(order.size());
  for (int32_t i : order) ops.push_back(std::move(plan.ops[static_cast<size_t>(i)]));
  plan.ops = std::move(ops);
  compact_values(plan);
  compact_params(plan);
  compact_tables(plan);
  return plan;
}

}  // namespace dpi::plan
