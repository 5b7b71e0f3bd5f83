// The harness itself: a backend that writes where it must not, or leaves results out, has to be caught.
#include "support/op_harness.hpp"

#include <limits>

#include <doctest/doctest.h>

#include "backend/abi/registry.hpp"
#include "support/near.hpp"

namespace dpi::test::harness_test {
namespace {

OpCase relu_case() {
  OpCase c;
  c.name = "relu";
  c.kind = kernels::OpKind::kUnary;
  c.attrs = kernels::UnaryAttrs{kernels::UnaryKind::kRelu, 0, 0};
  c.rows = 2;
  CaseValue x;
  x.present = true;
  x.dims = {1, {3}};
  x.rows = 2;
  x.data = {-1, 2, -3, 4, -5, 6};
  CaseValue y = x;
  y.data = {0, 2, 0, 4, 0, 6};
  c.inputs = {x};
  c.outputs = {y};
  return c;
}

using Enqueue = decltype(dpi_backend_api::enqueue);

int32_t leave_out(dpi_backend_stream*, const dpi_backend_op*, const dpi_op_call*, dpi_backend_error*) {
  return 0;
}

template <int64_t kElement>
int32_t write_output_at(dpi_backend_stream* s, const dpi_backend_op* op, const dpi_op_call* call,
                        dpi_backend_error* err) {
  const int32_t code = backend::ref_backend()->enqueue(s, op, call, err);
  call->outputs[0].data[kElement] = 1;
  return code;
}

int32_t write_input(dpi_backend_stream* s, const dpi_backend_op* op, const dpi_op_call* call,
                    dpi_backend_error* err) {
  const int32_t code = backend::ref_backend()->enqueue(s, op, call, err);
  call->inputs[0].tensor.data[0] = 1;
  return code;
}

Result<std::vector<std::vector<float>>> run_with(Enqueue enqueue) {
  dpi_backend_api api = *backend::ref_backend();
  if (enqueue != nullptr) api.enqueue = enqueue;
  dpi_backend_options options{};
  options.isa = "auto";
  dpi_backend_device* device = nullptr;
  dpi_backend_error err{};
  if (api.open(&options, &device, &err) != 0) return internal_error(err.message);
  auto result = run_case(api, device, relu_case(), Placement{"padded", 1, 4, -1});
  api.close(device);
  return result;
}

}  // namespace

TEST_CASE("harness: a correct op passes") {
  const auto result = run_with(nullptr);
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  CHECK(compare(result.value()[0], relu_case().outputs[0].data).within(tolerance_of("ref")));
}

TEST_CASE("harness: results left out stay NaN and fail") {
  const auto result = run_with(leave_out);
  REQUIRE(result.ok());
  CHECK_FALSE(compare(result.value()[0], relu_case().outputs[0].data).within(tolerance_of("cpu")));
}

TEST_CASE("harness: stray writes are found") {
  CHECK(run_with(write_output_at<-1>).status().message() == "padded: wrote outside a buffer");
  CHECK(run_with(write_output_at<8>).status().message() == "padded: wrote outside a buffer");
  CHECK(run_with(write_output_at<3>).status().message() == "padded: wrote between rows");
  CHECK(run_with(write_input).status().message() == "padded: wrote to an input");
}

TEST_CASE("near: NaN, infinity and missing elements fail") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto near = [](std::vector<float> a, std::vector<float> b) {
    return compare(a, b).within(Tolerance{1e-6, 1e-12});
  };
  CHECK(near({1, nan, inf}, {1, nan, inf}));
  CHECK_FALSE(near({1, nan}, {1, 2}));
  CHECK_FALSE(near({1, 2}, {1, nan}));
  CHECK_FALSE(near({inf}, {-inf}));
  CHECK_FALSE(near({1e38f}, {inf}));
  CHECK_FALSE(near({1}, {1, 2}));
  CHECK_FALSE(near({1.00001f}, {1}));
}

}  // namespace dpi::test::harness_test
