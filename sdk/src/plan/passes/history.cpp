// Proofs by the masks of an attention over a sequence [history, candidates].
#include "plan/passes/history.hpp"

#include <algorithm>

namespace dpi::plan {
namespace {

using kernels::AttentionAttrs;
using kernels::SoftmaxMask;

constexpr int64_t kMostPairs = 1 << 24;  // that are looked at

/// True if what the mask leaves out comes out as 0 wherever a query has another key.
bool drops(const AttentionAttrs& a) {
  return a.mask_mode == SoftmaxMask::kNinf || a.value <= kernels::kFarBelow;
}

/// True if a query without any key reads the values of all.
bool reads_all_of_none(const AttentionAttrs& a) {
  if (a.form == kernels::AttentionForm::kSilu) return false;
  if (a.streamed != 0) return a.mean_of_none != 0;
  return a.mask_mode == SoftmaxMask::kAdd || a.mask_mode == SoftmaxMask::kReplace;
}

class Masks {
 public:
  Masks(const AttentionAttrs& a, const std::vector<Bit>* bits) : a_(a), bits_(bits) {}

  /// Query i reads key j, as far as its place goes.
  bool in_reach(int64_t i, int64_t j) const {
    return a_.streamed == 0 || j < kernels::keys_read(a_, i) || j == kernels::own_key(a_, i);
  }
  Bit bit(int64_t i, int64_t j) const {
    if (a_.mask_mode == SoftmaxMask::kNone) return Bit::kOne;
    return bits_ == nullptr ? Bit::kEither : (*bits_)[static_cast<size_t>(i * a_.mask_query + j)];
  }
  /// Query i surely has a key among [0, end).
  bool has_key(int64_t i, int64_t end) const {
    for (int64_t j = std::min(end, a_.keys); j-- > 0;) {
      if (in_reach(i, j) && bit(i, j) == Bit::kOne) return true;
    }
    return false;
  }

 private:
  const AttentionAttrs& a_;
  const std::vector<Bit>* bits_;
};

const std::vector<Bit>* bits_of_mask(ZeroOne& bits, const PlanOp& op) {
  const auto& a = std::get<AttentionAttrs>(op.attrs);
  return a.mask_mode == SoftmaxMask::kNone ? nullptr : bits.of(op.inputs[3]);
}

}  // namespace

bool history_sees_itself(ZeroOne& bits, const PlanOp& attention, const Cut& cut) {
  const auto& a = std::get<AttentionAttrs>(attention.attrs);
  if (a.mask_mode != SoftmaxMask::kNone && (!drops(a) || a.mask_head != 0)) return false;
  const bool by_place = a.streamed != 0 && (a.causal != 0 || a.candidates == cut.total - cut.at);
  if (by_place && !reads_all_of_none(a)) return true;
  if (a.keys > kMostPairs / cut.at) return false;
  const std::vector<Bit>* mask = bits_of_mask(bits, attention);
  const Masks masks(a, mask);
  for (int64_t i = 0; i < cut.at && !by_place; ++i) {
    for (int64_t j = cut.at; j < cut.total; ++j) {
      if (masks.in_reach(i, j) && masks.bit(i, j) != Bit::kZero) return false;
    }
  }
  for (int64_t i = 0; i < cut.at && reads_all_of_none(a); ++i) {
    if (!masks.has_key(i, cut.at)) return false;
  }
  return true;
}

std::optional<AttentionAttrs> behind_history(ZeroOne& bits, const PlanOp& attention, const Cut& cut,
                                             bool queries_cut) {
  AttentionAttrs a = std::get<AttentionAttrs>(attention.attrs);
  if (a.streamed == 0 && a.mask_mode != SoftmaxMask::kNone) {
    // The format's op takes a mask of 1 and 0; a query that it leaves without a key takes the mean then.
    const std::vector<Bit>* mask = bits.of(attention.inputs[3]);
    const bool sure = mask != nullptr || a.mask_mode != SoftmaxMask::kAdd;
    if (!drops(a) || !sure || a.mask_head != 0) return std::nullopt;
    const Masks masks(a, mask);
    for (int64_t i = queries_cut ? cut.at : 0; i < a.queries && a.mask_mode == SoftmaxMask::kAdd; ++i) {
      if (!masks.has_key(i, cut.total)) return std::nullopt;
    }
    a.mean_of_none = a.mask_mode == SoftmaxMask::kReplace ? 1 : 0;
    a.mask_mode = SoftmaxMask::kNinf;
  }
  a.streamed = 1;
  a.prefix = cut.at;
  if (a.candidates > cut.total - cut.at) return std::nullopt;
  if (!queries_cut) return a.causal == 0 && a.candidates == 0 ? std::optional(a) : std::nullopt;
  a.before = cut.at;
  a.queries = cut.total - cut.at;
  a.bias.first += cut.at * a.bias.position;
  return a;
}

}  // namespace dpi::plan
