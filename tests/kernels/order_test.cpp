// TopK and Gather of any sizes, axes and shapes that broadcast, against `ref`: with values that are equal,
// NaN or infinite, and with positions outside the axis, between entries or no numbers.
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "support/recorded.hpp"

namespace dpi::test::order_test {
namespace {

using kernels::Dims;
using kernels::OpKind;

class Cases {
 public:
  explicit Cases(uint32_t seed) : random_(seed) {}

  OpCase top_k() {
    OpCase c = op(OpKind::kTopK, "order ");
    const int axis = axis_of();
    Dims dims = dims_of(axis, up_to(3) == 1 ? up_to(300) : up_to(40));
    c.inputs = {floats_value(dims, c.rows, values(c.rows * dims.size()))};
    const int64_t n = dims.d[axis], k = up_to(3) == 1 ? n : up_to(n);
    c.attrs = kernels::TopKAttrs{axis, up_to(2) == 1 ? 1 : 0, k};
    dims.d[axis] = k;
    c.outputs = {floats_value(dims, c.rows, {})};
    return c;
  }

  OpCase gather() {
    OpCase c = op(OpKind::kGather, "gather ");
    const int axis = axis_of();
    const int64_t n = up_to(20), picked = up_to(9);
    Dims x = dims_of(axis, n), index = x, dst = x;
    index.d[axis] = dst.d[axis] = picked;
    for (int i = 0; i < x.rank; ++i) {
      if (i != axis && up_to(3) == 1) (up_to(2) == 1 ? x : index).d[i] = 1;
    }
    c.inputs = {floats_value(x, c.rows, values(c.rows * x.size())),
                floats_value(index, c.rows, positions(c.rows * index.size(), n))};
    c.outputs = {floats_value(dst, c.rows, {})};
    c.attrs = kernels::GatherAttrs{axis};
    return c;
  }

 private:
  int64_t up_to(int64_t n) { return 1 + static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  OpCase op(OpKind kind, const char* name) {
    OpCase c;
    c.kind = kind;
    c.name = name + std::to_string(n_++);
    c.rows = up_to(6);
    rank_ = static_cast<int>(up_to(4));
    return c;
  }
  int axis_of() { return static_cast<int>(up_to(rank_)) - 1; }
  Dims dims_of(int axis, int64_t extent) {
    Dims d;
    d.rank = rank_;
    for (int i = 0; i < rank_; ++i) d.d[i] = i == axis ? extent : up_to(5);
    return d;
  }
  /// Few different ones in one case of two.
  std::vector<float> values(int64_t n) {
    const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f};
    const bool few = up_to(2) == 1;
    std::normal_distribution<float> d;
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) {
      x = few ? static_cast<float>(up_to(3)) : d(random_);
      if (up_to(12) == 1) x = special[up_to(5) - 1];
    }
    return v;
  }
  std::vector<float> positions(int64_t n, int64_t extent) {
    const float special[] = {NAN, -1.0f, -0.5f, static_cast<float>(extent), 3e9f, INFINITY, -INFINITY};
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) {
      x = static_cast<float>(up_to(extent) - 1) + (up_to(4) == 1 ? 0.75f : 0.0f);
      if (up_to(8) == 1) x = special[up_to(7) - 1];
    }
    return v;
  }

  std::mt19937 random_;
  int n_ = 0, rank_ = 1;
};

}  // namespace

TEST_CASE("order: any sizes agree with ref") {
  Cases cases(1);
  std::vector<OpCase> all;
  for (int i = 0; i < 120; ++i) all.push_back(cases.top_k());
  check_cases_against_ref(std::move(all));
}

TEST_CASE("gather: any shapes and positions agree with ref") {
  Cases cases(2);
  std::vector<OpCase> all;
  for (int i = 0; i < 120; ++i) all.push_back(cases.gather());
  check_cases_against_ref(std::move(all));
}

}  // namespace dpi::test::order_test
