/// Runs one op whose values may be float32, float16 or bfloat16 on a backend opened for the purpose: outputs
/// start as NaN, every buffer lies between guard bands, rows may be padded and bases moved off the alignment.
/// For ops without ids and tables; op_harness.hpp runs all ops in float32.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <dpi/kernels/dense.hpp>
#include <dpi/kernels/elementwise.hpp>
#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>
#include <dpi/kernels/tail.hpp>

#include "backend/abi/registry.hpp"
#include "support/device.hpp"
#include "support/guard_buffer.hpp"

namespace dpi::test {

inline uint16_t to_16(float v, kernels::DType type) {
  return type == kernels::DType::kF16 ? kernels::float_to_half(v) : kernels::float_to_bf16(v);
}
inline float from_16(uint16_t v, kernels::DType type) {
  return type == kernels::DType::kF16 ? kernels::half_to_float(v) : kernels::bf16_to_float(v);
}
/// `v` as an element of `type` holds it.
inline float rounded_to(float v, kernels::DType type) {
  return type == kernels::DType::kF32 ? v : from_16(to_16(v, type), type);
}

struct TypedBackend {
  backend::OpenedBackend b;

  /// `precision` as in dpi_backend_options; `tuning`: "off" or a table.
  explicit TypedBackend(int32_t precision = 0, const std::string& tuning = "off", bool strict = false) {
    backend::BackendRequest request;
    request.device = device();
    request.options.device_index = -1;
    request.options.precision = precision;
    request.options.strict = strict ? 1 : 0;
    request.options.isa = "auto";
    request.options.lookup = "auto";
    request.options.tuning = tuning.c_str();
    auto opened = backend::open_backend(request);
    status = opened.ok() ? ok_status() : opened.status();
    if (opened.ok()) b = opened.value();
  }
  ~TypedBackend() {
    if (b.device != nullptr) b.api->close(b.device);
  }
  TypedBackend(const TypedBackend&) = delete;
  TypedBackend& operator=(const TypedBackend&) = delete;

  Status status;
};

/// rows x width floats that are exactly elements of `type`.
struct TypedValue {
  kernels::Dims dims;
  kernels::DType type = kernels::DType::kF32;
  int64_t rows = 0;
  int64_t padding = 0;  // elements after each row
  size_t offset = 0;    // bytes off the alignment
  std::vector<float> data;

  int64_t width() const { return dims.size(); }
  int64_t stride() const { return width() + padding; }
  bool present() const { return dims.rank > 0; }
};

inline TypedValue typed_value(int64_t rows, int64_t width, kernels::DType type, uint32_t seed,
                              int64_t padding = 0, size_t offset = 0) {
  TypedValue v;
  v.dims = {1, {width}};
  v.type = type;
  v.rows = rows;
  v.padding = padding;
  v.offset = offset;
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (int64_t i = 0; i < rows * width; ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    v.data.push_back(rounded_to(static_cast<float>(state >> 40) / 8388608.0f - 1.0f, type));
  }
  return v;
}

class TypedOp {
 public:
  kernels::OpKind kind = kernels::OpKind::kDense;
  const void* attrs = nullptr;
  std::vector<TypedValue> inputs;  // an absent one has no dims
  TypedValue output;               // data unused
  size_t output_over = SIZE_MAX;   // the input, of the same layout, in whose memory the output lies
  std::vector<kernels::Param> params;
  const int32_t* row_map = nullptr;  // device memory is the host's where it is used
  int64_t max_rows = 0;              // 0 = the rows of the output
  std::string report;

  /// The output's rows, rounded as they are stored; empty after a failed CHECK. `output_index` for Tail.
  std::vector<float> run(TypedBackend& backend, size_t output_index = 0) {
    if (backend.status.code() == Code::kNoDevice) {
      skip_program(backend.status.message());
      return {};
    }
    REQUIRE_MESSAGE(backend.status.ok(), backend.status.message());
    const dpi_backend_api& api = *backend.b.api;
    dpi_backend_device* const dev = backend.b.device;
    dpi_backend_error err{};
    std::vector<std::unique_ptr<GuardBuffer>> buffers;
    std::vector<dpi_value_desc> in, out(output_index + 1);
    std::vector<kernels::Operand> operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TypedValue& v = inputs[i];
      in.push_back(describe(v));
      operands.emplace_back();
      if (v.present() && i != output_over) operands.back().tensor = place(api, dev, v, &buffers);
    }
    out[output_index] = describe(output);
    TypedValue blank = output;
    blank.data.assign(static_cast<size_t>(output.rows * output.width()), NAN);
    if (output_over < inputs.size()) blank.data = inputs[output_over].data;
    std::vector<kernels::Tensor> outputs(output_index + 1);
    outputs[output_index] = place(api, dev, blank, &buffers);
    if (output_over < inputs.size()) operands[output_over].tensor = outputs[output_index];
    GuardBuffer& result = *buffers.back();
    dpi_backend_op* op = nullptr;
    const dpi_op_desc d = desc(in, out);
    char text[1024] = "";
    int32_t code = api.op_prepare(dev, &d, &op, text, sizeof(text), &err);
    report = text;
    CHECK_MESSAGE(code == 0, err.message);
    if (code != 0) return {};
    GuardBuffer scratch(api, dev, api.op_scratch_bytes(op, std::max<int64_t>(1, output.rows)), 0,
                        DPI_MEMORY_ARENA);
    std::memset(scratch.host(), 0xFF, scratch.bytes());
    for (auto& b : buffers) b->upload();
    scratch.upload();
    const dpi_op_call call{
        output.rows, operands.data(), outputs.data(), nullptr, row_map, scratch.data(), nullptr, 0, 0};
    dpi_backend_stream* stream = nullptr;
    code = api.stream_create(dev, 0, &stream, &err);
    if (code == 0) code = api.enqueue(stream, op, &call, &err);
    if (code == 0) code = api.stream_synchronize(stream, &err);
    CHECK_MESSAGE(code == 0, err.message);
    for (auto& b : buffers) b->download();
    scratch.download();
    CHECK(scratch.bands_intact());
    for (auto& b : buffers) {
      CHECK(b->bands_intact());
      if (b.get() != &result) CHECK(b->all_unchanged());
    }
    if (stream != nullptr) api.stream_destroy(dev, stream);
    api.op_free(dev, op);
    return read(result);
  }

 private:
  static dpi_value_desc describe(const TypedValue& v) {
    if (!v.present()) return {};
    return {v.dims, 0, 0, v.stride(), v.type};
  }

  dpi_op_desc desc(const std::vector<dpi_value_desc>& in, const std::vector<dpi_value_desc>& out) const {
    dpi_op_desc d{};
    d.struct_size = sizeof(d);
    d.kind = kind;
    d.name = "typed";
    d.attrs = attrs;
    d.inputs = in.data();
    d.outputs = out.data();
    d.params = params.data();
    d.n_inputs = static_cast<int32_t>(in.size());
    d.n_outputs = static_cast<int32_t>(out.size());
    d.n_params = static_cast<int32_t>(params.size());
    d.max_rows = std::max<int64_t>(1, max_rows > 0 ? max_rows : output.rows);
    return d;
  }

  static kernels::Tensor place(const dpi_backend_api& api, dpi_backend_device* dev, const TypedValue& v,
                               std::vector<std::unique_ptr<GuardBuffer>>* buffers) {
    const auto size = static_cast<size_t>(kernels::dtype_bytes(v.type));
    const size_t n = static_cast<size_t>(v.rows * v.stride());
    buffers->push_back(std::make_unique<GuardBuffer>(api, dev, n * size, v.offset, DPI_MEMORY_ARENA));
    GuardBuffer& b = *buffers->back();
    std::memset(b.host(), 0xFF, b.bytes());  // NaN in all three types
    for (int64_t r = 0; r < v.rows; ++r) {
      for (int64_t c = 0; c < v.width(); ++c) {
        const float f = v.data[static_cast<size_t>(r * v.width() + c)];
        uint8_t* to = b.host() + static_cast<size_t>(r * v.stride() + c) * size;
        const uint16_t bits = v.type == kernels::DType::kF32 ? 0 : to_16(f, v.type);
        std::memcpy(to, size == 4 ? static_cast<const void*>(&f) : &bits, size);
      }
    }
    return {static_cast<float*>(b.data()), v.rows, v.stride(), v.dims, v.type};
  }

  /// Fails when anything was written between rows.
  std::vector<float> read(GuardBuffer& b) const {
    const auto size = static_cast<size_t>(kernels::dtype_bytes(output.type));
    const auto row_bytes = static_cast<size_t>(output.stride()) * size;
    bool between = false;
    for (size_t i = 0; i < b.bytes(); ++i) {
      if (i % row_bytes >= static_cast<size_t>(output.width()) * size) between = between || !b.unchanged(i);
    }
    CHECK_FALSE(between);
    std::vector<float> data;
    for (int64_t r = 0; r < output.rows; ++r) {
      for (int64_t c = 0; c < output.width(); ++c) {
        const uint8_t* from = b.host() + static_cast<size_t>(r) * row_bytes + static_cast<size_t>(c) * size;
        float f = 0;
        uint16_t bits = 0;
        std::memcpy(size == 4 ? static_cast<void*>(&f) : &bits, from, size);
        data.push_back(size == 4 ? f : from_16(bits, output.type));
      }
    }
    return data;
  }
};

}  // namespace dpi::test
