#include "backend/cuda/small_batch/small_batch_op.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "backend/cuda/device/cuda_handles.hpp"
#include "backend/cuda/small_batch/plan.hpp"
#include "backend/cuda/tuning/tuning.hpp"
#include "kernels/cuda/common/estimates.hpp"

namespace dpi::backend::small_batch {
namespace {

namespace cuda = kernels::cuda;
namespace gpu = kernels::cuda::small_batch;

using namespace cuda::estimates;

/// Everything that small_batch_enqueue needs.
struct SmallBatchOp {
  gpu::Shape shape;
  std::vector<Source> inputs;
  std::vector<Source> tables;
  std::vector<Source> outputs;
  int32_t n_calls = 0;
  int64_t max_rows = 0;
  bool in_place = false;
  int device = 0;
  void* programs = nullptr;
  void* weights = nullptr;
  size_t bytes = 0;  // of both

  SmallBatchOp() = default;
  SmallBatchOp(const SmallBatchOp&) = delete;
  SmallBatchOp& operator=(const SmallBatchOp&) = delete;
  ~SmallBatchOp() {
    layer::use(device);
    if (programs != nullptr) layer::device_free(programs);
    if (weights != nullptr) layer::device_free(weights);
  }
};

Result<gpu::Mode> mode_of(const CudaOptions& o) {
  if (o.strict)
    return unsupported("determinism=strict: the sums of a small batch are not those of its ops one by one");
  switch (o.precision) {
    case 1:
      return gpu::Mode::kTf32;
    case 2:
      return gpu::Mode::kF16;
    case 3:
      return gpu::Mode::kBf16;
    default:
      return gpu::Mode::kF32;
  }
}

/// The measurement of this model on this device; null = none.
const TuningLine* tuning_of(const CudaOptions& o, const BatchModel& model) {
  if (o.gemm == nullptr || o.gemm->tuning == nullptr) return nullptr;
  return find_tuning(o.gemm->tuning->small_batches(), o.precision, model.weights());
}

/// Plans both orders and returns the one with the smaller estimate.
Result<BatchPlan> plan_of(const BatchModel& side_by_side, const BatchModel& one_by_one, gpu::Mode mode,
                          const gpu::Limits& limits) {
  Result<BatchPlan> wide = make_plan(side_by_side, mode, limits);
  Result<BatchPlan> narrow = make_plan(one_by_one, mode, limits);
  if (!wide.ok()) return narrow;
  return narrow.ok() && narrow.value().micros < wide.value().micros ? std::move(narrow) : std::move(wide);
}

/// A plan that the device takes; smaller clusters when it refuses larger ones.
Result<BatchPlan> plan_for_device(const BatchModel& model, const BatchModel& one_by_one, gpu::Mode mode,
                                  const TuningLine* tuning, int32_t* clusters) {
  gpu::Limits limits;
  if (const int code = gpu::limits_of_device(&limits); code != 0)
    return native_status(code, "limits of the GPU");
  if (tuning != nullptr) {
    limits.ranks = tuning->ranks;
    limits.warps = tuning->warps;
    limits.least_warps = tuning->warps;
  }
  for (;;) {
    DPI_ASSIGN_OR_RETURN(BatchPlan plan, plan_of(model, one_by_one, mode, limits));
    plan.shape.overlap = limits.max_ranks > 1 && (tuning != nullptr ? tuning->overlap : kSmallBatchOverlap);
    const int code = gpu::allow(plan.shape, clusters);
    if (code == 0 && *clusters > 0) return plan;
    if (plan.shape.ranks == 1)
      return unsupported("the device takes no block of " + std::to_string(plan.shape.shared_bytes) +
                         " bytes of shared memory");
    limits.max_ranks = plan.shape.ranks / 2;
  }
}

double micros_of_ops(const BatchModel& model, gpu::Mode mode) {
  double micros = kSmallBatchMicrosPerOp * static_cast<double>(model.ops.size());
  if (mode != gpu::Mode::kF32) return micros;
  for (const Node& s : model.nodes) micros += s.kind == NodeKind::kProduct ? kSmallBatchMicrosPerPlain : 0;
  return micros;
}

/// The largest batch to take: what was measured, else one wave of clusters.
Result<int64_t> rows_of(const BatchPlan& plan, const TuningLine* tuning, int32_t clusters, double ops) {
  if (tuning != nullptr && tuning->rows == 0) return unsupported("its ops one by one were measured faster");
  if (tuning != nullptr) return tuning->rows;
  if (plan.micros > ops) {
    char text[120];
    std::snprintf(text, sizeof(text), "by estimate 16 rows take %.1f us, the ops one by one %.1f us",
                  plan.micros, ops);
    return unsupported(text);
  }
  return std::min(kSmallBatchMostRows, int64_t{clusters} * gpu::kTileRows);
}

Status upload(const std::vector<char>& bytes, void** to) {
  int code = layer::device_alloc(std::max<size_t>(bytes.size(), 16), to);
  if (code != 0) *to = nullptr;
  if (code == 0 && !bytes.empty()) code = layer::copy_now(*to, bytes.data(), bytes.size());
  return code == 0 ? ok_status() : native_status(code, "weights of a small batch");
}

std::string describe(const BatchPlan& plan, int64_t max_rows, const std::string& input) {
  char text[240];
  std::snprintf(
      text, sizeof(text),
      "chosen: small_batch, %d levels, %d ranks x %d warps, %d stages of weights, %d bytes of shared memory, "
      "%.1f us a tile estimated, at most %lld rows",
      plan.levels, plan.shape.ranks, plan.shape.warps, plan.stages, plan.shape.shared_bytes, plan.micros,
      static_cast<long long>(max_rows));
  return text + input;
}

Status prepare(const CudaDevice& device, const dpi_small_batch_desc& desc, SmallBatchOp* out,
               std::string* text) {
  DPI_ASSIGN_OR_RETURN(gpu::Mode mode, mode_of(device.options));
  DPI_ASSIGN_OR_RETURN(BatchModel model, make_model(desc, Order::kSideBySide));
  DPI_ASSIGN_OR_RETURN(BatchModel one_by_one, make_model(desc, Order::kOneByOne));
  std::string input;  // what the report says of it
  if (device.options.fetch_in_place) {
    const std::string why_not = model.why_not_in_place();
    out->in_place = model.in_place = one_by_one.in_place = why_not.empty();
    input = why_not.empty() ? ", input read in place" : ", input fetched: " + why_not;
  }
  const TuningLine* const tuning = tuning_of(device.options, model);
  if (tuning != nullptr) mode = tuning->mode;
  int32_t clusters = 0;
  DPI_ASSIGN_OR_RETURN(BatchPlan plan, plan_for_device(model, one_by_one, mode, tuning, &clusters));
  const double ops = micros_of_ops(model, mode);
  DPI_ASSIGN_OR_RETURN(out->max_rows, rows_of(plan, tuning, clusters, ops));
  out->shape = plan.shape;
  out->n_calls = desc.n_ops;
  DPI_RETURN_IF_ERROR(upload(plan.programs, &out->programs));
  DPI_RETURN_IF_ERROR(upload(plan.weights, &out->weights));
  out->bytes = plan.programs.size() + plan.weights.size();
  out->inputs = std::move(model.inputs);
  out->tables = std::move(model.tables);
  out->outputs = std::move(model.outputs);
  *text = describe(plan, out->max_rows, input);
  return ok_status();
}

int32_t cuda_small_batch_prepare(dpi_backend_device* d, const dpi_small_batch_desc* desc,
                                 dpi_backend_op** out, int64_t* max_rows, int32_t* in_place, char* text,
                                 size_t cap, dpi_backend_error* err) {
  *out = nullptr;
  *max_rows = 0;
  *in_place = 0;
  return guarded(err, [&]() -> Status {
    layer::use(device_of(d).index);
    auto prepared = std::make_shared<SmallBatchOp>();
    prepared->device = device_of(d).index;
    std::string said;
    if (Status s = prepare(device_of(d), *desc, prepared.get(), &said); !s.ok()) {
      copy_text("refused: small_batch: " + s.message(), text, cap);
      return s;
    }
    copy_text(said, text, cap);
    auto op = std::make_unique<CudaOp>();
    op->device = prepared->device;
    *max_rows = prepared->max_rows;
    *in_place = prepared->in_place ? 1 : 0;
    op->weight_bytes = prepared->bytes;
    op->small_batch = std::move(prepared);
    *out = reinterpret_cast<dpi_backend_op*>(op.release());
    return ok_status();
  });
}

// ---- calls

/// Allocates only when it fails.
Status check_calls(const SmallBatchOp& c, const dpi_op_call* calls, int32_t n_calls) {
  if (n_calls != c.n_calls)
    return invalid_argument("a small batch of " + std::to_string(c.n_calls) + " ops got " +
                            std::to_string(n_calls) + " calls");
  if (calls[0].rows < 0 || calls[0].rows > c.max_rows)
    return invalid_argument("a small batch of at most " + std::to_string(c.max_rows) + " rows got " +
                            std::to_string(calls[0].rows));
  for (int32_t i = 1; i < n_calls; ++i) {
    if (calls[i].rows != calls[0].rows)
      return invalid_argument("ops of a small batch got " + std::to_string(calls[0].rows) + " and " +
                              std::to_string(calls[i].rows) + " rows");
  }
  return ok_status();
}

Status bind_input(const SmallBatchOp& c, size_t i, const dpi_op_call* calls, gpu::Input* in) {
  const kernels::Operand& o = calls[c.inputs[i].op].inputs[c.inputs[i].index];
  if (o.bags.ids != nullptr) {
    *in = {o.bags.ids, o.bags.offsets, o.bags.weights, o.bags.stride};
  } else {
    *in = {o.tensor.data, nullptr, nullptr, o.tensor.row_stride};
  }
  if (in->data != nullptr) return ok_status();
  return invalid_argument("input " + std::to_string(c.inputs[i].index) + " of op " +
                          std::to_string(c.inputs[i].op) + " of a small batch has no data");
}

Status start(const SmallBatchOp& c, const dpi_op_call* calls, int32_t n_calls, const CudaHandle& stream) {
  DPI_RETURN_IF_ERROR(check_calls(c, calls, n_calls));
  if (calls[0].rows == 0) return ok_status();
  gpu::Input inputs[gpu::kMaxInputs];
  kernels::TableView tables[gpu::kMaxInputs];
  gpu::Output outputs[gpu::kMaxOutputs];
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    DPI_RETURN_IF_ERROR(bind_input(c, i, calls, &inputs[i]));
  }
  for (size_t i = 0; i < c.tables.size(); ++i) tables[i] = calls[c.tables[i].op].tables[c.tables[i].index];
  for (size_t i = 0; i < c.outputs.size(); ++i) {
    const kernels::Tensor& t = calls[c.outputs[i].op].outputs[c.outputs[i].index];
    outputs[i] = {t.data, t.row_stride};
  }
  gpu::Call call;
  call.programs = static_cast<const char*>(c.programs);
  call.weights = static_cast<const char*>(c.weights);
  call.inputs = inputs;
  call.tables = tables;
  call.outputs = outputs;
  call.n_outputs = static_cast<int32_t>(c.outputs.size());
  call.rows = calls[0].rows;
  layer::use(stream.device);
  const int code = gpu::start(c.shape, call, stream.native);
  return code == 0 ? ok_status() : native_status(code, "starting a small batch");
}

int32_t cuda_small_batch_enqueue(dpi_backend_stream* s, const dpi_backend_op* handle,
                                 const dpi_op_call* calls, int32_t n_calls, dpi_backend_error* err) {
  const auto* op = reinterpret_cast<const CudaOp*>(handle);
  const auto& c = *static_cast<const SmallBatchOp*>(op->small_batch.get());
  return guarded(err, [&] { return start(c, calls, n_calls, handle_of(s)); });
}

}  // namespace

void fill_small_batch_functions(dpi_backend_api* api) {
  api->small_batch_prepare = cuda_small_batch_prepare;
  api->small_batch_enqueue = cuda_small_batch_enqueue;
}

}  // namespace dpi::backend::small_batch
