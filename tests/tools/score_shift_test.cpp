// Changes of order against every pair, one by one, where many scores are equal; shifts of a few rows by hand.
#include "sdk/tools/dpi/shared/score_shift.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace dpi::test::score_shift_test {
namespace {

using namespace dpi::tool;

struct Drawn {
  std::vector<float> before, after;
  std::vector<int64_t> request;

  Drawn(unsigned seed, int n) {
    std::mt19937 rng(seed);
    const unsigned levels = 1 + rng() % 6, requests = 1 + rng() % 5;
    for (int i = 0; i < n; ++i) {
      before.push_back(static_cast<float>(rng() % levels));
      after.push_back(static_cast<float>(rng() % levels));
      request.push_back(static_cast<int64_t>(rng() % requests) - 2);
    }
  }
};

OrderShift pair_by_pair(const Drawn& d) {
  OrderShift o;
  for (int64_t request = -2; request < 3; ++request) {
    std::vector<size_t> rows;
    for (size_t i = 0; i < d.request.size(); ++i)
      if (d.request[i] == request) rows.push_back(i);
    if (rows.size() < 2) continue;
    ++o.requests;
    float first = d.before[rows[0]], last_of_first = -1, best = -1;
    for (const size_t i : rows) first = std::max(first, d.before[i]);
    for (const size_t i : rows) {
      best = std::max(best, d.after[i]);
      if (d.before[i] == first) last_of_first = std::max(last_of_first, d.after[i]);
    }
    o.first_changed += last_of_first < best;
    for (const size_t i : rows) {
      for (const size_t k : rows) {
        if (d.before[i] <= d.before[k]) continue;
        ++o.pairs;
        o.swapped += d.after[i] < d.after[k];
      }
    }
  }
  return o;
}

}  // namespace

TEST_CASE("pairs that change places are those that a look at every pair finds") {
  for (unsigned seed = 0; seed < 300; ++seed) {  // each planted order of ties fails within the first ten
    CAPTURE(seed);
    const Drawn d(seed, static_cast<int>(seed % 40));
    const OrderShift got = order_shift(d.before, d.after, d.request), want = pair_by_pair(d);
    REQUIRE(got.requests == want.requests);
    REQUIRE(got.first_changed == want.first_changed);
    REQUIRE(got.pairs == want.pairs);
    REQUIRE(got.swapped == want.swapped);
  }
}

TEST_CASE("shifts of a few rows") {
  const std::vector<float> before = {1, 2, 3, 4}, after = {1, 0, 5, 5};
  const ScoreShift s = score_shift(before, after);
  CHECK(s.mean_before == 2.5);
  CHECK(s.mean_after == 2.75);
  CHECK(s.mean == 1.25);
  CHECK(s.median == 1);
  CHECK(s.p99 == 2);
  CHECK(s.largest == 2);
  CHECK(s.largest_row == 1);
  CHECK(worst_rows({before}, {after}, 9) == std::vector<size_t>{1, 2, 3});
  CHECK(worst_rows({before, before}, {after, {1, 2, 3, 9}}, 2) == std::vector<size_t>{3, 1});
  const ScoreShift none = score_shift({}, {});
  CHECK(std::isnan(none.largest));
  CHECK(std::isnan(none.mean));
  CHECK(worst_rows({}, {}, 3).empty());
}

}  // namespace dpi::test::score_shift_test
