// Bits of a mask that are known while the plan is made: 0 in every row, 1 in every row, or either.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

/// True if all of the op's numbers are 1 or 0.
bool gives_bits(const PlanOp& op);
/// 1 - x.
bool turns_bits(const PlanOp& op);

/// A number of a mask.
enum class Bit : char { kZero, kOne, kEither };

class ZeroOne {
 public:
  ZeroOne(const Plan& plan, const Index& index) : p_(plan), ix_(index) {}

  /// One for each element of v in order; null where one may be another number than 1 or 0, or there are too
  /// many.
  const std::vector<Bit>* of(int32_t v);

 private:
  using Bits = std::optional<std::vector<Bit>>;

  Bits made(int32_t v);
  Bits numbers(const std::vector<float>& data) const;
  Bits moved(const PlanOp& op);
  Bits combined(const PlanOp& op);

  const Plan& p_;
  const Index& ix_;
  int depth_ = 0;
  int64_t floats_ = 0;  // of all values so far
  std::map<int32_t, Bits> known_;
};

}  // namespace dpi::plan
