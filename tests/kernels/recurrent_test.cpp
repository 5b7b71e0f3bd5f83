// Recurrent over ragged histories: the device against `ref` where rows of a batch have none, few, all or
// scattered positions that count, and every row's bits on its own.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/recorded.hpp"

namespace dpi::test::recurrent_test {
namespace {

using kernels::Dims;
using kernels::OpKind;
using kernels::RecurrentKind;
using kernels::RecurrentOutput;
using kernels::ResetGate;

/// The same numbers every time, between -1 and 1.
struct Numbers {
  uint64_t state = 42;
  float next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
  }
  std::vector<float> take(int64_t n, float scale = 1) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = scale * next();
    return v;
  }
};

/// Row by row: nothing, everything, a history that ends, one that begins late, one with gaps.
std::vector<float> ragged_mask(Numbers& numbers, int64_t rows, int64_t steps) {
  std::vector<float> mask;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t cut = r * 7 % (steps + 1);
    for (int64_t t = 0; t < steps; ++t) {
      const bool counts[] = {false, true, t < cut, t >= cut, numbers.next() > 0};
      mask.push_back(counts[r % 5] ? 1.0f : 0.0f);
    }
  }
  return mask;
}

struct Sizes {
  int64_t rows, steps, in, m;
};

OpCase make(const Sizes& s, kernels::RecurrentAttrs attrs, bool bias) {
  Numbers numbers;
  OpCase c;
  c.name = "recurrent r" + std::to_string(s.rows) + " t" + std::to_string(s.steps) + " i" +
           std::to_string(s.in) + " m" + std::to_string(s.m) + " kind " +
           std::to_string(static_cast<int>(attrs.kind)) + " reset " +
           std::to_string(static_cast<int>(attrs.reset)) + " output " +
           std::to_string(static_cast<int>(attrs.output));
  c.kind = OpKind::kRecurrent;
  c.attrs = attrs;
  c.rows = s.rows;
  const bool attends = attrs.kind != RecurrentKind::kGru;
  const Dims steps{1, {s.steps}};
  c.inputs = {floats_value({2, {s.steps, s.in}}, s.rows, numbers.take(s.rows * s.steps * s.in)),
              floats_value(steps, s.rows, ragged_mask(numbers, s.rows, s.steps)),
              attends ? floats_value(steps, s.rows, numbers.take(s.rows * s.steps)) : CaseValue{}};
  const bool all = attrs.output == RecurrentOutput::kAll;
  c.outputs = {floats_value(all ? Dims{2, {s.steps, s.m}} : Dims{1, {s.m}}, s.rows, {})};
  c.params = {{true, {2, {3 * s.m, s.in}}, numbers.take(3 * s.m * s.in, 0.5f)},
              {true, {2, {3 * s.m, s.m}}, numbers.take(3 * s.m * s.m, 0.3f)},
              {},
              {}};
  for (size_t i = 2; bias && i < 4; ++i) c.params[i] = {true, {1, {3 * s.m}}, numbers.take(3 * s.m)};
  return c;
}

/// Every kind, reset and output at one size.
std::vector<OpCase> all_attributes(const Sizes& s, bool bias) {
  std::vector<OpCase> cases;
  for (const RecurrentKind kind :
       {RecurrentKind::kGru, RecurrentKind::kAgru, RecurrentKind::kAugru, RecurrentKind::kVecAtt}) {
    for (const ResetGate reset : {ResetGate::kAfter, ResetGate::kBefore}) {
      for (const RecurrentOutput output : {RecurrentOutput::kLast, RecurrentOutput::kAll})
        cases.push_back(make(s, {kind, reset, output}, bias));
    }
  }
  return cases;
}

}  // namespace

// Of more rows than a block and more steps than a chunk; widths around a vector.
TEST_CASE("recurrent: ragged histories agree with ref") {
  for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{35, 9, 5, 7}, Sizes{18, 40, 3, 17}, Sizes{6, 33, 20, 16}})
    check_cases_against_ref(all_attributes(s, s.m != 17));
}

TEST_CASE("recurrent: histories longer than a chunk agree with ref") {
  check_cases_against_ref({make({2, 300, 2, 3}, {RecurrentKind::kAugru}, true)});
}

TEST_CASE("recurrent: a row has the same bits alone") {
  check_rows_alone(all_attributes({35, 21, 5, 19}, true));
}

}  // namespace dpi::test::recurrent_test
