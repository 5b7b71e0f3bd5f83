// The last layer of compressed interactions: a Tail adds up the elements of each map and then the maps with a
// weight each, so one map whose weights are that sum of the maps' weights says the same:
//
//   sum_o v_o sum_d (sum_p W[o, p] z[p, d] + b_o) = sum_d (sum_p (sum_o v_o W[o, p]) z[p, d] + sum_o v_o b_o)
#include <algorithm>
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

/// One weight per map; empty where elements of a map differ in theirs.
std::vector<double> map_weights(const std::vector<float>& tail, int64_t maps, int64_t dim) {
  std::vector<double> found;
  for (int64_t o = 0; o < maps; ++o) {
    const auto begin = tail.begin() + o * dim;
    if (std::any_of(begin, begin + dim, [&](float w) { return w != *begin; })) return {};
    found.push_back(double{*begin});
  }
  return found;
}

/// Sum over the maps of v_o times their row of a parameter [maps, n].
std::vector<float> joined(const std::vector<float>& rows, const std::vector<double>& v) {
  const size_t n = rows.size() / v.size();
  std::vector<double> sum(n);
  for (size_t o = 0; o < v.size(); ++o) {
    for (size_t k = 0; k < n; ++k) sum[k] += v[o] * double{rows[o * n + k]};
  }
  return {sum.begin(), sum.end()};
}

void join_maps(Plan& p, PlanOp& cin, PlanOp& tail, size_t term, const std::vector<double>& v) {
  const std::vector<float> weight = joined(param_of(p, cin.params[0]).data, v);
  const auto pairs = static_cast<int64_t>(weight.size());
  cin.params[0] = add_param(p, param_of(p, cin.params[0]).name + ".joined", dims_of({1, pairs}), weight);
  if (cin.params[1] >= 0) {
    const std::vector<float> bias = joined(param_of(p, cin.params[1]).data, v);
    cin.params[1] = add_param(p, param_of(p, cin.params[1]).name + ".joined", dims_of({1}), bias);
  }
  const PlanValue old = value_of(p, cin.outputs[0]);
  const int64_t dim = old.dims.at(-1);
  cin.outputs = {add_value(p, old.name + "/joined", dims_of({1, dim}), old.space)};
  tail.inputs[term] = cin.outputs[0];
  tail.params[term] =
      add_param(p, tail.name + ".ones", dims_of({dim}), std::vector<float>(static_cast<size_t>(dim), 1.0f));
  p.notes.push_back("fold: " + std::to_string(v.size()) + " maps of '" + cin.name + "' are one");
}

void try_term(Plan& p, const Index& ix, PlanOp& tail, size_t term) {
  const int32_t v = tail.inputs[term];
  const int32_t made_by = v < 0 || tail.params[term] < 0 ? -1 : ix.producer[static_cast<size_t>(v)];
  if (made_by < 0 || !ix.single_use(v)) return;
  PlanOp& cin = p.ops[static_cast<size_t>(made_by)];
  if (cin.kind != OpKind::kCin) return;
  if (std::get<kernels::CinAttrs>(cin.attrs).act.kind != kernels::UnaryKind::kIdentity) return;
  const Dims maps = value_of(p, v).dims;
  if (maps.at(-2) < 2) return;
  const std::vector<double> weights =
      map_weights(param_of(p, tail.params[term]).data, maps.at(-2), maps.at(-1));
  if (!weights.empty()) join_maps(p, cin, tail, term, weights);
}

}  // namespace

Result<Plan> fold_cin(Plan p) {
  const Index ix = index_of(p);
  for (PlanOp& op : p.ops) {
    if (op.kind != OpKind::kTail) continue;
    for (size_t i = 0; i < op.inputs.size(); ++i) try_term(p, ix, op, i);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
