#include "backend/small_batch_runner.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "runtime/engine/op_description.hpp"
#include "support/device.hpp"
#include "support/edge_block.hpp"
#include "support/guard_buffer.hpp"

namespace dpi::test {
namespace {

double term_value(const PlanTable::Term& t, const std::vector<float>& table, int64_t row, int64_t rows) {
  const auto dim = static_cast<int64_t>(table.size()) / rows;
  const float* e = table.data() + row * dim;
  if (t.kind == PlanTable::Term::Kind::kColumn) return static_cast<double>(t.factor) * e[t.column];
  double sum = 0;
  for (int64_t i = 0; i < dim; ++i) sum += static_cast<double>(e[i]) * t.weights[static_cast<size_t>(i)];
  return sum;
}

}  // namespace

std::vector<std::vector<float>> plan_tables(const Plan& plan, const std::vector<std::vector<float>>& bundle) {
  std::vector<std::vector<float>> all;
  for (const PlanTable& t : plan.tables) {
    if (t.source >= 0) {
      all.push_back(bundle[static_cast<size_t>(t.source)]);
      continue;
    }
    all.emplace_back(static_cast<size_t>(t.rows * t.dim));
    for (int64_t i = 0; i < t.rows * t.dim; ++i) {
      double sum = 0;
      for (const PlanTable::Term& term : t.columns[static_cast<size_t>(i % t.dim)])
        sum += term_value(term, bundle[static_cast<size_t>(term.table)], i / t.dim, t.rows);
      all.back()[static_cast<size_t>(i)] = static_cast<float>(sum);
    }
  }
  return all;
}

/// Buffers of the device, uploaded when they are made.
struct SmallBatchRunner::Memory {
  const backend::OpenedBackend& b;
  bool in_place;
  std::vector<std::unique_ptr<GuardBuffer>> buffers;
  std::vector<std::unique_ptr<EdgeBlock>> edges;

  explicit Memory(const backend::OpenedBackend& backend, bool inputs_in_place = false)
      : b(backend), in_place(inputs_in_place) {}

  template <class T>
  T* place_input(const std::vector<T>& data) {
    if (!in_place || device() != "cuda_emu")
      return place(data, in_place ? DPI_MEMORY_STAGING : DPI_MEMORY_INPUT);
    edges.push_back(std::make_unique<EdgeBlock>(data.data(), data.size() * sizeof(T)));
    return static_cast<T*>(edges.back()->data());
  }

  template <class T>
  T* place(const std::vector<T>& data, int32_t kind) {
    buffers.push_back(std::make_unique<GuardBuffer>(*b.api, b.device, data.size() * sizeof(T), 0, kind));
    GuardBuffer& buffer = *buffers.back();
    if (!data.empty()) std::memcpy(buffer.host(), data.data(), buffer.bytes());
    buffer.upload();
    return static_cast<T*>(buffer.data());
  }
};

SmallBatchRunner::SmallBatchRunner(const Plan& plan, const std::vector<std::vector<float>>& tables,
                                   int32_t precision, bool strict, const std::string& tuning, bool in_place)
    : plan_(plan) {
  open(precision, strict, tuning, in_place);
  fixed_ = std::make_unique<Memory>(backend_);
  place_tables(tables);
  prepare();
}

SmallBatchRunner::~SmallBatchRunner() {
  if (op_ != nullptr) backend_.api->op_free(backend_.device, op_);
  fixed_.reset();
  backend_.api->close(backend_.device);
}

void SmallBatchRunner::open(int32_t precision, bool strict, const std::string& tuning, bool in_place) {
  backend::BackendRequest request;
  request.device = device();
  request.options.struct_size = sizeof(request.options);
  request.options.device_index = -1;
  request.options.precision = precision;
  request.options.strict = strict ? 1 : 0;
  request.options.isa = "auto";
  request.options.lookup = "auto";
  request.options.fetch = in_place ? "in_place" : "kernel";
  request.options.tuning = tuning.c_str();
  auto opened = backend::open_backend(request);
  if (!opened.ok()) throw std::runtime_error(std::string(opened.status().message()));
  backend_ = opened.value();
}

void SmallBatchRunner::place_tables(const std::vector<std::vector<float>>& tables) {
  for (const std::vector<float>& rows : plan_tables(plan_, tables)) {
    const PlanTable& t = plan_.tables[tables_.size()];
    kernels::TableView v;
    v.base = fixed_->place(rows, DPI_MEMORY_TABLE);
    v.rows = t.rows;
    v.row_bytes = int64_t{t.dim} * 4;
    v.dim = t.dim;
    tables_.push_back(v);
  }
}

namespace {

int64_t stride_of(const PlanValue& v) {
  return v.space == RowSpace::kConstant ? 0 : std::max(v.row_stride, v.dims.size());
}

bool is_kept(const PlanValue& v) { return v.storage == Storage::kOutput || v.storage == Storage::kLogit; }

}  // namespace

void SmallBatchRunner::prepare() {
  const SmallBatchDescription whole(plan_, stride_of, 4096);
  char text[1024] = "";
  dpi_backend_error err{};
  const int32_t code = backend_.api->small_batch_prepare(backend_.device, &whole.desc(), &op_, &max_rows_,
                                                         &in_place_, text, sizeof(text), &err);
  report_ = text;
  if ((code == 0) != (op_ != nullptr)) throw std::runtime_error("small_batch_prepare: code and op disagree");
}

kernels::Tensor SmallBatchRunner::tensor_of(int32_t value, const TestBatch& batch, Memory* memory) {
  const PlanValue& v = plan_.values[static_cast<size_t>(value)];
  kernels::Tensor t;
  t.dims = v.dims;
  t.rows = v.space == RowSpace::kConstant ? 1 : batch.rows;
  t.row_stride = stride_of(v);
  if (v.storage == Storage::kInput) {
    t.row_stride = v.dims.size();
    t.data = memory->place_input(batch.floats[static_cast<size_t>(v.feature)]);
  } else if (v.storage == Storage::kConst) {
    t.data = memory->place(plan_.params[static_cast<size_t>(v.param)].data, DPI_MEMORY_PARAM);
  }
  return t;  // of the arena: nothing there is read or written
}

kernels::Operand SmallBatchRunner::operand_of(int32_t value, const TestBatch& batch, Memory* memory) {
  kernels::Operand o;
  if (value < 0) return o;
  const PlanValue& v = plan_.values[static_cast<size_t>(value)];
  if (!v.is_bags) {
    o.tensor = tensor_of(value, batch, memory);
    return o;
  }
  std::vector<int32_t> ids, offsets = {0};
  for (const std::vector<int32_t>& bag : batch.ids[static_cast<size_t>(v.feature)]) {
    ids.insert(ids.end(), bag.begin(), bag.end());
    offsets.push_back(static_cast<int32_t>(ids.size()));
  }
  o.bags.ids = memory->place_input(ids);
  o.bags.rows = batch.rows;
  if (plan_.features[static_cast<size_t>(v.feature)].kind == FeatureKind::kCategorical) {
    o.bags.stride = 1;
  } else {
    o.bags.offsets = memory->place_input(offsets);
  }
  return o;
}

Status SmallBatchRunner::enqueue(const std::vector<dpi_op_call>& calls) {
  dpi_backend_error err{};
  dpi_backend_stream* stream = nullptr;
  int32_t code = backend_.api->stream_create(backend_.device, 0, &stream, &err);
  if (code == 0)
    code = backend_.api->small_batch_enqueue(stream, op_, calls.data(), static_cast<int32_t>(calls.size()),
                                             &err);
  if (code == 0) code = backend_.api->stream_synchronize(stream, &err);
  if (stream != nullptr) backend_.api->stream_destroy(backend_.device, stream);
  return code == 0 ? Status() : Status(static_cast<Code>(code), err.message);
}

Result<Scores> SmallBatchRunner::run(const TestBatch& batch, int64_t more_rows) {
  Memory memory(backend_, in_place());
  const size_t heads = plan_.heads.size();
  Scores s;
  s.value.assign(static_cast<size_t>(batch.rows) * heads, std::numeric_limits<float>::quiet_NaN());
  s.logit = s.value;
  float* const value = memory.place(s.value, DPI_MEMORY_OUTPUT);
  float* const logit = memory.place(s.logit, DPI_MEMORY_OUTPUT);
  std::vector<std::vector<kernels::Operand>> inputs(plan_.ops.size());
  std::vector<std::vector<kernels::Tensor>> outputs(plan_.ops.size());
  std::vector<std::vector<kernels::TableView>> tables(plan_.ops.size());
  std::vector<dpi_op_call> calls;
  for (size_t i = 0; i < plan_.ops.size(); ++i) {
    const PlanOp& op = plan_.ops[i];
    for (const int32_t v : op.inputs) inputs[i].push_back(operand_of(v, batch, &memory));
    for (const int32_t v : op.outputs) {
      outputs[i].emplace_back();
      if (v < 0) continue;
      const PlanValue& spec = plan_.values[static_cast<size_t>(v)];
      outputs[i].back() = tensor_of(v, batch, &memory);
      if (!is_kept(spec)) continue;
      outputs[i].back().data = (spec.storage == Storage::kOutput ? value : logit) + spec.column;
      outputs[i].back().row_stride = static_cast<int64_t>(heads);
    }
    for (const int32_t t : op.tables) tables[i].push_back(tables_[static_cast<size_t>(t)]);
    calls.push_back(
        {batch.rows, inputs[i].data(), outputs[i].data(), tables[i].data(), nullptr, nullptr, nullptr, 0, 0});
  }
  calls.back().rows += more_rows;
  DPI_RETURN_IF_ERROR(enqueue(calls));
  for (size_t i = 0; i < memory.buffers.size(); ++i) {
    GuardBuffer& b = *memory.buffers[i];
    b.download();
    if (!b.bands_intact()) return internal_error("wrote outside buffer " + std::to_string(i));
    if (i >= 2 && !b.all_unchanged()) return internal_error("wrote to input " + std::to_string(i));
  }
  if (!s.value.empty()) {
    std::memcpy(s.value.data(), memory.buffers[0]->host(), s.value.size() * sizeof(float));
    std::memcpy(s.logit.data(), memory.buffers[1]->host(), s.logit.size() * sizeof(float));
  }
  return s;
}

}  // namespace dpi::test
