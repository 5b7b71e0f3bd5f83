// May a shift move into what stands beside it?
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace dpi::plan {

/// <weights, s x + shift> = <weights s, x> + <weights, shift> is exact algebra, but where the shifts take
/// away most of s x (a year less its mean, over its deviation), the left side subtracts before it rounds, the
/// right side after. True when that makes the error at most about 1.5 times as large
/// (limits found with tests/e2e/accuracy). Values behind a shift are taken
/// to be of order 1, as behind every BatchNorm, and so is what the weights make of them.
bool is_light(const std::vector<double>& weights, const std::vector<double>& shift);

/// s (W x + b) + shift in one layer: both sides round W x, the right side also s W, where the shifts may
/// cancel what it multiplies.
bool is_light_behind(const std::vector<double>& shift);

/// The plan's note that the shift of this op stays where it is; once per op.
void note_heavy_shift(Plan& plan, const std::string& op);

}  // namespace dpi::plan
