// Rules of single ops where ordinary values do not show them, with the results written out or taken from
// float64 arithmetic. Each case was written for a kernel that had the rule wrong and passed all other tests
// (tests/mutants).
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "support/device.hpp"
#include "support/recorded.hpp"

namespace dpi::test::edges_test {
namespace {

using kernels::Dims;
using kernels::OpKind;

CaseValue value(Dims dims, std::vector<float> data) {
  CaseValue v;
  v.present = true;
  v.dims = dims;
  v.rows = static_cast<int64_t>(data.size()) / dims.size();
  v.data = std::move(data);
  return v;
}

/// One row of ids.
CaseValue bag(std::vector<int32_t> ids) {
  CaseValue v;
  v.present = v.is_bags = true;
  v.rows = 1;
  v.offsets = {0, static_cast<int32_t>(ids.size())};
  v.ids = std::move(ids);
  return v;
}

CaseTable table(int32_t dim, const std::vector<float>& data, bool needs_nonzero) {
  CaseTable t{static_cast<int64_t>(data.size()) / dim, dim, kernels::DType::kF32, {}, {}, needs_nonzero};
  t.bytes.resize(data.size() * sizeof(float));
  std::memcpy(t.bytes.data(), data.data(), t.bytes.size());
  return t;
}

OpCase make(const std::string& name, OpKind kind, OpAttrs attrs, std::vector<CaseValue> inputs,
            CaseValue output) {
  OpCase c;
  c.name = name;
  c.kind = kind;
  c.attrs = attrs;
  c.rows = output.rows;
  c.inputs = std::move(inputs);
  c.outputs = {std::move(output)};
  return c;
}

kernels::EmbedAttrs mean(kernels::MaskRule mask, float eps) {
  kernels::EmbedAttrs a;
  a.pooling = kernels::Pooling::kMean;
  a.mask = mask;
  a.eps = eps;
  return a;
}

TEST_CASE("edges: eps is part of what a mean divides by") {
  const auto reduce = [](Dims x, CaseValue mask, Dims to, std::vector<float> want) {
    return make("reduce", OpKind::kReduce, kernels::ReduceAttrs{kernels::ReduceKind::kMean, 0, 1, 0.5f, 0},
                {value(x, {3, 6, 12, 24, 48, 96}), std::move(mask)}, value(to, std::move(want)));
  };
  OpCase embed = make("embed", OpKind::kEmbed, mean(kernels::MaskRule::kLength, 0.5f), {bag({0, 1})},
                      value({1, {2}}, {4, 8}));
  embed.tables = {table(2, {3, 6, 7, 14}, false)};
  check_cases({reduce({1, {3}}, {}, {1, {1}}, {6, 48}), reduce({2, {3, 2}}, {}, {2, {1, 2}}, {18, 36}),
               reduce({1, {3}}, value({1, {3}}, {1, 0, 1, 1, 1, 0}), {1, {1}}, {6, 28.8f}),
               reduce({2, {3, 2}}, value({1, {3}}, {1, 0, 1}), {2, {1, 2}}, {20.4f, 40.8f}), embed});
}

TEST_CASE("edges: exp up to the largest float and down to 0") {
  const std::vector<float> x = {88.72f, 88.5f, 88.01f, 88.0f, 1, -87, -103.9f, -150, 88.7f};
  std::vector<float> want;
  for (const float v : x) want.push_back(static_cast<float>(std::exp(static_cast<double>(v))));
  check_cases({make("exp", OpKind::kUnary, kernels::UnaryAttrs{kernels::UnaryKind::kExp, 0, 0},
                    {value({1, {9}}, x)}, value({1, {9}}, want))});
}

TEST_CASE("edges: softmax of entries far below 0") {
  std::vector<OpCase> cases;
  for (const int64_t n : {3, 9, 17, 19, 67, 131}) {
    std::vector<float> x, want;
    for (int64_t i = 0; i < n; ++i) x.push_back(-300.0f - static_cast<float>(i % 5));
    double sum = 0;
    for (const float v : x) sum += std::exp(300.0 + v);
    for (const float v : x) want.push_back(static_cast<float>(std::exp(300.0 + v) / sum));
    cases.push_back(make(std::to_string(n), OpKind::kSoftmax, kernels::SoftmaxAttrs{},
                         {value({1, {n}}, x), {}}, value({1, {n}}, want)));
    std::get<kernels::SoftmaxAttrs>(cases.back().attrs).axis = 0;
  }
  check_cases(std::move(cases));
}

TEST_CASE("edges: a softmax mask of one entry along the axis holds for all of it") {
  kernels::SoftmaxAttrs a;
  a.axis = 1;
  a.mask_mode = kernels::SoftmaxMask::kNinf;
  const float third = 1.0f / 3.0f;
  check_cases({make("mask", OpKind::kSoftmax, a,
                    {value({2, {3, 3}}, {1, 2, 3, 7, 7, 7, 5, 5, 5}), value({2, {3, 1}}, {0, 1, 0})},
                    value({2, {3, 3}}, {0, 0, 0, third, third, third, 0, 0, 0}))});
}

TEST_CASE("edges: the value of an empty bag is no part of a maximum") {
  kernels::EmbedAttrs a;
  a.pooling = kernels::Pooling::kMax;
  a.empty = 10;
  OpCase some = make("some", OpKind::kEmbed, a, {bag({0, 1})}, value({1, {2}}, {3, 5}));
  OpCase none = make("none", OpKind::kEmbed, a, {bag({})}, value({1, {2}}, {10, 10}));
  some.tables = none.tables = {table(2, {3, 4, -1, 5}, false)};
  check_cases({some, none});
}

TEST_CASE("edges: a lookup with as many channels as a tile of rows has room for") {
  constexpr int64_t kChannels = 128, kRows = 37;
  std::vector<float> scalars;
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < kRows; ++r) {
    ids.push_back(static_cast<int32_t>(r));
    for (int64_t c = 0; c < kChannels; ++c) scalars.push_back(static_cast<float>(r * kChannels + c));
  }
  CaseValue one_hot;
  one_hot.present = one_hot.is_bags = true;
  one_hot.rows = kRows;
  one_hot.ids = ids;
  OpCase c = make("channels", OpKind::kMultiLookup, kernels::MultiLookupAttrs{}, {one_hot}, CaseValue{});
  c.rows = kRows;
  c.tables = {table(kChannels, scalars, false)};
  c.scalars = {{kernels::EmbedAttrs{}, 0, 0, 0, kChannels}};
  std::get<kernels::MultiLookupAttrs>(c.attrs).n_channels = kChannels;
  c.outputs.push_back(value({1, {kChannels}}, scalars));
  c.params = {{}, {}, {}};
  check_cases({c});
}

TEST_CASE("edges: branches of a tail may cancel") {
  if (device().starts_with("cuda")) return;  // adds them in float32
  OpCase c = make("tail", OpKind::kTail, kernels::TailAttrs{},
                  {value({1, {1}}, {3e7f}), value({1, {1}}, {0.25f}), value({1, {1}}, {-3e7f})},
                  value({1, {1}}, {0.25f}));
  c.outputs.push_back(c.outputs[0]);
  c.params = {{}, {}, {}};
  check_cases({c});
}

TEST_CASE("edges: a row counts when its sum is not 0, whatever part of it is read") {
  std::vector<OpCase> cases;
  for (const bool bits : {false, true}) {
    OpCase embed = make("embed", OpKind::kEmbed, mean(kernels::MaskRule::kNonzero, 0), {bag({0, 1})},
                        value({1, {2}}, {3, 3}));
    embed.tables = {table(2, {2, 4, 1, -1}, bits)};
    cases.push_back(embed);
    OpCase lookup =
        make("scalars", OpKind::kMultiLookup, kernels::MultiLookupAttrs{}, {bag({0, 1})}, CaseValue{});
    lookup.rows = 1;
    lookup.tables = {table(2, {0, 5, 2, 0}, bits)};
    lookup.scalars = {{mean(kernels::MaskRule::kNonzero, 0), 0, 0, 0, 1}};
    std::get<kernels::MultiLookupAttrs>(lookup.attrs).n_channels = 1;
    lookup.outputs.push_back(value({1, {1}}, {1}));
    lookup.params = {{}, {}, {}};
    cases.push_back(lookup);
  }
  check_cases(std::move(cases));
}

}  // namespace
}  // namespace dpi::test::edges_test
