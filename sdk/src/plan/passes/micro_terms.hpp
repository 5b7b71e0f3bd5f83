// The terms that an element of a result takes of micro-MLPs: sums over positions and orders taken apart.
#pragma once

#include <vector>

#include "plan/passes/micro_mlp.hpp"

namespace dpi::plan {

/// One number of one level at one position.
struct MicroTerm {
  int32_t product = -1;
  MicroFeed::Row row;
  int64_t column = 0;
  bool masked = false;  // times the mask at this position
  bool mean = false;    // divided by the number of positions that count, 1 where none does
};

/// Sees through sums, products with a mask, and divisions by its sum.
class MicroTerms {
 public:
  MicroTerms(const Plan& plan, const Index& index, Elements& elements, const MicroProducts& products)
      : p_(plan), ix_(index), elements_(elements), products_(products) {}

  /// Appends the terms whose sum the element is; false where it is anything else.
  bool of(const Element& e, std::vector<MicroTerm>* out) { return of(e, 0, out); }
  /// The value of the one Mask op that all terms since forget_mask were multiplied with, or -1.
  int32_t mask() const { return mask_; }
  void forget_mask() { mask_ = -1; }

 private:
  bool of(const Element& e, int depth, std::vector<MicroTerm>* out);
  bool at(int32_t value, int64_t index, int depth, std::vector<MicroTerm>* out);
  bool masked_product(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out);
  bool masked(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out);
  bool reduced(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out);
  bool divided(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out);
  bool is_mask(const Element& e, int64_t t);
  bool is_count(int32_t v);
  bool is_mask_sum(int32_t v);
  const PlanOp* producer(int32_t v) const;

  const Plan& p_;
  const Index& ix_;
  Elements& elements_;
  const MicroProducts& products_;
  int32_t mask_ = -1;
  int64_t left_ = 1 << 26;  // steps that a plan may take in all
};

}  // namespace dpi::plan
