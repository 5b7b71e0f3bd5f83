// Finds the elements of a value, seen through the ops that only move elements or raise them to powers.
#pragma once

#include <map>
#include <vector>

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

/// Element `index` of a row of `value`, to a power.
struct Element {
  int32_t value = -1;
  int64_t index = 0;
  int32_t power = 1;

  bool operator==(const Element&) const = default;
};

/// One row of the numbers in `data`, which must stay where they are.
kernels::Tensor tensor_over(std::vector<float>& data, const Dims& dims);

/// Views, Concat, BroadcastRows, and products of a value with its own powers are seen through; every other op
/// ends the search. An element of an item value may so be one of a shared value.
class Elements {
 public:
  Elements(const Plan& plan, const Index& index) : p_(plan), ix_(index) {}

  /// One for each element of v in order; null where there are too many, or too many ops on the way.
  const std::vector<Element>* of(int32_t v);

 private:
  std::vector<Element> made(int32_t v);
  std::vector<Element> copied(const PlanOp& op);
  std::vector<Element> moved(const PlanOp& op);
  std::vector<Element> product(const PlanOp& op);
  std::vector<Element> power(const PlanOp& op);
  std::vector<Element> itself(int32_t v) const;

  const Plan& p_;
  const Index& ix_;
  int depth_ = 0;
  int64_t n_known_ = 0;                            // elements in all
  std::map<int32_t, std::vector<Element>> known_;  // empty: not known
};

}  // namespace dpi::plan
