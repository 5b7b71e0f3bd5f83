#include "pool.hpp"

#include <dpi/kernels/row_decode.hpp>

namespace dpi::kernels::ref {
namespace {

// One position as pooling sees it.
struct Position {
  int32_t id = 0;
  double weight = 1;
};

// Positions that pooling visits: those of the bag, and with rule kNone the padding too.
int64_t n_positions(const EmbedAttrs& attrs, const Bag& bag) {
  return attrs.mask == MaskRule::kNone ? attrs.max_len : bag.n;
}

// Padding has weight 1; it stands last here because the order does not change a sum or a maximum.
Position position_at(const EmbedAttrs& attrs, const Bag& bag, int64_t t) {
  if (t >= bag.n) return {attrs.pad_id, 1};
  return {bag.ids[t], bag.weights != nullptr ? double{bag.weights[t]} : 1};
}

// Does the position count? For kNonzero this is about the divisor only: every position joins the numerator.
bool counts(const EmbedAttrs& attrs, const TableView& table, int32_t id) {
  if (attrs.mask == MaskRule::kId) return id != attrs.pad_id;
  if (attrs.mask == MaskRule::kNonzero) return row_is_nonzero(table, id);
  return true;
}

double pooled_max(const EmbedAttrs& attrs, const Bag& bag, const TableView& table, int64_t column) {
  bool any = false;
  double best = attrs.empty;
  for (int64_t t = 0; t < n_positions(attrs, bag); ++t) {
    const Position p = position_at(attrs, bag, t);
    if (!counts(attrs, table, p.id)) continue;
    const double v = decode_at(table, p.id, column);
    if (!any || v > best) best = v;
    any = true;
  }
  return best;
}

double pooled_sum_or_mean(const EmbedAttrs& attrs, const Bag& bag, const TableView& table, int64_t column) {
  double sum = 0;
  double divisor = 0;
  int64_t n_counted = 0;
  for (int64_t t = 0; t < n_positions(attrs, bag); ++t) {
    const Position p = position_at(attrs, bag, t);
    const bool counted = counts(attrs, table, p.id);
    if (counted || attrs.mask == MaskRule::kNonzero) sum += p.weight * decode_at(table, p.id, column);
    if (!counted) continue;
    divisor += p.weight;
    ++n_counted;
  }
  if (attrs.pooling == Pooling::kSum) return sum;
  return n_counted == 0 ? 0 : sum / (divisor + attrs.eps);
}

}  // namespace

Bag bag_at(const Bags& bags, int64_t row) {
  if (bags.offsets == nullptr) return {bags.ids + row * bags.stride, nullptr, 1};
  const int64_t begin = bags.offsets[row];
  const float* weights = bags.weights != nullptr ? bags.weights + begin : nullptr;
  return {bags.ids + begin, weights, bags.offsets[row + 1] - begin};
}

int32_t laid_out_id(const Bag& bag, PadSide side, int64_t max_len, int32_t pad_id, int64_t t,
                    bool* is_padding) {
  const int64_t first = side == PadSide::kPre ? max_len - bag.n : 0;
  *is_padding = t < first || t >= first + bag.n;
  return *is_padding ? pad_id : bag.ids[t - first];
}

double pooled_at(const EmbedAttrs& attrs, const Bag& bag, const TableView& table, int64_t column) {
  switch (attrs.pooling) {
    case Pooling::kSingle:
      return decode_at(table, bag.ids[0], column);
    case Pooling::kMax:
      return pooled_max(attrs, bag, table, column);
    default:
      return pooled_sum_or_mean(attrs, bag, table, column);
  }
}

}  // namespace dpi::kernels::ref
