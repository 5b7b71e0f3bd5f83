#include <dpi/kernels/co_action.hpp>

#include <algorithm>

#include <dpi/kernels/row_decode.hpp>

#include "apply.hpp"
#include "pool.hpp"

namespace dpi::kernels::ref {
namespace {

// The micro-MLP of one order over h_0 = x; what is collected is added to out.
void add_order(const CoActionAttrs& a, const float* induction, int32_t order, const double* x, double* out) {
  double h[kMaxMicroNumbers], y[kMaxMicroNumbers];
  std::copy_n(x, a.levels[0].inputs, h);
  for (int32_t l = 0; l < a.n_levels; ++l) {
    const MicroLevel& level = a.levels[l];
    const float* w = induction + level.weight + order * a.weight_step;
    const float* b = level.bias < 0 ? nullptr : induction + level.bias + order * a.weight_step;
    for (int32_t o = 0; o < level.outputs; ++o) {
      double sum = b == nullptr ? 0 : b[o];
      for (int32_t i = 0; i < level.inputs; ++i) sum += h[i] * w[i * level.outputs + o];
      y[o] = apply_unary(level.act, sum, {});
    }
    for (int32_t o = 0; level.out_col >= 0 && o < level.outputs; ++o)
      out[level.out_col + order * a.out_step + o] += y[o];
    std::copy_n(y, level.outputs, h);
  }
}

// powers: begins with what is fed; the higher ones are written behind it, order by order.
void add_item(const CoActionAttrs& a, const float* induction, double* powers, double* out) {
  for (int32_t p = 1; p < a.orders; ++p) {
    for (int32_t i = 0; i < a.feed_dim; ++i)
      powers[p * a.feed_dim + i] = powers[(p - 1) * a.feed_dim + i] * powers[i];
  }
  for (int32_t p = 0; p < (a.joined != 0 ? 1 : a.orders); ++p)
    add_order(a, induction, p, powers + p * a.feed_dim, out);
}

// Gives the number of items that count.
int64_t add_history(const CoActionArgs& a, int64_t r, double* out) {
  const Bag bag = bag_at(a.ids, a.row_map != nullptr ? a.row_map[r] : r);
  double powers[kMaxMicroNumbers];
  int64_t counted = 0;
  for (int64_t t = 0; t < bag.n; ++t) {
    if (a.attrs.mask == MaskRule::kId && bag.ids[t] == a.attrs.pad_id) continue;
    for (int32_t i = 0; i < a.attrs.feed_dim; ++i)
      powers[i] = decode_at(a.table, bag.ids[t], a.attrs.feed_col + i);
    add_item(a.attrs, a.induction.row(r), powers, out);
    ++counted;
  }
  return counted;
}

}  // namespace

void co_action(const CoActionArgs& a) {
  const int64_t n = a.dst.dims.size();
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    double out[kMaxMicroNumbers] = {};
    int64_t counted = 1;
    if (a.x.data == nullptr) {
      counted = add_history(a, r, out);
    } else {
      double powers[kMaxMicroNumbers];
      std::copy_n(a.x.row(r) + a.attrs.feed_col, a.attrs.feed_dim, powers);
      add_item(a.attrs, a.induction.row(r), powers, out);
    }
    const double divisor = a.attrs.mean != 0 && counted > 0 ? static_cast<double>(counted) : 1.0;
    for (int64_t i = 0; i < n; ++i) a.dst.row(r)[i] = static_cast<float>(out[i] / divisor);
  }
}

}  // namespace dpi::kernels::ref
