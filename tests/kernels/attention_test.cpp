// Attention, and Linear, LayerNorm, Unary and Binary over positions that count: random sizes, layouts and
// masks against `ref`, and every row's bits on its own.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/device.hpp"
#include "support/recorded.hpp"

namespace dpi::test::attention_test {
namespace {

using kernels::AttentionAttrs;
using kernels::Dims;
using kernels::HeadLayout;
using kernels::OpKind;
using kernels::SoftmaxMask;
using kernels::UnaryKind;

class Cases {
 public:
  explicit Cases(uint32_t seed) : random_(seed) {}

  OpCase attention() {
    AttentionAttrs a;
    a.heads = up_to(4);
    a.queries = up_to(21);
    a.keys = up_to(70);
    a.dim = up_to(37);
    a.value_dim = up_to(50);
    a.scale = 0.25f * static_cast<float>(up_to(6));
    a.mask_mode = static_cast<SoftmaxMask>(up_to(4) - 1);
    a.value = up_to(3) == 1 ? -2.0f : -1e9f;
    const bool masked = a.mask_mode != SoftmaxMask::kNone;
    if (masked && up_to(3) == 1) a.mask_query = a.keys;
    if (masked && up_to(3) == 1) a.mask_head = a.mask_query > 0 ? a.queries * a.keys : a.keys;
    if (masked && a.mask_query + a.mask_head == 0 && up_to(2) == 1) {
      a.queries = a.keys;
      a.counted = 1;
    }
    OpCase c;
    c.kind = OpKind::kAttention;
    c.rows = up_to(9);
    c.inputs = {floats(&a.q, a.heads, a.queries, a.dim, c.rows), floats(&a.k, a.heads, a.keys, a.dim, c.rows),
                floats(&a.v, a.heads, a.keys, a.value_dim, c.rows)};
    if (masked) c.inputs.push_back(mask(a, c.rows));
    const bool by_position = up_to(2) == 1;
    a.y = by_position ? HeadLayout{0, a.value_dim, a.heads * a.value_dim}
                      : HeadLayout{0, a.queries * a.value_dim, a.value_dim};
    c.outputs = {floats_value({1, {a.heads * a.queries * a.value_dim}}, c.rows, {})};
    c.name = "attention " + std::to_string(n_++);
    c.attrs = a;
    return c;
  }

  /// The format's op. `longest`: most positions.
  OpCase stream(int64_t longest) {
    AttentionAttrs a;
    a.streamed = 1;
    a.heads = up_to(4);
    a.keys = up_to(longest);
    a.queries = up_to(2) == 1 ? a.keys : up_to(40);
    a.dim = up_to(20);
    a.value_dim = up_to(2) == 1 ? a.dim : up_to(40);
    a.scale = 0.25f * static_cast<float>(up_to(4));
    if (up_to(2) == 1) {
      a.form = kernels::AttentionForm::kSilu;
      a.divisor = static_cast<float>(a.keys);
    }
    a.causal = up_to(2) == 1 ? 1 : 0;
    if (a.queries == a.keys && up_to(3) == 1) a.candidates = up_to(std::min<int64_t>(a.keys, 9));
    const int64_t masked = up_to(4);  // 1, 2: by key, 3: by pair
    a.mask_mode = masked == 4 ? SoftmaxMask::kNone : SoftmaxMask::kNinf;
    if (masked == 3) a.mask_query = a.keys;
    a.counted = masked <= 2 && a.queries == a.keys && up_to(2) == 1 ? 1 : 0;
    a.mean_of_none = a.form == kernels::AttentionForm::kSoftmax && up_to(2) == 1 ? 1 : 0;
    OpCase c;
    c.kind = OpKind::kAttention;
    c.rows = up_to(3);
    c.inputs = {floats(&a.q, a.heads, a.queries, a.dim, c.rows), floats(&a.k, a.heads, a.keys, a.dim, c.rows),
                floats(&a.v, a.heads, a.keys, a.value_dim, c.rows)};
    if (masked <= 2) c.inputs.push_back(floats_value({1, {a.keys}}, c.rows, prefixes(c.rows, a.keys)));
    if (masked == 3) c.inputs.push_back(mask(a, c.rows));
    if (up_to(2) == 1) c.inputs.push_back(bias(&a, c.rows));
    a.y = {0, a.value_dim, a.heads * a.value_dim};
    c.outputs = {floats_value({2, {a.queries, a.heads * a.value_dim}}, c.rows, {})};
    c.name = "stream " + std::to_string(n_++);
    c.attrs = a;
    return c;
  }

  /// Queries behind a prefix whose keys are of shared rows; by_place: causal or candidates, and as many as
  /// keys.
  OpCase behind(int64_t longest) {
    OpCase c = stream(longest);
    AttentionAttrs a = std::get<AttentionAttrs>(c.attrs);
    const int64_t own = up_to(4), users = up_to(3);
    a.prefix = up_to(longest);
    a.keys = a.prefix + own;
    a.counted = 0;
    a.biased = 0;
    a.mask_query = a.mask_query > 0 ? a.keys : 0;
    const bool by_place = a.causal != 0 || a.candidates > 0 || up_to(2) == 1;
    a.queries = by_place ? own : up_to(90);
    a.before = by_place ? a.prefix : 0;
    a.candidates = by_place && a.candidates > 0 ? up_to(own) : 0;
    c.rows = up_to(90);
    for (int64_t r = 0; r < c.rows; ++r) c.row_map.push_back(static_cast<int32_t>(r * users / c.rows));
    CaseValue k = floats(&a.k, a.heads, a.prefix, a.dim, users),
              v = floats(&a.v, a.heads, a.prefix, a.value_dim, users);
    const auto of_row = [&](const HeadLayout& l, int64_t columns) {
      const int64_t n = l.at(a.heads - 1, own - 1) + columns;
      return floats_value({1, {n}}, c.rows, numbers(c.rows * n));
    };
    c.inputs = {floats(&a.q, a.heads, a.queries, a.dim, c.rows), of_row(a.k, a.dim),
                of_row(a.v, a.value_dim)};
    if (a.mask_mode != SoftmaxMask::kNone && a.mask_query > 0) c.inputs.push_back(mask(a, c.rows));
    if (a.mask_mode != SoftmaxMask::kNone && a.mask_query == 0)
      c.inputs.push_back(masks_of_users(a, c.row_map));
    if (up_to(2) == 1) c.inputs.push_back(bias(&a, c.rows));
    c.inputs.resize(5);
    c.inputs.push_back(std::move(k));
    c.inputs.push_back(std::move(v));
    a.y = {0, a.value_dim, a.heads * a.value_dim};
    c.outputs = {floats_value({2, {a.queries, a.heads * a.value_dim}}, c.rows, {})};
    c.name = "behind " + std::to_string(n_++);
    c.attrs = a;
    return c;
  }

  /// 16,384 keys and few queries, values of which many add up to something.
  OpCase longest() {
    OpCase c = stream(16);
    AttentionAttrs a = std::get<AttentionAttrs>(c.attrs);
    a.heads = 1;
    a.queries = up_to(3);
    a.keys = kernels::kMostPositions;
    a.dim = a.value_dim = up_to(3);
    a.causal = a.counted = a.biased = 0;
    a.candidates = 0;
    a.mask_mode = SoftmaxMask::kNinf;
    a.mask_query = 0;
    a.q = a.k = a.v = a.y = {0, a.dim, a.dim};
    a.divisor = 16384;
    c.rows = 2;
    std::vector<float> values = numbers(c.rows * a.keys * a.dim);
    for (float& v : values) v += 3;
    c.inputs = {floats_value({2, {a.queries, a.dim}}, c.rows, numbers(c.rows * a.queries * a.dim)),
                floats_value({2, {a.keys, a.dim}}, c.rows, numbers(c.rows * a.keys * a.dim)),
                floats_value({2, {a.keys, a.dim}}, c.rows, values),
                floats_value({1, {a.keys}}, c.rows, prefixes(c.rows, a.keys))};
    c.outputs = {floats_value({2, {a.queries, a.dim}}, c.rows, {})};
    c.attrs = a;
    return c;
  }

  OpCase layer() {
    OpCase c;
    c.kind = OpKind::kLinear;
    c.name = "positions " + std::to_string(n_++);
    c.rows = up_to(9);
    const int64_t positions = up_to(60), in = up_to(40), out = up_to(70);
    c.attrs = kernels::LinearAttrs{};
    c.inputs = {floats_value({2, {positions, in}}, c.rows, numbers(c.rows * positions * in)),
                {},
                {},
                floats_value({1, {positions}}, c.rows, ones(c.rows * positions))};
    c.outputs = {floats_value({2, {positions, out}}, c.rows, {})};
    c.params = {{true, {2, {out, in}}, numbers(out * in)}, {true, {1, {out}}, numbers(out)}};
    return c;
  }

  OpCase norm() {
    OpCase c = by_position(OpKind::kLayerNorm);
    const int64_t n = c.inputs[0].dims.at(-1);
    c.attrs = kernels::LayerNormAttrs{};
    c.params = {{true, {1, {n}}, numbers(n)}, {true, {1, {n}}, numbers(n)}};
    return c;
  }

  /// With parameters for each column or with none.
  OpCase function() {
    OpCase c = by_position(OpKind::kUnary);
    const int64_t n = c.inputs[0].dims.at(-1);
    const UnaryKind kinds[] = {UnaryKind::kRelu, UnaryKind::kGeluErf, UnaryKind::kTanh, UnaryKind::kPrelu,
                               UnaryKind::kDice};
    const UnaryKind kind = kinds[up_to(5) - 1];
    c.attrs = kernels::UnaryAttrs{kind};
    const int64_t params = kind == UnaryKind::kDice ? 3 : kind == UnaryKind::kPrelu ? 1 : 0;
    for (int64_t i = 0; i < params; ++i) c.params.push_back({true, {1, {n}}, numbers(n)});
    return c;
  }

  /// Beside a value of the same positions, or one that repeats along positions, columns or both.
  OpCase pair() {
    OpCase c = by_position(OpKind::kBinary);
    const int64_t positions = c.inputs[0].dims.d[0], n = c.inputs[0].dims.d[1];
    const Dims dims[] = {{2, {positions, n}}, {2, {positions, 1}}, {2, {1, n}}, {1, {n}}, {1, {1}}};
    const Dims other = dims[up_to(5) - 1];
    const CaseValue y = floats_value(other, c.rows, numbers(c.rows * other.size()));
    c.inputs.insert(c.inputs.begin() + up_to(2) - 1, y);
    c.attrs = kernels::BinaryAttrs{up_to(2) == 1 ? kernels::BinaryKind::kSub : kernels::BinaryKind::kMax};
    return c;
  }

 private:
  /// An op over positions that count, without its attributes and parameters.
  OpCase by_position(OpKind kind) {
    OpCase c = layer();
    c.kind = kind;
    c.inputs.erase(c.inputs.begin() + 1, c.inputs.begin() + 3);
    c.outputs[0].dims = c.inputs[0].dims;
    c.params.clear();
    return c;
  }
  int64_t up_to(int64_t n) { return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  std::vector<float> numbers(int64_t n) {
    std::normal_distribution<float> d;
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = d(random_);
    return v;
  }
  std::vector<float> ones(int64_t n) {
    const int64_t share = up_to(10);
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = up_to(10) <= share ? 1.0f : 0.0f;
    return v;
  }
  /// Vectors of heads side by side or of positions side by side, with numbers of others before, between and
  /// after.
  CaseValue floats(HeadLayout* l, int64_t heads, int64_t positions, int64_t columns, int64_t rows) {
    l->first = up_to(5) - 1;
    if (up_to(2) == 1) {
      l->head = columns + up_to(3) - 1;
      l->position = heads * l->head + up_to(20) - 1;
    } else {
      l->position = columns + up_to(3) - 1;
      l->head = positions * l->position + up_to(4) - 1;
    }
    const int64_t n = l->at(heads - 1, positions - 1) + columns;
    return floats_value({1, {n}}, rows, numbers(rows * n));
  }
  /// Lengths of 0 to n, at either end; some with holes.
  std::vector<float> prefixes(int64_t rows, int64_t n) {
    std::vector<float> v;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t length = up_to(n + 1) - 1, kind = up_to(3);
      for (int64_t j = 0; j < n; ++j) {
        const bool counts = kind == 1 ? j < length : kind == 2 ? n - 1 - j < length : up_to(2) == 1;
        v.push_back(counts ? 1.0f : 0.0f);
      }
    }
    return v;
  }
  CaseValue bias(AttentionAttrs* a, int64_t rows) {
    a->biased = 1;
    const bool relative = up_to(2) == 1;
    const int64_t one = relative ? a->queries + a->keys - 1 : a->queries * a->keys;
    a->bias = {relative ? a->queries - 1 : 0, up_to(2) == 1 ? one : 0, relative ? -1 : a->keys};
    const int64_t n = a->bias.head > 0 ? a->heads * one : one;
    return floats_value({1, {n}}, rows, numbers(rows * n));
  }
  /// Mostly the same in front for all rows of a user.
  CaseValue masks_of_users(const AttentionAttrs& a, const std::vector<int32_t>& row_map) {
    const auto rows = static_cast<int64_t>(row_map.size());
    std::vector<float> of_users = prefixes(row_map.back() + 1, a.keys), v;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t j = 0; j < a.keys; ++j) {
        const bool own = j >= a.prefix || up_to(200) == 1;
        v.push_back(own ? (up_to(3) == 1 ? 0.0f : 1.0f)
                        : of_users[static_cast<size_t>(row_map[static_cast<size_t>(r)] * a.keys + j)]);
      }
    }
    return floats_value({1, {a.keys}}, rows, v);
  }
  CaseValue mask(const AttentionAttrs& a, int64_t rows) {
    const int64_t n = (a.heads - 1) * a.mask_head + (a.queries - 1) * a.mask_query + a.keys;
    return floats_value({1, {n}}, rows, ones(rows * n));
  }

  std::mt19937 random_;
  int n_ = 0;
};

std::vector<OpCase> attentions(uint32_t seed, int n) {
  Cases cases(seed);
  std::vector<OpCase> all;
  for (int i = 0; i < n; ++i) all.push_back(cases.attention());
  return all;
}

std::vector<OpCase> streams(uint32_t seed, int n, int64_t longest) {
  Cases cases(seed);
  std::vector<OpCase> all;
  for (int i = 0; i < n; ++i) all.push_back(cases.stream(longest));
  return all;
}

std::vector<OpCase> behind(uint32_t seed, int n, int64_t longest) {
  Cases cases(seed);
  std::vector<OpCase> all;
  for (int i = 0; i < n; ++i) all.push_back(cases.behind(longest));
  return all;
}

std::vector<OpCase> by_positions(uint32_t seed, int n) {
  Cases cases(seed);
  std::vector<OpCase> all;
  for (int i = 0; i < n; ++i) {
    all.push_back(cases.layer());
    all.push_back(cases.norm());
    all.push_back(cases.function());
    all.push_back(cases.pair());
  }
  return all;
}

}  // namespace

TEST_CASE("attention: any sizes, layouts and masks agree with ref") {
  check_cases_against_ref(attentions(1, 60));
}

TEST_CASE("attention: a row has the same bits alone") { check_rows_alone(attentions(2, 30)); }

TEST_CASE("streamed attention: any sizes, masks and biases agree with ref") {
  const int share = device() == "cuda_emu" ? 4 : 1;  // 10 s of the emulated GPU otherwise
  check_cases_against_ref(streams(5, 120 / share, 60));
  check_cases_against_ref(streams(6, 12 / share, 1300));
  Cases cases(8);
  std::vector<OpCase> longest;
  for (int i = 0; i < 4 / share; ++i) longest.push_back(cases.longest());
  check_cases_against_ref(longest);
}

TEST_CASE("streamed attention: a row has the same bits alone") { check_rows_alone(streams(7, 40, 60)); }

TEST_CASE("positions: any sizes agree with ref") { check_cases_against_ref(by_positions(3, 30)); }

TEST_CASE("attention behind a shared history: any sizes agree with ref") {
  const int share = device() == "cuda_emu" ? 8 : 1;
  check_cases_against_ref(behind(9, 80 / share, 40));
  check_cases_against_ref(behind(10, 8 / share, 1300 / share));
}

TEST_CASE("attention behind a shared history: a row has the same bits alone") {
  check_rows_alone(behind(11, 20, 40));
}

// Rows with few positions share a product, rows with many are cut: it makes no difference.
TEST_CASE("positions: a row has the same bits alone") { check_rows_alone(by_positions(4, 30)); }

}  // namespace dpi::test::attention_test
