#include "support/op_harness.hpp"

#include <algorithm>
#include <limits>
#include <memory>

#include <dpi/kernels/row_decode.hpp>

#include "support/guard_buffer.hpp"

namespace dpi::test {
namespace {

using kernels::OpKind;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr size_t kTableRowPadding = 8;  // bytes

size_t size_of(const CaseValue& v) { return static_cast<size_t>(v.dims.size()); }

// Everything one run needs, and the checks after it.
class Run {
 public:
  Run(const dpi_backend_api& api, dpi_backend_device* device, const OpCase& c, const Placement& placement)
      : api_(api), device_(device), case_(c), placement_(placement) {}
  ~Run() {
    if (op_ != nullptr) api_.op_free(device_, op_);
    if (stream_ != nullptr) api_.stream_destroy(device_, stream_);
  }

  Status execute() {
    place_outputs();
    place_inputs();
    place_tables();
    DPI_RETURN_IF_ERROR(prepare());
    for (auto& b : buffers_) b->upload();
    DPI_RETURN_IF_ERROR(enqueue());
    for (auto& b : buffers_) b->download();
    return check_memory();
  }

  std::vector<std::vector<float>> results() {
    std::vector<std::vector<float>> all;
    for (size_t i = 0; i < case_.outputs.size(); ++i) {
      all.emplace_back();
      if (outputs_[i].data != nullptr)
        all.back() = read_rows(*output_buffers_[i], case_.outputs[i], outputs_[i]);
    }
    return all;
  }

 private:
  GuardBuffer& buffer(size_t bytes, size_t offset, int32_t kind) {
    buffers_.push_back(std::make_unique<GuardBuffer>(api_, device_, bytes, offset, kind));
    return *buffers_.back();
  }

  template <class T>
  const T* place(const std::vector<T>& data, int32_t kind) {
    GuardBuffer& b = buffer(data.size() * sizeof(T), placement_.base_offset, kind);
    if (!data.empty()) std::memcpy(b.host(), data.data(), b.bytes());
    return static_cast<const T*>(b.data());
  }

  /// Rows of no two inputs are padded alike, nor as the output's: what is read by another's stride shows.
  int64_t padding_of_input(size_t i) const {
    const bool own = static_cast<int32_t>(i) != placement_.alias_input;
    if (own && placement_.dense_inputs) return 0;
    return placement_.row_padding + (own && placement_.row_padding != 0 ? 1 + static_cast<int64_t>(i) : 0);
  }

  static int64_t stride_of(const CaseValue& v, int64_t padding) {
    return v.constant ? 0 : v.dims.size() + padding;
  }

  // A tensor in a buffer of its own: rows of v.data (NaN without data), NaN in between.
  kernels::Tensor place_tensor(const CaseValue& v, int64_t padding, bool with_data, GuardBuffer** where) {
    const int64_t rows = v.constant ? 1 : v.rows;
    const int64_t stride = v.constant ? v.dims.size() : stride_of(v, padding);
    GuardBuffer& b =
        buffer(static_cast<size_t>(rows * stride) * sizeof(float), placement_.base_offset, DPI_MEMORY_ARENA);
    std::vector<float> image(static_cast<size_t>(rows * stride), kNaN);
    for (int64_t r = 0; r < rows && with_data; ++r) {
      std::copy_n(v.data.begin() + r * v.dims.size(), v.dims.size(), image.begin() + r * stride);
    }
    if (!image.empty()) std::memcpy(b.host(), image.data(), b.bytes());
    *where = &b;
    return {static_cast<float*>(b.data()), rows, stride_of(v, padding), v.dims};
  }

  static std::vector<float> read_rows(GuardBuffer& b, const CaseValue& v, const kernels::Tensor& t) {
    std::vector<float> data(static_cast<size_t>(t.rows) * size_of(v));
    for (int64_t r = 0; r < t.rows && size_of(v) > 0; ++r) {
      std::memcpy(data.data() + static_cast<size_t>(r) * size_of(v),
                  b.host() + static_cast<size_t>(r * t.row_stride) * 4, size_of(v) * 4);
    }
    return data;
  }

  void place_outputs() {
    output_buffers_.assign(case_.outputs.size(), nullptr);
    for (size_t i = 0; i < case_.outputs.size(); ++i) {
      outputs_.emplace_back();
      if (!case_.outputs[i].present) continue;
      const bool aliased = i == 0 && placement_.alias_input >= 0;
      CaseValue v = case_.outputs[i];
      if (aliased) v.data = case_.inputs[static_cast<size_t>(placement_.alias_input)].data;
      outputs_.back() = place_tensor(v, placement_.row_padding, aliased, &output_buffers_[i]);
    }
  }

  void place_inputs() {
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const CaseValue& v = case_.inputs[i];
      kernels::Operand o;
      GuardBuffer* unused = nullptr;
      if (v.present && v.is_bags) {
        o.bags.ids = place(v.ids, DPI_MEMORY_INPUT);
        if (!v.offsets.empty()) o.bags.offsets = place(v.offsets, DPI_MEMORY_INPUT);
        if (!v.weights.empty()) o.bags.weights = place(v.weights, DPI_MEMORY_INPUT);
        o.bags.stride = v.offsets.empty() ? 1 : 0;
        o.bags.rows = v.rows;
      } else if (v.present) {
        o.tensor = static_cast<int32_t>(i) == placement_.alias_input
                       ? outputs_[0]
                       : place_tensor(v, padding_of_input(i), true, &unused);
      }
      inputs_.push_back(o);
    }
    if (!case_.row_map.empty()) row_map_ = place(case_.row_map, DPI_MEMORY_INPUT);
  }

  void place_tables() {
    for (const CaseTable& t : case_.tables) {
      const auto row = static_cast<size_t>(kernels::row_bytes_of(t.dtype, t.dim));
      const size_t padded = (row + kTableRowPadding - 1) / 4 * 4 + 4;
      GuardBuffer& b = buffer(padded * static_cast<size_t>(t.rows), 0, DPI_MEMORY_TABLE);
      for (size_t r = 0; r < static_cast<size_t>(t.rows); ++r)
        std::memcpy(b.host() + r * padded, t.bytes.data() + r * row, row);
      kernels::TableView host{t.bytes.data(), t.scale.data(), nullptr, t.rows, static_cast<int64_t>(row), 1,
                              t.dim,          t.dtype};
      kernels::TableView view = host;
      view.base = b.data();
      view.row_bytes = static_cast<int64_t>(padded);
      view.scale = t.scale.empty() ? nullptr : place(t.scale, DPI_MEMORY_TABLE);
      if (t.needs_nonzero) view.nonzero = place_nonzero(host);
      tables_.push_back(view);
    }
  }

  const uint64_t* place_nonzero(const kernels::TableView& host) {
    std::vector<uint64_t> bits(static_cast<size_t>(host.rows + 63) / 64, 0);
    for (int64_t i = 0; i < host.rows; ++i) {
      if (row_is_nonzero(host, i)) bits[static_cast<size_t>(i / 64)] |= uint64_t{1} << (i % 64);
    }
    GuardBuffer& b = buffer(bits.size() * sizeof(uint64_t), 0, DPI_MEMORY_TABLE);
    std::memcpy(b.host(), bits.data(), b.bytes());
    return static_cast<const uint64_t*>(b.data());
  }

  static dpi_value_desc describe(const CaseValue& v, int64_t padding) {
    if (!v.present) return {};
    if (v.is_bags) return {{}, 1, 0, 0, kernels::DType::kF32};
    return {v.dims, 0, v.constant ? 1 : 0, stride_of(v, padding), kernels::DType::kF32};
  }

  Status failed(int32_t code, const dpi_backend_error& err) const {
    return {static_cast<Code>(code), std::string(placement_.name) + ": " + err.message};
  }

  Status prepare() {
    std::vector<dpi_value_desc> in, out;
    std::vector<kernels::Param> params;
    std::vector<dpi_table_desc> tables;
    for (size_t i = 0; i < case_.inputs.size(); ++i)
      in.push_back(describe(case_.inputs[i], padding_of_input(i)));
    for (const CaseValue& v : case_.outputs) out.push_back(describe(v, placement_.row_padding));
    for (const CaseParam& p : case_.params)
      params.push_back(p.present ? kernels::Param{p.data.data(), p.dims} : kernels::Param{});
    for (const CaseTable& t : case_.tables) tables.push_back({t.rows, t.dim, t.dtype});
    dpi_op_desc d{};
    d.struct_size = sizeof(d);
    d.kind = case_.kind;
    d.name = case_.name.c_str();
    d.attrs = std::visit([](const auto& a) { return static_cast<const void*>(&a); }, case_.attrs);
    d.inputs = in.data();
    d.outputs = out.data();
    d.params = params.data();
    d.tables = tables.data();
    d.n_inputs = static_cast<int32_t>(in.size());
    d.n_outputs = static_cast<int32_t>(out.size());
    d.n_params = static_cast<int32_t>(params.size());
    d.n_tables = static_cast<int32_t>(tables.size());
    d.max_rows = std::max<int64_t>(1, case_.rows);
    char report[512] = "";
    const int32_t code = api_.op_prepare(device_, &d, &op_, report, sizeof(report), &err_);
    if (code != 0) return failed(code, err_);
    return std::string(report).starts_with("chosen: ")
               ? ok_status()
               : internal_error("report is '" + std::string(report) + "'");
  }

  Status enqueue() {
    const size_t scratch_bytes = api_.op_scratch_bytes(op_, std::max<int64_t>(1, case_.rows));
    GuardBuffer& scratch = buffer(scratch_bytes, 0, DPI_MEMORY_ARENA);
    scratch_ = &scratch;
    std::memset(scratch.host(), 0xFF, scratch_bytes);
    scratch.upload();
    const dpi_op_call call{
        case_.rows, inputs_.data(), outputs_.data(), tables_.data(), row_map_, scratch.data(), nullptr, 0, 0};
    int32_t code = api_.stream_create(device_, 0, &stream_, &err_);
    if (code == 0) code = api_.enqueue(stream_, op_, &call, &err_);
    if (code == 0) code = api_.stream_synchronize(stream_, &err_);
    return code == 0 ? ok_status() : failed(code, err_);
  }

  // Bands whole, inputs as they were, nothing written between the rows of an output.
  Status check_memory() {
    for (auto& b : buffers_) {
      if (!b->bands_intact())
        return internal_error(std::string(placement_.name) + ": wrote outside a buffer");
      if (is_output(b.get()) || b.get() == scratch_) continue;
      if (!b->all_unchanged()) return internal_error(std::string(placement_.name) + ": wrote to an input");
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (output_buffers_[i] == nullptr || case_.outputs[i].constant) continue;
      const size_t stride = static_cast<size_t>(outputs_[i].row_stride) * 4;
      for (size_t byte = 0; byte < output_buffers_[i]->bytes(); ++byte) {
        const bool padding = byte % stride >= size_of(case_.outputs[i]) * 4;
        if (padding && !output_buffers_[i]->unchanged(byte))
          return internal_error(std::string(placement_.name) + ": wrote between rows");
      }
    }
    return ok_status();
  }

  bool is_output(const GuardBuffer* b) const {
    return std::find(output_buffers_.begin(), output_buffers_.end(), b) != output_buffers_.end();
  }

  const dpi_backend_api& api_;
  dpi_backend_device* device_;
  const OpCase& case_;
  const Placement& placement_;
  dpi_backend_op* op_ = nullptr;
  dpi_backend_stream* stream_ = nullptr;
  dpi_backend_error err_{};
  std::vector<std::unique_ptr<GuardBuffer>> buffers_;
  std::vector<GuardBuffer*> output_buffers_;
  GuardBuffer* scratch_ = nullptr;
  std::vector<kernels::Operand> inputs_;
  std::vector<kernels::Tensor> outputs_;
  std::vector<kernels::TableView> tables_;
  const int32_t* row_map_ = nullptr;
};

// The input that output 0 may share its memory with, by the headers of the ops; -1 = none.
int32_t in_place_input(const OpCase& c) {
  if (c.kind == OpKind::kDense) return 2;
  const bool may = c.kind == OpKind::kUnary || c.kind == OpKind::kLayerNorm || c.kind == OpKind::kSoftmax ||
                   c.kind == OpKind::kBinary || c.kind == OpKind::kElementwise || c.kind == OpKind::kWhere;
  return may ? 0 : -1;
}

}  // namespace

std::vector<Placement> placements_of(const OpCase& c) {
  std::vector<Placement> placements{
      {"plain", 0, 0, -1}, {"unaligned", 3, 4, -1}, {"padded output", 5, 0, -1, true}};
  const int32_t i = in_place_input(c);
  if (i < 0 || i >= static_cast<int32_t>(c.inputs.size())) return placements;
  const CaseValue& v = c.inputs[static_cast<size_t>(i)];
  if (v.present && !v.constant && v.dims == c.outputs[0].dims) placements.push_back({"in place", 1, 4, i});
  return placements;
}

Result<std::vector<std::vector<float>>> run_case(const dpi_backend_api& api, dpi_backend_device* device,
                                                 const OpCase& c, const Placement& placement) {
  Run run(api, device, c, placement);
  if (Status s = run.execute(); !s.ok()) return s;
  return run.results();
}

}  // namespace dpi::test
