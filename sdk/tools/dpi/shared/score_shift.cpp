#include "sdk/tools/dpi/shared/score_shift.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sdk/tools/dpi/shared/metrics.hpp"

namespace dpi::tool {

namespace {

double distance(float a, float b) { return std::fabs(static_cast<double>(a) - static_cast<double>(b)); }

/// Sorts so that larger ones come first, and counts the pairs that stood the other way round.
int64_t sort_and_count(std::span<float> v, std::vector<float>* room) {
  if (v.size() < 2) return 0;
  const size_t half = v.size() / 2;
  int64_t n = sort_and_count(v.first(half), room) + sort_and_count(v.subspan(half), room);
  room->assign(v.begin(), v.end());
  size_t left = 0, right = half;
  for (float& to : v) {
    const bool from_right = left == half || (right < v.size() && (*room)[right] > (*room)[left]);
    if (from_right) n += static_cast<int64_t>(half - left);
    to = (*room)[from_right ? right++ : left++];
  }
  return n;
}

int64_t pairs_of(int64_t n) { return n * (n - 1) / 2; }

/// Rows of one request, sorted by their scores before, then after, the largest first.
void add_request(std::span<const float> before, std::span<float> after, std::vector<float>* room,
                 OrderShift* order) {
  if (before.size() < 2) return;
  ++order->requests;
  order->pairs += pairs_of(static_cast<int64_t>(before.size()));
  for (size_t i = 0; i < before.size();) {
    const size_t begin = i;
    while (i < before.size() && before[i] == before[begin]) ++i;
    order->pairs -= pairs_of(static_cast<int64_t>(i - begin));
  }
  if (after[0] < *std::max_element(after.begin(), after.end())) ++order->first_changed;
  order->swapped += sort_and_count(after, room);
}

}  // namespace

ScoreShift score_shift(std::span<const float> before, std::span<const float> after) {
  ScoreShift s;
  std::vector<double> apart;
  apart.reserve(before.size());
  for (size_t i = 0; i < before.size(); ++i) {
    s.mean_before += static_cast<double>(before[i]);
    s.mean_after += static_cast<double>(after[i]);
    const double d = distance(before[i], after[i]);
    s.mean += d;
    if (i == 0 || d > s.largest) {
      s.largest = d;
      s.largest_row = i;
    }
    apart.push_back(d);
  }
  const auto n = static_cast<double>(before.size());
  for (double* sum : {&s.mean_before, &s.mean_after, &s.mean}) *sum /= n;
  s.median = percentile(&apart, 0.50);
  s.p99 = percentile(&apart, 0.99);
  if (before.empty()) s.largest = s.median;
  return s;
}

OrderShift order_shift(std::span<const float> before, std::span<const float> after,
                       std::span<const int64_t> request) {
  std::vector<size_t> by_request(before.size());
  std::iota(by_request.begin(), by_request.end(), size_t{0});
  std::sort(by_request.begin(), by_request.end(), [&](size_t a, size_t b) {
    if (request[a] != request[b]) return request[a] < request[b];
    if (before[a] != before[b]) return before[a] > before[b];
    return after[a] > after[b];
  });
  std::vector<float> sorted_before, sorted_after, room;
  sorted_before.reserve(before.size());
  sorted_after.reserve(before.size());
  for (const size_t i : by_request) {
    sorted_before.push_back(before[i]);
    sorted_after.push_back(after[i]);
  }
  OrderShift order;
  for (size_t i = 0; i < by_request.size();) {
    const size_t begin = i;
    while (i < by_request.size() && request[by_request[i]] == request[by_request[begin]]) ++i;
    add_request(std::span(sorted_before).subspan(begin, i - begin),
                std::span(sorted_after).subspan(begin, i - begin), &room, &order);
  }
  return order;
}

std::vector<size_t> worst_rows(const std::vector<std::vector<float>>& before,
                               const std::vector<std::vector<float>>& after, size_t most) {
  std::vector<double> apart(before.empty() ? 0 : before[0].size(), 0.0);
  for (size_t c = 0; c < before.size(); ++c)
    for (size_t i = 0; i < apart.size(); ++i)
      apart[i] = std::max(apart[i], distance(before[c][i], after[c][i]));
  std::vector<size_t> rows(apart.size());
  std::iota(rows.begin(), rows.end(), size_t{0});
  const size_t n = std::min(most, rows.size());
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(n), rows.end(),
                    [&](size_t a, size_t b) { return apart[a] != apart[b] ? apart[a] > apart[b] : a < b; });
  rows.resize(n);
  while (!rows.empty() && apart[rows.back()] == 0) rows.pop_back();
  return rows;
}

}  // namespace dpi::tool
