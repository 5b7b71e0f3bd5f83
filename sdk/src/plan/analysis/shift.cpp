#include "plan/analysis/shift.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dpi::plan {
namespace {

// Found by tests/e2e/accuracy: with these, errors with folds stay within 1.5 times those without.
constexpr double kMostOfValues = 0.5;  // shifts against values, root mean squares
constexpr double kMostOfSum = 4;       // and what they add up to; one shift alone may be as large
constexpr double kMostBehind = 0.75;   // shifts behind a layer, root mean square

double squared(double x) { return x * x; }

}  // namespace

bool is_light(const std::vector<double>& weights, const std::vector<double>& shift) {
  double shifts = 0, values = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double t = shift[i % shift.size()];
    shifts += squared(weights[i] * t);
    values += squared(weights[i]);
  }
  if (weights.size() == 1) return std::fabs(shift[0]) <= kMostOfSum;
  return std::sqrt(shifts) <= kMostOfSum && shifts <= squared(kMostOfValues) * values;
}

bool is_light_behind(const std::vector<double>& shift) {
  double sum = 0;
  for (const double t : shift) sum += squared(t);
  return sum <= squared(kMostBehind) * static_cast<double>(shift.size());
}

void note_heavy_shift(Plan& plan, const std::string& op) {
  std::string note = "fold: '" + op + "' stays, its shifts outweigh its values";
  if (std::find(plan.notes.begin(), plan.notes.end(), note) == plan.notes.end())
    plan.notes.push_back(std::move(note));
}

}  // namespace dpi::plan
