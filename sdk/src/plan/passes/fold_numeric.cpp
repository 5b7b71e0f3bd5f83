// Where only Linear layers read a Concat, a numeric's vector x_j v_j in it becomes the number x_j, and the
// layers get the one column W_j v_j in place of its block. Numbers move to the end of the row, so that the
// embeddings stay aligned.
#include <utility>

#include "plan/analysis/pieces.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

struct Column {  // one input of the Concat: where it was and what it becomes
  int32_t value = -1;
  int64_t from = 0;
  int64_t width = 0;
  const PlanOp* projection = nullptr;
};

bool reads_rows(const PlanOp& op) {
  if (op.kind != OpKind::kLinear) return false;
  const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast;
}

void rewrite_linear(Plan& p, PlanOp& linear, const std::vector<Column>& columns, int64_t n_new) {
  const PlanParam w = param_of(p, linear.params[0]);
  const int64_t n_out = w.dims.d[0], n_in = w.dims.d[1];
  std::vector<float> weight(static_cast<size_t>(n_out * n_new)), bias(static_cast<size_t>(n_out), 0.0f);
  for (int64_t o = 0; o < n_out; ++o) {
    const float* row = w.data.data() + o * n_in;
    float* into = weight.data() + o * n_new;
    double b = linear.params[1] >= 0
                   ? static_cast<double>(param_of(p, linear.params[1]).data[static_cast<size_t>(o)])
                   : 0.0;
    for (const Column& c : columns) {
      if (!c.projection) {
        for (int64_t k = 0; k < c.width; ++k) *into++ = row[c.from + k];
        continue;
      }
      const std::vector<float>& v = param_of(p, c.projection->params[0]).data;
      double sum = 0;
      for (int64_t k = 0; k < c.width; ++k) {
        const auto at = static_cast<size_t>(k);
        sum += static_cast<double>(row[c.from + k]) * static_cast<double>(v[at]);
        if (c.projection->params[1] < 0) continue;
        b += static_cast<double>(row[c.from + k]) *
             static_cast<double>(param_of(p, c.projection->params[1]).data[at]);
      }
      *into++ = static_cast<float>(sum);
    }
    bias[static_cast<size_t>(o)] = static_cast<float>(b);
  }
  linear.params[0] = add_param(p, w.name + "*numerics", dims_of({n_out, n_new}), std::move(weight));
  linear.params[1] = add_param(p, linear.name + ".bias", dims_of({n_out}), std::move(bias));
}

bool try_concat(Plan& p, const Index& ix, size_t i) {
  const PlanOp& concat = p.ops[i];
  const int32_t out = concat.outputs[0];
  if (value_of(p, out).dims.rank != 1 || ix.head_uses[static_cast<size_t>(out)] > 0) return false;
  for (int32_t u : ix.users[static_cast<size_t>(out)]) {
    if (!reads_rows(p.ops[static_cast<size_t>(u)])) return false;
  }
  std::vector<Column> kept, numbers;
  int64_t at = 0, n_new = 0;
  for (int32_t v : concat.inputs) {
    Column c{v, at, value_of(p, v).dims.size(), nullptr};
    at += c.width;
    const int32_t from = ix.producer[static_cast<size_t>(v)];
    if (from >= 0 && value_of(p, v).space == value_of(p, out).space &&
        numeric_projection(p, p.ops[static_cast<size_t>(from)]))
      c.projection = &p.ops[static_cast<size_t>(from)];
    n_new += c.projection ? 1 : c.width;
    const bool raw = value_of(p, v).storage == Storage::kInput;
    (c.projection || raw ? numbers : kept).push_back(c);
  }
  bool any = false;
  for (const Column& c : numbers) any = any || c.projection;
  if (!any) return false;
  const size_t n_numbers = numbers.size();
  kept.insert(kept.end(), numbers.begin(), numbers.end());
  std::vector<int32_t> inputs;
  for (const Column& c : kept) inputs.push_back(c.projection ? c.projection->inputs[0] : c.value);
  const std::vector<int32_t> users = ix.users[static_cast<size_t>(out)];
  for (int32_t u : users) rewrite_linear(p, p.ops[static_cast<size_t>(u)], kept, n_new);
  p.ops[i].inputs = std::move(inputs);
  PlanValue& value = p.values[static_cast<size_t>(out)];
  value.dims = dims_of({n_new});
  value.row_stride = n_new;
  p.notes.push_back("fold: " + std::to_string(n_numbers) + " numerics into the layers after '" + value.name +
                    "', " + std::to_string(at) + " -> " + std::to_string(n_new) + " columns");
  return true;
}

}  // namespace

Result<Plan> fold_numeric(Plan p) {
  const Index ix = index_of(p);
  for (size_t i = 0; i < p.ops.size(); ++i) {
    if (p.ops[i].kind == OpKind::kConcat) try_concat(p, ix, i);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
