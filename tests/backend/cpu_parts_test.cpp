// Ops of the cpu backend cut into parts: all parts, in any order, are what enqueue does, to the bit, and no
// two write the same output.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <dpi/kernels/dense.hpp>
#include <dpi/kernels/linear.hpp>

#include "backend/cpu_device.hpp"

namespace dpi::test::cpu_parts_test {
namespace {

using kernels::DType;
using kernels::OpKind;

constexpr float kUntouched = -12345.5f;

std::vector<float> random_floats(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& f : out) f = normal(random);
  return out;
}

/// dst = relu(x W^T + bias) * mul + add, with a sigmoid in the last third of the columns; or a Linear of two
/// groups over three slices of a row.
struct Layer {
  const CpuDevice& d;
  int64_t rows, n, k;
  bool dense;
  std::vector<float> w, bias, x, mul, add, dst;
  std::vector<std::byte> scratch;
  dpi_backend_op* op = nullptr;

  int64_t row_in() const { return dense ? k : 6 * k; }
  int64_t row_out() const { return dense ? n : 6 * n; }

  Layer(const CpuDevice& device, int64_t rows_, int64_t n_, int64_t k_, bool dense_)
      : d(device), rows(rows_), n(n_), k(k_), dense(dense_) {
    w = random_floats((dense ? 1 : 2) * n * k, 1);
    bias = random_floats(2 * n, 2);
    x = random_floats(rows * row_in(), 3);
    mul = random_floats(rows * n, 4);
    add = random_floats(rows * n, 5);
    dst.resize(static_cast<size_t>(rows * row_out()));
    prepare();
    scratch.resize(d.b.api->op_scratch_bytes(op, rows) + 64);
  }
  ~Layer() { d.b.api->op_free(d.b.device, op); }
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  void prepare() {
    const kernels::Dims weight = dense ? kernels::Dims{2, {n, k}} : kernels::Dims{3, {2, n, k}};
    const kernels::Dims shifts = dense ? kernels::Dims{1, {n}} : kernels::Dims{2, {2, n}};
    const kernels::Param params[] = {{w.data(), weight}, {bias.data(), shifts}, {}, {}, {}};
    const int64_t third = n - n / 3;
    const kernels::DenseSegment segments[] = {{{kernels::UnaryKind::kRelu, 0, 0}, 0, third},
                                              {{kernels::UnaryKind::kSigmoid, 0, 0}, third, n}};
    const kernels::DenseAttrs dense_attrs{segments, 2};
    kernels::LinearAttrs linear_attrs;
    linear_attrs.groups = 2;
    const dpi_value_desc side = {{1, {n}}, 0, 0, n, DType::kF32};
    const dpi_value_desc absent{};
    const dpi_value_desc dense_in[] = {{{1, {k}}, 0, 0, k, DType::kF32}, side, side, absent};
    const dpi_value_desc linear_in[] = {
        {{3, {3, 2, k}}, 0, 0, 6 * k, DType::kF32}, absent, absent, absent, absent};
    const dpi_value_desc dense_out = side, linear_out = {{3, {3, 2, n}}, 0, 0, 6 * n, DType::kF32};
    dpi_op_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = dense ? OpKind::kDense : OpKind::kLinear;
    desc.name = "layer";
    desc.attrs = dense ? static_cast<const void*>(&dense_attrs) : &linear_attrs;
    desc.inputs = dense ? dense_in : linear_in;
    desc.outputs = dense ? &dense_out : &linear_out;
    desc.params = params;
    desc.n_inputs = dense ? 4 : 5;
    desc.n_outputs = 1;
    desc.n_params = dense ? 5 : 2;
    desc.max_rows = rows;
    dpi_backend_error err{};
    char text[1024] = "";
    const int32_t code = d.b.api->op_prepare(d.b.device, &desc, &op, text, sizeof text, &err);
    REQUIRE_MESSAGE(code == 0, err.message);
  }

  kernels::Operand operand(std::vector<float>& values, kernels::Dims dims) const {
    kernels::Operand o{};
    o.tensor.data = values.data();
    o.tensor.dims = dims;
    o.tensor.rows = rows;
    o.tensor.row_stride = dims.size();
    return o;
  }

  /// dst after `body(call)`, which starts untouched.
  template <class Body>
  std::vector<float> after(Body&& body) {
    std::fill(dst.begin(), dst.end(), kUntouched);
    const kernels::Dims in = dense ? kernels::Dims{1, {k}} : kernels::Dims{3, {3, 2, k}};
    const kernels::Dims out = dense ? kernels::Dims{1, {n}} : kernels::Dims{3, {3, 2, n}};
    kernels::Operand inputs[5] = {operand(x, in)};
    if (dense) {
      inputs[1] = operand(mul, out);
      inputs[2] = operand(add, out);
    }
    kernels::Tensor output = operand(dst, out).tensor;
    dpi_op_call call{};
    call.rows = rows;
    call.inputs = inputs;
    call.outputs = &output;
    call.scratch = scratch.data();
    body(call);
    return dst;
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_parts(Layer& layer) {
  const dpi_backend_api& api = *layer.d.b.api;
  dpi_backend_error err{};
  const std::vector<float> whole =
      layer.after([&](const dpi_op_call& c) { REQUIRE(api.enqueue(nullptr, layer.op, &c, &err) == 0); });
  const int32_t most = api.op_parts(layer.op);
  REQUIRE(most >= 1);
  if (layer.n == 1) CHECK(most == 1);
  if (layer.n > 48) CHECK(most > 1);  // a panel of the widest set
  for (const int32_t parts : {1, 2, 3, most}) {
    if (parts > most) continue;
    CAPTURE(parts);
    CHECK(same_bits(whole, layer.after([&](const dpi_op_call& c) {
      for (int32_t p = parts - 1; p >= 0; --p) api.run_part(layer.op, &c, p, parts);
    })));
    int64_t written = 0;
    for (int32_t p = 0; p < parts; ++p) {
      const auto one = layer.after([&](const dpi_op_call& c) { api.run_part(layer.op, &c, p, parts); });
      written += std::count_if(one.begin(), one.end(), [](float f) { return f != kUntouched; });
    }
    CHECK(written == layer.rows * layer.row_out());
  }
}

TEST_CASE("cpu parts: columns of products are those of the whole, each written by one part") {
  for (const char* isa :
       {"scalar", "avx2", "avx512", "avx512_bf16", "avx512_vnni", "amx", "neon", "neon_dot", "neon_mmla"}) {
    for (const int32_t precision : {0, 3, 4}) {
      const CpuDevice d(precision, isa);
      if (d.status.code() == Code::kUnsupported) continue;
      REQUIRE(d.status.ok());
      CAPTURE(isa);
      CAPTURE(precision);
      for (const int64_t n : {1, 48, 49, 200, 431}) {
        for (const int64_t rows : {1, 5, 16}) {
          CAPTURE(n);
          CAPTURE(rows);
          Layer dense(d, rows, n, 37, true), linear(d, rows, n, 37, false);
          check_parts(dense);
          check_parts(linear);
        }
      }
    }
  }
}

TEST_CASE("cpu parts: other ops run whole") {
  const CpuDevice d(0, "auto");
  REQUIRE(d.status.ok());
  const dpi_value_desc value = {{1, {200}}, 0, 0, 200, DType::kF32};
  const kernels::UnaryAttrs attrs{kernels::UnaryKind::kRelu, 0, 0};
  dpi_op_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = OpKind::kUnary;
  desc.name = "relu";
  desc.attrs = &attrs;
  desc.inputs = desc.outputs = &value;
  desc.n_inputs = desc.n_outputs = 1;
  desc.max_rows = 1;
  dpi_backend_op* op = nullptr;
  dpi_backend_error err{};
  char text[256] = "";
  REQUIRE(d.b.api->op_prepare(d.b.device, &desc, &op, text, sizeof text, &err) == 0);
  CHECK(d.b.api->op_parts(op) == 1);
  d.b.api->op_free(d.b.device, op);
}

}  // namespace
}  // namespace dpi::test::cpu_parts_test
