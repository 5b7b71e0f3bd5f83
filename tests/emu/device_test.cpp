// The CUDA backend's host code over the emulated device: memory limits, refusals, streams and events, and the
// second check of ids in the kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "backend/abi/registry.hpp"
#include "support/op_harness.hpp"

namespace dpi::test::device_test {
namespace {

using backend::OpenedBackend;
using kernels::OpKind;

struct Device {
  OpenedBackend b;
  dpi_backend_error err{};

  explicit Device(int32_t precision = 0, const char* lookup = "auto") {
    backend::BackendRequest request;
    request.device = "cuda_emu";
    request.options.device_index = -1;
    request.options.precision = precision;
    request.options.isa = "auto";
    request.options.lookup = lookup;
    auto opened = backend::open_backend(request);
    REQUIRE_MESSAGE(opened.ok(), opened.status().message());
    b = opened.value();
  }
  ~Device() { b.api->close(b.device); }
  bool says(const char* text) const { return std::string(err.message).find(text) != std::string::npos; }
};

CaseValue floats(int64_t rows, int64_t n) {
  CaseValue v;
  v.present = true;
  v.rows = rows;
  v.dims = {1, {n}};
  v.data.assign(static_cast<size_t>(rows * n), 1.0f);
  return v;
}

CaseValue one_id_per_row(std::vector<int32_t> ids) {
  CaseValue v;
  v.present = true;
  v.is_bags = true;
  v.rows = static_cast<int64_t>(ids.size());
  v.ids = std::move(ids);
  return v;
}

CaseTable table_of_ones(int64_t rows, int32_t dim) {
  CaseTable t;
  t.rows = rows;
  t.dim = dim;
  const std::vector<float> ones(static_cast<size_t>(rows * dim), 1.0f);
  t.bytes.resize(ones.size() * sizeof(float));
  std::memcpy(t.bytes.data(), ones.data(), t.bytes.size());
  return t;
}

TEST_CASE("device: memory that is not there is an error with the size, and is free again afterwards") {
  setenv("DPI_EMU_MEMORY", "100000", 1);
  Device d;
  void* p = nullptr;
  void* q = nullptr;
  CHECK(d.b.api->alloc(d.b.device, 60000, DPI_MEMORY_PARAM, &p, &d.err) == 0);
  CHECK(d.b.api->alloc(d.b.device, 60000, DPI_MEMORY_PARAM, &q, &d.err) ==
        static_cast<int32_t>(Code::kOutOfMemory));
  CHECK(d.says("60000 bytes"));
  CHECK(q == nullptr);
  d.b.api->free(d.b.device, p, DPI_MEMORY_PARAM);
  CHECK(d.b.api->alloc(d.b.device, 60000, DPI_MEMORY_PARAM, &q, &d.err) == 0);
  d.b.api->free(d.b.device, q, DPI_MEMORY_PARAM);
  unsetenv("DPI_EMU_MEMORY");
}

TEST_CASE("device: a precision that there is not is refused") {
  for (const int32_t precision : {-1, 5, 4}) {
    backend::BackendRequest request;
    request.device = "cuda_emu";
    request.options.precision = precision;
    request.options.isa = "auto";
    const auto opened = backend::open_backend(request);
    REQUIRE(!opened.ok());
    const char* const says = precision == 4 ? "precision int8 was asked; use bf16" : "expected 0 to 3";
    CHECK_MESSAGE(opened.status().message().find(says) != std::string::npos, opened.status().message());
  }
}

TEST_CASE("device: bytes travel over two streams joined by an event") {
  Device d;
  const auto* api = d.b.api;
  constexpr size_t kBytes = 4096;
  void *in = nullptr, *out = nullptr, *device = nullptr;
  REQUIRE(api->alloc(d.b.device, kBytes, DPI_MEMORY_STAGING, &in, &d.err) == 0);
  REQUIRE(api->alloc(d.b.device, kBytes, DPI_MEMORY_STAGING, &out, &d.err) == 0);
  REQUIRE(api->alloc(d.b.device, kBytes, DPI_MEMORY_INPUT, &device, &d.err) == 0);
  std::memset(in, 7, kBytes);
  dpi_backend_stream *first = nullptr, *second = nullptr;
  dpi_backend_event* event = nullptr;
  REQUIRE(api->stream_create(d.b.device, 0, &first, &d.err) == 0);
  REQUIRE(api->stream_create(d.b.device, 0, &second, &d.err) == 0);
  REQUIRE(api->event_create(d.b.device, &event, &d.err) == 0);
  CHECK(api->copy_in(first, device, in, kBytes, &d.err) == 0);
  CHECK(api->event_record(event, first, &d.err) == 0);
  CHECK(api->event_wait(event, second, &d.err) == 0);
  CHECK(api->copy_out(second, out, device, kBytes, &d.err) == 0);
  CHECK(api->stream_synchronize(second, &d.err) == 0);
  CHECK(std::memcmp(in, out, kBytes) == 0);
  api->stream_destroy(d.b.device, first);
  api->stream_destroy(d.b.device, second);
  api->event_destroy(d.b.device, event);
  for (void* p : {in, out}) api->free(d.b.device, p, DPI_MEMORY_STAGING);
  api->free(d.b.device, device, DPI_MEMORY_INPUT);
}

TEST_CASE("device: an id outside its table reads as zeros, never as memory") {
  Device d;
  OpCase c;
  c.name = "lookup";
  c.kind = OpKind::kEmbed;
  c.attrs = kernels::EmbedAttrs{};
  c.inputs = {one_id_per_row({0, 3, -1, 2, 2147483647})};
  c.rows = 5;
  c.outputs = {floats(5, 7)};
  c.tables = {table_of_ones(3, 7)};
  c.bind();
  const auto got = run_case(*d.b.api, d.b.device, c, placements_of(c)[0]);
  REQUIRE_MESSAGE(got.ok(), got.status().message());
  for (size_t i = 0; i < 35; ++i) {
    const bool inside = i / 7 == 0 || i / 7 == 3;
    CHECK(got.value()[0][i] == (inside ? 1.0f : 0.0f));
  }
}

// Two fields of 3 columns, FM over both in channel 1, a bias.
OpCase small_lookup() {
  OpCase c;
  c.name = "lookup";
  c.kind = OpKind::kMultiLookup;
  kernels::MultiLookupAttrs a;
  a.n_channels = 2;
  a.fm_channel = 1;
  a.fm_dim = 3;
  c.attrs = a;
  c.rows = 4;
  c.inputs = {one_id_per_row({0, 1, 0, 1})};
  c.tables = {table_of_ones(2, 3)};
  c.fields.resize(2);
  for (int32_t i = 0; i < 2; ++i) {
    c.fields[static_cast<size_t>(i)].out_col = 3 * i;
    c.fields[static_cast<size_t>(i)].fm = true;
  }
  c.params = {{}, {}, {true, {1, {2}}, {0.5f, 0.25f}}};
  c.outputs = {floats(4, 6), floats(4, 2)};
  c.bind();
  return c;
}

#ifdef DPI_MEASURE
constexpr const char* kLookups[] = {"auto", "output_first", "input_first"};
#else
constexpr const char* kLookups[] = {"auto", "output_first"};

TEST_CASE("device: a build without DPI_MEASURE refuses what was not measured and says how to get it") {
  for (const bool lookup : {true, false}) {
    backend::BackendRequest request;
    request.device = "cuda_emu";
    request.options.device_index = -1;
    request.options.isa = "auto";
    request.options.lookup = lookup ? "input_first" : "auto";
    request.options.fetch = lookup ? "kernel" : "in_place";
    const auto opened = backend::open_backend(request);
    REQUIRE(!opened.ok());
    CHECK(opened.status().code() == Code::kUnsupported);
    const std::string option = lookup ? "debug.lookup=input_first" : "debug.fetch=in_place";
    CHECK(opened.status().message().find(option) != std::string::npos);
    CHECK(opened.status().message().find("-DDPI_MEASURE=ON") != std::string::npos);
  }
}
#endif

TEST_CASE("device: the option debug.lookup chooses among right lookups") {
  for (const char* lookup : kLookups) {
    Device d(0, lookup);
    const OpCase c = small_lookup();
    const auto got = run_case(*d.b.api, d.b.device, c, placements_of(c)[0]);
    REQUIRE_MESSAGE(got.ok(), got.status().message());
    CHECK(got.value()[0] == std::vector<float>(24, 1.0f));
    CHECK(got.value()[1] == std::vector<float>({0.5f, 3.25f, 0.5f, 3.25f, 0.5f, 3.25f, 0.5f, 3.25f}));
  }
}

TEST_CASE("device: more fields than the arguments of a launch hold") {
  Device d;
  OpCase c;
  c.name = "wide";
  c.kind = OpKind::kMultiLookup;
  c.attrs = kernels::MultiLookupAttrs{};
  c.rows = 1;
  c.inputs = {one_id_per_row({0})};
  c.tables = {table_of_ones(1, 1)};
  for (int32_t i = 0; i < 1000; ++i) {
    kernels::LookupField f;
    f.out_col = i;
    c.fields.push_back(f);
  }
  c.outputs = {floats(1, 1000)};
  c.bind();
  const auto got = run_case(*d.b.api, d.b.device, c, placements_of(c)[0]);
  REQUIRE_MESSAGE(got.ok(), got.status().message());
  CHECK(got.value()[0] == std::vector<float>(1000, 1.0f));
}

}  // namespace
}  // namespace dpi::test::device_test
