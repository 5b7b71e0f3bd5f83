// Metrics against values recorded from scikit-learn 1.2.1 (roc_auc_score, log_loss).
#include "sdk/tools/dpi/shared/metrics.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace dpi::test::metrics_test {
namespace {

using dpi::tool::auc;
using dpi::tool::log_loss;
using dpi::tool::percentile;

struct Sample {
  std::vector<float> score, label;
};

/// n rows of a linear congruential generator, scores in steps of 1/q: the recorded values are of the same
/// rows.
Sample sample(int n, uint64_t q) {
  Sample s;
  uint64_t x = 12345;
  const auto next = [&x] { return (x = (x * 1103515245 + 12345) % (uint64_t{1} << 31)) >> 8; };
  for (int i = 0; i < n; ++i) {
    s.score.push_back(static_cast<float>(static_cast<double>(next() % q) / static_cast<double>(q)));
    s.label.push_back(next() % 10 < 3 ? 1.0f : 0.0f);
  }
  return s;
}

void check(const Sample& s, double want_auc, double want_log_loss) {
  CHECK(std::fabs(auc(s.score, s.label) - want_auc) <= 1e-14);
  CHECK(std::fabs(log_loss(s.score, s.label) - want_log_loss) <= 1e-13 * want_log_loss);
}

}  // namespace

TEST_CASE("metrics equal scikit-learn's, ties and certain scores included") {
  check({{0.1f, 0.4f, 0.35f, 0.8f}, {0, 0, 1, 1}}, 0.75, 0.47228795723880856);
  check({{0, 1, 0.25f, 1, 0, 0.5f}, {0, 1, 0, 0, 1, 1}}, 0.5555555555555556, 12.17802267187434);
  check({{0.5f, 0.5f, 0.5f, 0.5f, 0.5f}, {0, 0, 1, 1, 0}}, 0.5, 0.6931471805599453);
  check(sample(31, 4), 0.3269230769230769, 4.119644524510495);
  check(sample(997, 64), 0.5172268381077225, 1.064391784717701);
  check(sample(5000, 1 << 20), 0.5185677800745558, 0.9951434648581658);
}

TEST_CASE("metrics that are not defined are NaN, never a number") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(auc({0.5f, 0.6f}, {1, 1})));
  CHECK(std::isnan(auc({0.5f, 0.6f}, {0, 0})));
  CHECK(std::isnan(auc({}, {})));
  CHECK(std::isnan(auc({nan, 0.6f}, {0, 1})));
  CHECK(std::isnan(log_loss({}, {})));
  CHECK(std::isnan(log_loss({nan, 0.6f}, {0, 1})));
  CHECK(log_loss({1, 0}, {1, 0}) <= 1e-15);
}

TEST_CASE("percentiles are nearest ranks") {
  std::vector<double> v = {5, 1, 4, 2, 3};
  CHECK(percentile(&v, 0.5) == 3);
  CHECK(percentile(&v, 0.99) == 5);
  CHECK(percentile(&v, 0.2) == 1);
  CHECK(percentile(&v, 0.21) == 2);
  v = {7};
  CHECK(percentile(&v, 0.5) == 7);
  v = {};
  CHECK(std::isnan(percentile(&v, 0.5)));
}

}  // namespace dpi::test::metrics_test
