// Dense in every precision and by every implementation, against float64 sums over awkward shapes; and that
// each refuses or takes what it says. The implementation is forced by a tuning table.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <dpi/kernels/multi_lookup.hpp>

#include "kernels/gemm_layer.hpp"

namespace dpi::test::gemm_test {
namespace {

using namespace gemm;

constexpr Impl kImpls[] = {{"own-simt", 0, "-"},     {"own-3xtf32", 0, "32"}, {"own-3xtf32", 0, "64"},
                           {"own-3xtf32", 0, "128"}, {"own-simt", 1, "-"},    {"own-tf32", 1, "32"},
                           {"own-tf32", 1, "64"},    {"own-tf32", 1, "128"},  {"own-fp16", 2, "32"},
                           {"own-fp16", 2, "64"},    {"own-fp16", 2, "128"},  {"own-bf16", 3, "32"},
                           {"own-bf16", 3, "64"},    {"own-bf16", 3, "128"}};

constexpr Shape kShapes[] = {{1, 1, 1},      {31, 33, 17},   {33, 31, 65},
                             {67, 100, 130}, {130, 257, 70}, {5, 64, 128}};

void check_forms(const Impl& impl, const Shape& s) {
  const DType narrow = impl.precision == 3 ? DType::kBF16 : DType::kF16;
  // The last two: rows begin at multiples of 16 bytes and end somewhere between, before NaN.
  const Layer::Form forms[] = {{DType::kF32, DType::kF32, false, 0, 0},
                               {DType::kF32, DType::kF32, true, 3, 4},
                               {narrow, narrow, false, 8, 0},
                               {narrow, narrow, true, 1, 2},
                               {narrow, DType::kF32, true, 0, 16},
                               {DType::kF32, DType::kF32, false, 3 - (s.in + 3) % 4, 0},
                               {narrow, narrow, false, 7 - (s.in + 7) % 8, 0}};
  for (const Layer::Form& f : forms) {
    CAPTURE(f.fused);
    CAPTURE(f.padding);
    Layer layer(s, f);
    const Forced table(impl, s, f.fused);
    TypedBackend backend(impl.precision, table.path);
    const std::vector<float> got = layer.op.run(backend);
    CHECK_MESSAGE(layer.op.report.find(std::string("chosen: ") + impl.name) == 0, layer.op.report);
    CHECK(layer.error(got, operand_error(impl.precision, impl.name)) <= 1);
  }
}

TEST_CASE("gemm: every implementation agrees with float64") {
  for (const Impl& impl : kImpls) {
    CAPTURE(impl.name);
    CAPTURE(impl.tile);
    for (const Shape& s : kShapes) {
      CAPTURE(s.rows);
      CAPTURE(s.in);
      CAPTURE(s.out);
      if (std::string(impl.tile) == "128" && s.rows < 60) continue;
      check_forms(impl, s);
    }
  }
}

TEST_CASE("gemm: the rules' choices agree with float64") {
  for (int32_t precision = 0; precision < 4; ++precision) {
    CAPTURE(precision);
    const DType narrow = precision == 2 ? DType::kF16 : precision == 3 ? DType::kBF16 : DType::kF32;
    for (const Shape& s : {Shape{3, 40, 24}, Shape{300, 72, 40}}) {
      for (const bool fused : {false, true}) {
        Layer layer(s, {narrow, narrow, fused, 0, 0});
        TypedBackend backend(precision);
        CHECK(layer.error(layer.op.run(backend), operand_error(precision, "")) <= 1);
      }
    }
  }
}

TEST_CASE("gemm: three tf32 products are as exact as float32, one is not") {
  const Shape s = {64, 432, 64};
  double error[3];
  const Impl impls[] = {{"own-simt", 0, "-"}, {"own-3xtf32", 0, "64"}, {"own-tf32", 1, "64"}};
  for (int i = 0; i < 3; ++i) {
    Layer layer(s, {});
    const Forced table(impls[i], s, false);
    TypedBackend backend(impls[i].precision, table.path);
    error[i] = layer.error(layer.op.run(backend), 0);
  }
  CHECK(error[0] <= 0.5);
  CHECK(error[1] <= 0.5);
  CHECK(error[2] > 10);  // or the emulation rounds nothing
}

TEST_CASE("gemm: a NaN shows in its row only") {
  for (const Impl& impl : kImpls) {
    CAPTURE(impl.name);
    const Shape s = {35, 40, 20};
    Layer layer(s, {});
    layer.op.inputs[0].data[17 * 40 + 5] = NAN;
    const Forced table(impl, s, false);
    TypedBackend backend(impl.precision, table.path);
    const std::vector<float> got = layer.op.run(backend);
    REQUIRE(got.size() == 35 * 20);
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i / 20 == 17));
  }
}

TEST_CASE("gemm: a weight beyond fp16 makes its layer tf32") {
  const Shape s = {9, 33, 20};
  Layer layer(s, {DType::kF16, DType::kF32, false, 0, 0});
  layer.weight.data[7] = 1e5f;
  TypedBackend backend(2);
  CHECK(layer.error(layer.op.run(backend), 0x1p-11) <= 1);
  CHECK(layer.op.report.find("beyond 65504") != std::string::npos);
}

TEST_CASE("gemm: the library's products agree with float64") {
  if (device() != "cuda_emu") return;  // there `the rules' choices` runs them, if they are there
  setenv("DPI_EMU_CUBLASLT", "1", 1);
  for (int32_t precision = 0; precision < 4; ++precision) {
    CAPTURE(precision);
    const DType narrow = precision == 3 ? DType::kBF16 : DType::kF16;
    for (const Shape& s : {Shape{1, 33, 17}, Shape{67, 100, 130}, Shape{300, 72, 40}}) {
      const Layer::Form forms[] = {
          {DType::kF32, DType::kF32, false, 0, 0}, {DType::kF32, DType::kF32, true, 3, 4},
          {narrow, narrow, false, 8, 0},           {narrow, narrow, true, 1, 2},
          {narrow, DType::kF32, false, 0, 16},     {DType::kF32, narrow, false, 0, 0}};
      for (const Layer::Form& f : forms) {
        CAPTURE(s.rows);
        CAPTURE(f.fused);
        CAPTURE(f.padding);
        Layer layer(s, f);
        TypedBackend backend(precision);
        const std::vector<float> got = layer.op.run(backend);
        CHECK_MESSAGE(layer.op.report.find("cublaslt") != std::string::npos, layer.op.report);
        CHECK(layer.error(got, operand_error(precision, "")) <= 1);
      }
    }
  }
  unsetenv("DPI_EMU_CUBLASLT");
}

/// The emulated cuBLASLt takes part while it lives.
struct WithLibrary {
  WithLibrary() { setenv("DPI_EMU_CUBLASLT", "1", 1); }
  ~WithLibrary() { unsetenv("DPI_EMU_CUBLASLT"); }
};

/// The worst relative error of a layer of `in` inputs whose terms are all positive: the sum grows from
/// beginning to end, and each step cuts it. The library's three tf32 products must have been chosen.
double worst_of_growing_sums(int64_t in) {
  const Shape s = {256, in, 24};
  Layer layer(s, {});
  for (float& v : layer.weight.data) v = std::fabs(v);
  for (float& v : layer.op.inputs[0].data) v = std::fabs(v);
  TypedBackend backend(0);
  const std::vector<float> got = layer.op.run(backend);
  CHECK_MESSAGE(layer.op.report.find("cublaslt-3xtf32 (rows 129-256)") != std::string::npos, layer.op.report);
  REQUIRE(got.size() == 256 * 24);
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t r = i / 24, c = i % 24, depth = static_cast<size_t>(in);
    double want = layer.bias.data[c];
    for (size_t k = 0; k < depth; ++k)
      want += double{layer.op.inputs[0].data[r * depth + k]} * layer.weight.data[c * depth + k];
    const double e = std::fabs(got[i] - want) / want;
    if (!(e <= worst)) worst = std::isnan(e) ? INFINITY : e;
  }
  return worst;
}

TEST_CASE("gemm: the small terms of 3xTF32 come first, so that no full sum cuts them away") {
  if (device() != "cuda_emu") return;
  const WithLibrary library;
  const double worst = worst_of_growing_sums(768);
  CHECK(worst <= 8e-6);  // the large product first: see README.md of tests/emu
  CHECK(worst >= 1e-6);  // or nothing is cut
}

TEST_CASE("gemm: three tf32 products of a great depth are added up outside the cores") {
  if (device() != "cuda_emu") return;
  const WithLibrary library;
  CHECK(worst_of_growing_sums(1500) <= 8e-6);               // 1.2e-5 where one accumulator takes all
  for (const int64_t in : {int64_t{769}, int64_t{1537}}) {  // 2 and 3 slabs, the last one short
    for (const bool fused : {false, true}) {
      CAPTURE(in);
      CAPTURE(fused);
      Layer layer({256, in, 40}, {DType::kF32, DType::kF32, fused, 0, 0});
      TypedBackend backend(0);
      CHECK(layer.error(layer.op.run(backend), 0) <= 1);  // bias and ReLU once, at the end
      CHECK_MESSAGE(layer.op.report.find("cublaslt-3xtf32 (rows 129-256)") != std::string::npos,
                    layer.op.report);
    }
  }
}

/// Max pooling with -1e9 for a bag without ids, in an op of its own or in a lookup, prepared and let go: what
/// the backend remembers of it stays.
void prepare_max_pooling(TypedBackend& backend, bool in_lookup) {
  kernels::EmbedAttrs attrs;
  attrs.pooling = kernels::Pooling::kMax;
  attrs.empty = -1e9f;
  const kernels::LookupField field = {attrs, 0, 0, 0, false};
  kernels::MultiLookupAttrs lookup;
  lookup.fields = &field;
  lookup.n_fields = 1;
  dpi_value_desc bags{};
  bags.is_bags = 1;
  const dpi_value_desc rows[] = {{{1, {8}}, 0, 0, 8, DType::kF32}, {}};
  const kernels::Param params[3] = {};
  const dpi_table_desc table = {10, 8, DType::kF32};
  dpi_op_desc d{};
  d.struct_size = sizeof(d);
  d.kind = in_lookup ? kernels::OpKind::kMultiLookup : kernels::OpKind::kEmbed;
  d.name = "bag";
  d.attrs = in_lookup ? static_cast<const void*>(&lookup) : &attrs;
  d.inputs = &bags;
  d.outputs = rows;
  d.params = params;
  d.tables = &table;
  d.n_inputs = d.n_tables = 1;
  d.n_outputs = in_lookup ? 2 : 1;
  d.n_params = in_lookup ? 3 : 0;
  d.max_rows = 4;
  dpi_backend_op* op = nullptr;
  dpi_backend_error err{};
  char report[256] = "";
  const int32_t code = backend.b.api->op_prepare(backend.b.device, &d, &op, report, sizeof(report), &err);
  REQUIRE_MESSAGE(code == 0, err.message);
  backend.b.api->op_free(backend.b.device, op);
}

TEST_CASE("gemm: after a lookup with bags that fp16 does not hold the library leaves float32") {
  if (device() != "cuda_emu") return;
  const WithLibrary library;
  for (const int before : {0, 1, 2}) {  // nothing, an Embed, a lookup
    CAPTURE(before);
    const bool beyond_half = before > 0;
    const Shape s = {33, 64, 32};
    Layer layer(s, {DType::kF16, DType::kF16, false, 0, 0});
    std::fill(layer.weight.data.begin(), layer.weight.data.end(), 1.0f);
    std::fill(layer.op.inputs[0].data.begin(), layer.op.inputs[0].data.end(), 65504.0f);
    TypedBackend backend(2);
    if (beyond_half) prepare_max_pooling(backend, before == 2);
    const std::vector<float> got = layer.op.run(backend);
    CHECK(layer.op.report.find("chosen: cublaslt-fp16") == 0);
    REQUIRE(got.size() == 33 * 32);
    const float want = beyond_half ? 65504.0f : INFINITY;  // the library saturates nothing
    CHECK(std::all_of(got.begin(), got.end(), [&](float v) { return v == want; }));
  }
}

TEST_CASE("gemm: the residual may lie in the output's own memory") {
  for (const bool library : {false, true}) {
    if (library && device() != "cuda_emu") return;
    if (library) setenv("DPI_EMU_CUBLASLT", "1", 1);
    for (const int32_t precision : {0, 1}) {
      CAPTURE(library);
      CAPTURE(precision);
      Layer layer({67, 100, 130}, {DType::kF32, DType::kF32, true, 0, 0});
      layer.op.output_over = 2;
      TypedBackend backend(precision);
      CHECK(layer.error(layer.op.run(backend), operand_error(precision, "")) <= 1);
    }
    if (library) unsetenv("DPI_EMU_CUBLASLT");
  }
}

TEST_CASE("gemm: a fused end of many rows takes the library") {
  if (device() != "cuda_emu") return;
  const WithLibrary library;
  const char* const want[] = {"cublaslt-3xtf32 (rows 129-256)", "cublaslt-tf32 (rows 1-256)",
                              "cublaslt-fp16 (rows 1-256)"};
  for (const int32_t precision : {0, 1, 2}) {
    CAPTURE(precision);
    const DType type = precision == 2 ? DType::kF16 : DType::kF32;
    Layer layer({256, 64, 32}, {type, type, true, 0, 0});
    TypedBackend backend(precision);
    CHECK(layer.error(layer.op.run(backend), operand_error(precision, "")) <= 1);
    CHECK_MESSAGE(layer.op.report.find(want[precision]) != std::string::npos, layer.op.report);
  }
}

}  // namespace
}  // namespace dpi::test::gemm_test
