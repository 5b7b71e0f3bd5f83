// precision=bf16 and int8 of the cpu backend, op by op: which layers get it, what they say, what they keep in
// memory. What products compute is held by tests/bench/bf16_sets_test.cpp and int8_sets_test.cpp.
#include <algorithm>
#include <string>
#include <vector>

#include <dpi/kernels/linear.hpp>

#include "backend/cpu_device.hpp"
#include "support/typed_op.hpp"

namespace dpi::test::cpu_bf16_test {
namespace {

using kernels::DType;
using kernels::OpKind;

constexpr int32_t kFp32 = 0, kBf16 = 3, kInt8 = 4;

struct Prepared {
  std::string report;
  size_t bytes = 0;
  size_t scratch[2] = {0, 0};  // of one row, of 4096
};

/// A Dense of 64 inputs, or a Linear over the field axis.
Prepared prepare(const CpuDevice& d, int64_t out, float weight, bool field_axis = false) {
  std::vector<float> w(static_cast<size_t>(out * 64), 0.25f);
  w.back() = weight;
  const kernels::Param params[] = {{w.data(), {2, {out, 64}}}, {}};
  const kernels::DenseSegment all{{kernels::UnaryKind::kRelu, 0, 0}, 0, out};
  const kernels::DenseAttrs dense{&all, 1};
  const kernels::LinearAttrs field{1, kernels::LinearAxis::kField};
  const dpi_value_desc in = {field_axis ? kernels::Dims{2, {64, 3}} : kernels::Dims{1, {64}}, 0, 0, 192,
                             DType::kF32};
  const dpi_value_desc result = {field_axis ? kernels::Dims{2, {out, 3}} : kernels::Dims{1, {out}}, 0, 0,
                                 3 * out, DType::kF32};
  dpi_op_desc desc{};
  desc.struct_size = sizeof desc;
  desc.kind = field_axis ? OpKind::kLinear : OpKind::kDense;
  desc.name = "layer";
  desc.attrs = field_axis ? static_cast<const void*>(&field) : &dense;
  desc.inputs = &in;
  desc.outputs = &result;
  desc.params = params;
  desc.n_inputs = desc.n_outputs = 1;
  desc.n_params = 2;
  desc.max_rows = 4096;
  dpi_backend_op* op = nullptr;
  dpi_backend_error err{};
  char text[1024] = "";
  const int32_t code = d.b.api->op_prepare(d.b.device, &desc, &op, text, sizeof text, &err);
  REQUIRE_MESSAGE(code == 0, err.message);
  Prepared p{
      text, d.b.api->op_bytes(op), {d.b.api->op_scratch_bytes(op, 1), d.b.api->op_scratch_bytes(op, 4096)}};
  d.b.api->op_free(d.b.device, op);
  return p;
}

bool says(const Prepared& p, const char* text) { return p.report.find(text) != std::string::npos; }

TEST_CASE("cpu bf16: wide layers take half the memory and say what they round, others stay in fp32") {
  for (const char* isa : {"amx", "avx512_bf16", "avx512", "avx2", "scalar", "neon", "neon_mmla"}) {
    const CpuDevice narrow(kBf16, isa), plain(kFp32, isa);
    if (narrow.status.code() == Code::kUnsupported) continue;
    REQUIRE(narrow.status.ok());
    CAPTURE(isa);
    const bool tiles = std::string(isa) == "amx";
    const bool multiplies = tiles || std::string(isa) == "avx512_bf16" || std::string(isa) == "neon_mmla";
    const size_t row = 64 * 2 + (tiles ? 64 : 0);                    // and a line beside it
    const size_t block = tiles ? 512 * 1024 / row / 32 * 32 : 1024;  // rows
    const Prepared wide = prepare(narrow, 96, 0.5f), as_before = prepare(plain, 96, 0.5f);
    CHECK(wide.bytes == as_before.bytes / 2);
    CHECK(as_before.bytes == 96 * 64 * 4);
    CHECK(says(wide, multiplies ? "weights and inputs in bf16" : "weights in bf16"));
    const size_t rows = std::string(isa) == "neon_mmla" ? 2 : 1;  // multiplied together
    CHECK(wide.scratch[0] == (multiplies ? rows * row : 0));
    CHECK(wide.scratch[1] == (multiplies ? block * row : 0));
    CHECK_FALSE(says(as_before, "bf16,"));
    CHECK(as_before.scratch[1] == 0);
    const Prepared few = prepare(narrow, 16, 0.5f), beyond = prepare(narrow, 96, 3.4e38f);
    CHECK(says(few, "refused: bf16: 16 columns and fewer gain nothing"));
    CHECK(few.bytes == 16 * 64 * 4);
    CHECK(says(beyond, "refused: bf16: a weight is beyond its largest value"));
    CHECK(beyond.bytes == as_before.bytes);
    CHECK(says(prepare(narrow, 17, -INFINITY), "in bf16"));  // bf16 has infinities
    CHECK_FALSE(says(prepare(narrow, 32, 0.5f, true), "in bf16"));
  }
}

TEST_CASE("cpu bf16: auto takes the processor's own products where it has them, and for bf16 only") {
  const CpuDevice auto_bf16(kBf16), auto_fp32(kFp32), forced(kFp32, "avx512_bf16"), tiles(kBf16, "amx");
  REQUIRE(auto_bf16.status.ok());
  CHECK((forced.status.ok() || forced.status.code() == Code::kUnsupported));
  CHECK((tiles.status.ok() || tiles.status.code() == Code::kUnsupported));
  const std::string got = prepare(auto_bf16, 32, 0.5f).report;
  if (tiles.status.ok()) CHECK(got == prepare(tiles, 32, 0.5f).report);
  if (!tiles.status.ok()) CHECK((got.find("cpu.avx512_bf16") != std::string::npos) == forced.status.ok());
  CHECK_FALSE(says(prepare(auto_fp32, 32, 0.5f), "bf16"));
}

TEST_CASE("cpu int8: a quarter of the memory in every set, and auto takes the best for it") {
  size_t seen = 0;
  for (const char* isa :
       {"scalar", "avx2", "avx512", "avx512_vnni", "amx", "neon", "neon_dot", "neon_mmla"}) {
    const CpuDevice d(kInt8, isa);
    if (d.status.code() == Code::kUnsupported) continue;
    REQUIRE(d.status.ok());
    CAPTURE(isa);
    ++seen;
    const std::string name = isa;
    const bool wide = name == "avx2" || name == "avx512";  // rows of x in 16 bits
    const Prepared p = prepare(d, 96, 0.5f);
    CHECK(says(p, ("cpu." + name + ", weights and inputs in int8").c_str()));
    CHECK(p.bytes == 96 * 64 + 2 * 96 * 4);  // and two numbers a column
    const size_t row = wide ? 64 * 2 + 4 : name == "neon_mmla" ? 2 * (64 + 8) : 64 + 4;  // and a scale
    CHECK(p.scratch[0] == (row + 63) / 64 * 64);
    CHECK(says(prepare(d, 16, 0.5f), "refused: int8: 16 columns and fewer gain nothing"));
    CHECK(says(prepare(d, 96, NAN), "refused: int8: a weight is not finite"));
    CHECK_FALSE(says(prepare(d, 32, 0.5f, true), "in int8"));
  }
  CHECK(seen >= 2);
  const CpuDevice automatic(kInt8);
  REQUIRE(automatic.status.ok());
  for (const char* isa :
       {"amx", "avx512_vnni", "avx512", "avx2", "neon_mmla", "neon_dot", "neon", "scalar"}) {
    const CpuDevice best(kInt8, isa);
    if (!best.status.ok()) continue;
    CHECK(prepare(best, 96, 0.5f).report == prepare(automatic, 96, 0.5f).report);
    break;
  }
}

TEST_CASE("cpu: a device with less than isa=auto takes says so in its name") {
  const auto name_of = [](const CpuDevice& d) -> std::string {
    dpi_backend_caps caps{};
    caps.struct_size = sizeof caps;
    dpi_backend_error err{};
    REQUIRE(d.b.api->caps(d.b.device, &caps, &err) == 0);
    return caps.device_name;
  };
  const CpuDevice automatic(kFp32), scalar(kFp32, "scalar"), scalar_int8(kInt8, "scalar");
  const std::string name = name_of(automatic);
  CHECK(name.find("isa=auto") == std::string::npos);
  const std::string best = name.substr(name.rfind(", ") + 2, name.find(';') - name.rfind(", ") - 2);
  CHECK(name_of(scalar).find(", scalar") != std::string::npos);
  CHECK((name_of(scalar).find("; isa=auto takes " + best) != std::string::npos) == (best != "scalar"));
  CHECK((name_of(scalar_int8).find("; isa=auto takes ") != std::string::npos) == (best != "scalar"));
  for (const char* isa : {"avx512_bf16", "avx512_vnni", "neon_dot", "neon_mmla"}) {
    const CpuDevice narrow(kFp32, isa);  // fp32 runs by the set that it extends
    if (narrow.status.ok()) CHECK(name_of(narrow).find("isa=auto") == std::string::npos);
  }
}

TEST_CASE("cpu bf16: other precisions are refused by name") {
  for (const auto& [precision, name] : {std::pair<int32_t, const char*>{1, "tf32"}, {2, "fp16"}}) {
    const CpuDevice d(precision);
    CHECK(d.status.code() == Code::kUnsupported);
    CHECK(d.status.message() ==
          std::string("backend 'cpu': cpu computes in fp32, bf16, int8 only, precision ") + name +
              " was asked; use fp32, or device=cuda");
  }
}

}  // namespace
}  // namespace dpi::test::cpu_bf16_test
