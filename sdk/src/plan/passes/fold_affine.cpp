// Channel-wise affine maps (BatchNorm as exported) into the Linear before or after them, in double, where
// that costs no accuracy (analysis/shift.hpp).
#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/analysis/shift.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

constexpr double kRounded = 1e-6;  // more than a normal float's rounding, 6e-8 of it

bool last_axis_linear(const PlanOp& op) {
  if (op.kind != OpKind::kLinear) return false;
  const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast;
}

bool is_affine(const PlanOp& op) {
  return op.kind == OpKind::kUnary &&
         std::get<kernels::UnaryAttrs>(op.attrs).kind == kernels::UnaryKind::kAffine;
}

struct Affine {
  std::vector<double> scale, shift;
};
Affine affine_of(const Plan& p, const PlanOp& op, size_t n) {
  const auto& a = std::get<kernels::UnaryAttrs>(op.attrs);
  const bool scalar = op.params[0] < 0 && op.params[1] < 0;
  Affine r{std::vector<double>(n, scalar ? a.a : 1.0), std::vector<double>(n, scalar ? a.b : 0.0)};
  for (size_t i = 0; i < n; ++i) {
    if (op.params[0] >= 0) r.scale[i] = param_of(p, op.params[0]).data[i];
    if (op.params[1] >= 0) r.shift[i] = param_of(p, op.params[1]).data[i];
  }
  return r;
}

/// Every output o of W (scale x + shift).
bool is_light_before(const PlanParam& w, const Affine& a) {
  const size_t n = a.shift.size();
  std::vector<double> row(n);
  for (size_t o = 0; o * n < w.data.size(); ++o) {
    for (size_t i = 0; i < n; ++i) row[i] = static_cast<double>(w.data[o * n + i]);
    if (!is_light(row, a.shift)) return false;
  }
  return true;
}

/// False when an infinity came of numbers of the bundle: it times an input of 0 is NaN, where the two ops,
/// one after the other, stay finite.
bool is_finite(const std::vector<float>& v) {
  return std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x); });
}

/// The floats of weight and bias that a layer has after a map is folded into it.
int64_t folded_floats(const Plan& p, const PlanOp& linear) {
  const Dims& w = param_of(p, linear.params[0]).dims;
  return w.size() + w.d[0];
}

/// scale (W x + b) + shift. False: nothing is done.
bool fold_after(Plan& p, PlanOp& linear, PlanOp& affine) {
  PlanParam w = param_of(p, linear.params[0]);
  const auto n_out = static_cast<size_t>(w.dims.d[0]);
  const size_t n_in = w.data.size() / n_out;
  const Affine a = affine_of(p, affine, n_out);
  std::vector<float> bias(n_out);
  for (size_t o = 0; o < n_out; ++o) {
    for (size_t i = 0; i < n_in; ++i)
      w.data[o * n_in + i] = static_cast<float>(a.scale[o] * static_cast<double>(w.data[o * n_in + i]));
    const double b = linear.params[1] >= 0 ? static_cast<double>(param_of(p, linear.params[1]).data[o]) : 0.0;
    bias[o] = static_cast<float>(a.scale[o] * b + a.shift[o]);
  }
  if (!is_finite(w.data) || !is_finite(bias)) return false;
  linear.params[0] = add_param(p, w.name + "*affine", w.dims, std::move(w.data));
  linear.params[1] =
      add_param(p, linear.name + ".bias", dims_of({static_cast<int64_t>(n_out)}), std::move(bias));
  linear.outputs = affine.outputs;
  kill(affine);
  return true;
}

/// Makes W (scale x + shift) + b one Linear. The new weights are rounded and the bias is computed from the
/// rounded ones, so their error is 0 where scale x + shift is 0: for BatchNorm, at the feature's mean. A
/// weight of which rounding leaves few bits (subnormal) or none tells nothing; the exact one times the shift
/// does. False: nothing is done.
bool fold_before(Plan& p, PlanOp& linear, const PlanOp& affine, const Affine& a) {
  PlanParam w = param_of(p, linear.params[0]);
  const auto n_out = static_cast<size_t>(w.dims.d[0]);
  const size_t n_in = w.data.size() / n_out;
  std::vector<float> bias(n_out);
  for (size_t o = 0; o < n_out; ++o) {
    double b = linear.params[1] >= 0 ? static_cast<double>(param_of(p, linear.params[1]).data[o]) : 0.0;
    for (size_t i = 0; i < n_in; ++i) {
      float& v = w.data[o * n_in + i];
      const double old = static_cast<double>(v);
      v = static_cast<float>(old * a.scale[i]);
      const double back = static_cast<double>(v) / a.scale[i];
      b += (std::fabs(back - old) <= kRounded * std::fabs(old) ? back : old) * a.shift[i];
    }
    bias[o] = static_cast<float>(b);
  }
  if (!is_finite(w.data) || !is_finite(bias)) return false;
  linear.params[0] = add_param(p, w.name + "*affine", w.dims, std::move(w.data));
  linear.params[1] =
      add_param(p, linear.name + ".bias", dims_of({static_cast<int64_t>(n_out)}), std::move(bias));
  linear.inputs[0] = affine.inputs[0];
  return true;
}

int fold_all_after(Plan& p) {
  const Index ix = index_of(p);
  int folded = 0;
  for (PlanOp& op : p.ops) {
    if (!last_axis_linear(op)) continue;
    while (ix.single_use(op.outputs[0])) {
      PlanOp& next = p.ops[static_cast<size_t>(ix.users[static_cast<size_t>(op.outputs[0])][0])];
      if (!is_affine(next)) break;
      const std::vector<double> shift =
          affine_of(p, next, static_cast<size_t>(value_of(p, next.outputs[0]).dims.at(-1))).shift;
      if (!is_light_behind(shift)) {
        note_heavy_shift(p, next.name);
        break;
      }
      if (!has_room(p, folded_floats(p, op), next.name)) break;
      if (!fold_after(p, op, next)) break;
      ++folded;
    }
  }
  return folded;
}

/// Only Linear layers read it.
bool feeds_layers(const Plan& p, const Index& ix, int32_t value) {
  const auto v = static_cast<size_t>(value);
  bool all = ix.head_uses[v] == 0;
  for (int32_t u : ix.users[v]) all = all && last_axis_linear(p.ops[static_cast<size_t>(u)]);
  return all;
}

int32_t zeros(Plan& p, int64_t n) {
  return add_param(p, "zeros", dims_of({n}), std::vector<float>(static_cast<size_t>(n)));
}

/// x times a constant per channel, which only layers read, is an affine map of it (FinalMLP's gates over
/// fields).
void scales_to_affine(Plan& p) {
  const Index ix = index_of(p);
  for (PlanOp& op : p.ops) {
    if (op.kind != OpKind::kBinary || !feeds_layers(p, ix, op.outputs[0])) continue;
    if (std::get<kernels::BinaryAttrs>(op.attrs).kind != kernels::BinaryKind::kMul) continue;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const PlanValue& scale = value_of(p, op.inputs[side]);
      const PlanValue& x = value_of(p, op.inputs[1 - side]);
      const bool per_channel = scale.dims.size() == x.dims.at(-1) && scale.dims.at(-1) == x.dims.at(-1);
      if (scale.storage != Storage::kConst || x.storage == Storage::kConst || !per_channel) continue;
      if (x.dims != value_of(p, op.outputs[0]).dims) continue;
      kernels::UnaryAttrs affine;
      affine.kind = kernels::UnaryKind::kAffine;
      op.kind = OpKind::kUnary;
      op.attrs = affine;
      op.params = {scale.param, zeros(p, x.dims.at(-1)), -1};
      op.inputs = {op.inputs[1 - side]};
      break;
    }
  }
}

int fold_all_before(Plan& p) {
  const Index ix = index_of(p);
  int folded = 0;
  for (size_t i = 0; i < p.ops.size(); ++i) {
    if (!last_axis_linear(p.ops[i])) continue;
    for (int32_t from = ix.producer[static_cast<size_t>(p.ops[i].inputs[0])]; from >= 0;
         from = ix.producer[static_cast<size_t>(p.ops[i].inputs[0])]) {
      const PlanOp affine = p.ops[static_cast<size_t>(from)];
      if (!is_affine(affine) || !feeds_layers(p, ix, affine.outputs[0])) break;
      const Affine a = affine_of(p, affine, static_cast<size_t>(value_of(p, affine.outputs[0]).dims.at(-1)));
      if (!is_light_before(param_of(p, p.ops[i].params[0]), a)) {
        note_heavy_shift(p, affine.name);
        break;
      }
      if (!has_room(p, folded_floats(p, p.ops[i]), affine.name)) break;
      if (!fold_before(p, p.ops[i], affine, a)) break;
      ++folded;
    }
  }
  return folded;
}

}  // namespace

Result<Plan> fold_affine(Plan p) {
  scales_to_affine(p);
  int folded = fold_all_after(p);
  while (const int n = fold_all_before(p)) {  // a map that others have read may be left to layers alone
    folded += n;
    DPI_ASSIGN_OR_RETURN(p, cleanup(std::move(p)));
  }
  if (folded > 0) p.notes.push_back("fold: " + std::to_string(folded) + " affine maps into linear layers");
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
