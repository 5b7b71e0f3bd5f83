// The ops between Dense layers with values of 16 bits, against float64, and the rounding itself.
#include <limits>

#include "support/typed_op.hpp"

namespace dpi::test::typed_ops_test {
namespace {

using kernels::DType;
using kernels::OpKind;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

/// Is every element `want` rounded to `type`, give or take the last place of a float32 sum?
bool all_near(const std::vector<float>& got, const std::vector<double>& want, DType type) {
  const double unit = type == DType::kF32 ? 2e-7 : type == DType::kF16 ? 0x1p-11 : 0x1p-8;
  bool near = got.size() == want.size();
  for (size_t i = 0; near && i < got.size(); ++i)
    near = std::fabs(got[i] - want[i]) <= unit * std::fabs(want[i]) + 3e-7;
  return near;
}

TEST_CASE("rounding: halves and bfloat16 go there and back, ties to even") {
  for (const DType type : {DType::kF16, DType::kBF16}) {
    const uint32_t infinity = type == DType::kF16 ? 0x7c00 : 0x7f80;
    bool exact = true;
    bool nearest = true;
    for (uint32_t h = 0; h < infinity; ++h) {
      const float a = from_16(static_cast<uint16_t>(h), type);
      const float b = from_16(static_cast<uint16_t>(h + 1), type);
      exact = exact && to_16(a, type) == h && to_16(-a, type) == (h | 0x8000u);
      if (h + 1 == infinity) break;
      const float middle = a + (b - a) / 2;
      nearest = nearest && to_16(middle, type) == (h % 2 == 0 ? h : h + 1) &&
                to_16(std::nextafter(middle, a), type) == h &&
                to_16(std::nextafter(middle, b), type) == h + 1;
    }
    CHECK(exact);
    CHECK(nearest);
    CHECK(std::isnan(rounded_to(NAN, type)));
    CHECK(std::isinf(rounded_to(std::numeric_limits<float>::infinity(), type)));
  }
  CHECK(rounded_to(65519.0f, DType::kF16) == 65504.0f);
  CHECK(rounded_to(65520.0f, DType::kF16) == 65504.0f);
}

TEST_CASE("rounding: tf32 keeps ten bits, ties away from zero") {
  CHECK(kernels::round_to_tf32(1.0f + 0x1p-10f) == 1.0f + 0x1p-10f);
  CHECK(kernels::round_to_tf32(1.0f + 0x1p-11f) == 1.0f + 0x1p-10f);
  CHECK(kernels::round_to_tf32(-1.0f - 0x1p-11f) == -1.0f - 0x1p-10f);
  CHECK(kernels::round_to_tf32(1.0f + 0x1p-12f) == 1.0f);
  CHECK(std::isnan(kernels::round_to_tf32(NAN)));
}

TEST_CASE("typed: fused element-wise steps read and write every type") {
  kernels::ElementwiseAttrs attrs;
  attrs.n_inputs = 3;
  attrs.n_steps = 3;  // relu(x) * y + z
  attrs.steps[0].unary.kind = kernels::UnaryKind::kRelu;
  attrs.steps[1] = {kernels::StepKind::kBinary, {}, kernels::BinaryKind::kMul, 3, 1, -1, 0};
  attrs.steps[2] = {kernels::StepKind::kBinary, {}, kernels::BinaryKind::kAdd, 4, 2, -1, 0};
  for (const DType in : kTypes) {
    for (const DType out : kTypes) {
      for (const int64_t width : {int64_t{1}, int64_t{33}}) {
        TypedOp op;
        op.kind = OpKind::kElementwise;
        op.attrs = &attrs;
        op.inputs = {typed_value(31, width, in, 1, 3, 2), typed_value(31, width, DType::kF32, 2),
                     typed_value(31, width, out, 3, 1)};
        if (in == DType::kF32) op.inputs[0].offset = 4;
        op.output = typed_value(31, width, out, 0, 5);
        TypedBackend backend(2);
        const std::vector<float> got = op.run(backend);
        std::vector<double> want;
        for (size_t i = 0; i < op.inputs[0].data.size(); ++i)
          want.push_back(std::fmax(0.0, double{op.inputs[0].data[i]}) * op.inputs[1].data[i] +
                         op.inputs[2].data[i]);
        CHECK(all_near(got, want, out));
      }
    }
  }
}

TEST_CASE("typed: Tail adds branches of every type") {
  for (const DType type : kTypes) {
    kernels::TailAttrs attrs;
    attrs.bias = 0.25f;
    const TypedValue weight = typed_value(1, 67, DType::kF32, 5);
    TypedOp op;
    op.kind = OpKind::kTail;
    op.attrs = &attrs;
    op.inputs = {typed_value(33, 67, type, 6, 5), typed_value(33, 1, type, 7)};
    op.output = typed_value(33, 1, DType::kF32, 0, 1);
    op.params = {{weight.data.data(), {1, {67}}}, {}};
    TypedBackend backend(2);
    const std::vector<float> got = op.run(backend, 1);
    std::vector<double> want;
    for (size_t r = 0; r < 33; ++r) {
      double sum = 0.25 + op.inputs[1].data[r];
      for (size_t k = 0; k < 67; ++k) sum += double{op.inputs[0].data[r * 67 + k]} * weight.data[k];
      want.push_back(sum);
    }
    REQUIRE(got.size() == 33);
    for (size_t r = 0; r < 33; ++r) CHECK(std::fabs(got[r] - want[r]) <= 3e-6);
  }
}

TEST_CASE("typed: row broadcasts convert") {
  for (const DType in : kTypes) {
    for (const DType out : kTypes) {
      TypedOp op;
      op.kind = OpKind::kBroadcastRows;
      op.inputs = {typed_value(17, 19, in, 8, 1)};
      op.output = typed_value(17, 19, out, 0, 3);
      TypedBackend backend(2);
      const std::vector<float> got = op.run(backend);
      const std::vector<double> want(op.inputs[0].data.begin(), op.inputs[0].data.end());
      CHECK(all_near(got, want, out));
    }
  }
}

TEST_CASE("typed: what is finite stays finite in 16 bits, infinities and NaN stay") {
  const std::vector<float> values = {65504,    65519,    65520,     -65520, -1e9f, 3e38f, 3.4e38f,
                                     -3.4e38f, INFINITY, -INFINITY, NAN,    1.5f,  -0.0f};
  for (const DType out : {DType::kF16, DType::kBF16}) {
    const float largest = out == DType::kF16 ? 65504.0f : 3.3895314e38f;
    TypedOp op;
    op.kind = OpKind::kBroadcastRows;
    op.inputs = {typed_value(1, static_cast<int64_t>(values.size()), DType::kF32, 8)};
    op.inputs[0].data = values;
    op.output = typed_value(1, static_cast<int64_t>(values.size()), out, 0);
    TypedBackend backend(2);
    const std::vector<float> got = op.run(backend);
    REQUIRE(got.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      CAPTURE(values[i]);
      if (std::isnan(values[i])) {
        CHECK(std::isnan(got[i]));
      } else if (std::isinf(values[i])) {
        CHECK(got[i] == values[i]);
      } else {
        const double bound = std::min(std::fabs(double{values[i]}), double{largest});
        CHECK(std::fabs(std::fabs(double{got[i]}) - bound) <= bound * 0x1p-8);
        CHECK(std::signbit(got[i]) == std::signbit(values[i]));
      }
    }
  }
}

TEST_CASE("typed: ops without such kernels refuse by name") {
  TypedBackend backend(2);
  REQUIRE(backend.status.ok());
  const kernels::UnaryAttrs attrs;
  const dpi_value_desc half = {{1, {4}}, 0, 0, 8, DType::kF16};
  const dpi_value_desc whole = {{1, {4}}, 0, 0, 4, DType::kF32};
  dpi_op_desc d{};
  d.struct_size = sizeof(d);
  d.kind = OpKind::kUnary;
  d.name = "u";
  d.attrs = &attrs;
  d.inputs = &half;
  d.outputs = &whole;
  d.n_inputs = d.n_outputs = 1;
  d.max_rows = 3;
  dpi_backend_op* op = nullptr;
  dpi_backend_error err{};
  char report[256] = "";
  CHECK(backend.b.api->op_prepare(backend.b.device, &d, &op, report, sizeof(report), &err) != 0);
  CHECK(std::string(err.message).find("the element type of input 0 is f16, expected f32") !=
        std::string::npos);
}

}  // namespace
}  // namespace dpi::test::typed_ops_test
