#include "backend/cuda/device/cuda_op.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <dpi/kernels/narrow.hpp>

#include "backend/cuda/layer/device_layer.hpp"
#include "backend/cuda/layer/native_status.hpp"
#include "backend/cuda/layer/packer.hpp"
#include "backend/cuda/tuning/tuning.hpp"
#include "kernels/cuda/kernels.hpp"
#include "ops/call_faults.h"
#include "ops/check_op.hpp"
#include "ops/table.hpp"

namespace dpi::backend {
namespace {

using kernels::OpKind;
namespace cuda = kernels::cuda;

int start_lookup(const CudaOp& op, const dpi_op_call& call, void* stream) {
  cuda::LookupOptions o;
  o.variant = op.lookup;
  o.tuning = op.lookup_tuning.count > 0 ? &op.lookup_tuning : nullptr;
  o.device = op.size;
  o.scratch = call.scratch;
  o.scratch_bytes = cuda_scratch_bytes(op, call.rows);
  static_assert(sizeof(cuda::LookupFaults) == sizeof(dpi_lookup_faults));
  o.faults = reinterpret_cast<cuda::LookupFaults*>(call.faults);
  return cuda::multi_lookup(multi_lookup_args(op.op, call), o, stream);
}

int start_dense(const CudaOp& op, const dpi_op_call& call, void* stream) {
  return op.gemm->start(dense_args(op.op, call), call.scratch, stream);
}

template <auto Kernel, auto Args>
int start(const CudaOp& op, const dpi_op_call& call, void* stream) {
  return Kernel(Args(op.op, call), stream);
}

using CudaRun = int (*)(const CudaOp& op, const dpi_op_call& call, void* stream);

struct CudaForm {
  OpKind kind;
  CudaRun run;
};

// One line per kind that this backend runs. An op of any other kind is refused when it is prepared.
constexpr CudaForm kForms[] = {
    {OpKind::kEmbed, start<cuda::embed, embed_args>},
    {OpKind::kMask, start<cuda::mask, mask_args>},
    {OpKind::kLinear, start<cuda::linear, linear_args>},
    {OpKind::kMatMul, start<cuda::matmul, matmul_args>},
    {OpKind::kBinary, start<cuda::binary, binary_args>},
    {OpKind::kUnary, start<cuda::unary, unary_args>},
    {OpKind::kLayerNorm, start<cuda::layer_norm, layer_norm_args>},
    {OpKind::kSoftmax, start<cuda::softmax, softmax_args>},
    {OpKind::kReduce, start<cuda::reduce, reduce_args>},
    {OpKind::kConcat, start<cuda::concat, concat_args>},
    {OpKind::kView, start<cuda::view, view_args>},
    {OpKind::kRecurrent, start<cuda::recurrent, recurrent_args>},
    {OpKind::kBroadcastRows, start<cuda::broadcast_rows, broadcast_rows_args>},
    {OpKind::kMultiLookup, start_lookup},
    {OpKind::kDense, start_dense},
    {OpKind::kElementwise, start<cuda::elementwise, elementwise_args>},
    {OpKind::kCrossV1, start<cuda::cross_v1, cross_v1_args>},
    {OpKind::kCrossV1Closed, start<cuda::cross_v1_closed, cross_v1_closed_args>},
    {OpKind::kFm, start<cuda::fm, fm_args>},
    {OpKind::kTail, start<cuda::tail, tail_args>},
    {OpKind::kWhere, start<cuda::where, where_args>},
    {OpKind::kTopK, start<cuda::top_k, top_k_args>},
    {OpKind::kGather, start<cuda::gather, gather_args>},
    {OpKind::kCoAction, start<cuda::co_action, co_action_args>},
    {OpKind::kAttention, start<cuda::attention, attention_args>},
    {OpKind::kCin, start<cuda::cin, cin_args>},
};

// By kind; null where there is no line.
constexpr auto kRuns = [] {
  std::array<CudaRun, kOpCount> runs{};
  for (const CudaForm& f : kForms) runs[static_cast<size_t>(f.kind)] = f.run;
  return runs;
}();

CudaRun run_of(OpKind kind) { return kRuns[static_cast<size_t>(kind)]; }

// Why no kernel takes the op.
Status refuse(const OwnedOp& op) {
  const std::string name = "op '" + op.name + "': ";
  if (run_of(op.kind) == nullptr)
    return unsupported(name + layer::plugin_name() + " has no kernel for " + op_name(op.kind));
  if (op.kind == OpKind::kTail && op.inputs.size() > static_cast<size_t>(cuda::kMaxTailInputs))
    return unsupported(name + "cuda ends at most " + std::to_string(cuda::kMaxTailInputs) + " branches, " +
                       std::to_string(op.inputs.size()) + " asked");
  return ok_status();
}

// Offsets of what was packed, to become pointers once the block's address is known.
struct Packed {
  std::vector<size_t> params;
  size_t segments = 0;
  size_t indices = 0;
};

Packed pack(const OwnedOp& op, Packer* packer) {
  Packed at;
  for (size_t i = 0; i < op.params.size(); ++i) {
    const kernels::Param& p = op.params[i];
    const bool packed = op.kind == OpKind::kDense && i == 0;  // by Gemm
    at.params.push_back(p.data != nullptr && !packed ? packer->add(p.data, static_cast<size_t>(p.dims.size()))
                                                     : 0);
  }
  at.segments = packer->add(op.segments.data(), op.segments.size());
  at.indices = packer->add(op.indices.data(), op.indices.size());
  return at;
}

void redirect(CudaOp* c, const Packed& at) {
  const auto* base = static_cast<const char*>(c->weights);
  for (size_t i = 0; i < c->op.params.size(); ++i) {
    if (c->op.params[i].data == nullptr) continue;
    c->op.drop_param(i);
    if (c->gemm != nullptr && i == 0) continue;  // packed
    c->op.params[i].data = reinterpret_cast<const float*>(base + at.params[i]);
  }
  if (auto* v = std::get_if<kernels::ViewAttrs>(&c->op.attrs))
    v->indices = reinterpret_cast<const int64_t*>(base + at.indices);
  if (auto* d = std::get_if<kernels::DenseAttrs>(&c->op.attrs))
    d->segments = reinterpret_cast<const kernels::DenseSegment*>(base + at.segments);
}

}  // namespace

CudaOp::~CudaOp() {
  if (weights == nullptr) return;
  layer::use(device);
  layer::device_free(weights);
}

Status check_kernels() {
  const int code = cuda::probe();
  if (code == 0) return ok_status();
  return Status(Code::kNoDevice, "the kernels cannot run on this GPU: " + layer::error_text(code))
      .native(code);
}

namespace {

bool is_beyond_half(const kernels::EmbedAttrs& a) {
  return a.pooling == kernels::Pooling::kMax && !kernels::half_holds(a.empty);
}

/// Does the op give values, in an empty bag of max pooling, that fp16 does not hold?
bool gives_beyond_half(const OwnedOp& op) {
  if (op.kind == OpKind::kEmbed) return is_beyond_half(op.as<kernels::EmbedAttrs>());
  if (op.kind != OpKind::kMultiLookup) return false;
  const auto& a = op.as<kernels::MultiLookupAttrs>();
  return std::any_of(a.fields, a.fields + a.n_fields,
                     [](const kernels::LookupField& f) { return is_beyond_half(f.embed); });
}

}  // namespace

Status prepare_cuda_op(const dpi_op_desc& desc, const CudaOptions& options, bool* beyond_half, CudaOp* out,
                       std::string* report) {
  DPI_ASSIGN_OR_RETURN(out->op, own_op(desc));
  DPI_RETURN_IF_ERROR(check_op(out->op, true));
  DPI_RETURN_IF_ERROR(refuse(out->op));
  *report = layer::plugin_name();
  *beyond_half = *beyond_half || gives_beyond_half(out->op);
  if (out->op.kind == OpKind::kDense) {
    DPI_ASSIGN_OR_RETURN(out->gemm, Gemm::make(out->op, options.gemm, *beyond_half));
    *report = out->gemm->report();
  }
  if (options.gemm != nullptr) out->size = options.gemm->size;
  out->lookup = cuda::lookup_variant_named(options.lookup.c_str());
  // Under strict the rules alone decide: lines of the table that differ by rows may choose other orders of
  // sums, and a row's bits would depend on its batch.
  if (out->op.kind == OpKind::kMultiLookup && options.gemm != nullptr && options.gemm->tuning != nullptr &&
      !options.strict) {
    out->tuning = options.gemm->tuning;
    out->lookup_tuning = out->tuning->lookups();
  }
  Packer packer;
  const Packed at = pack(out->op, &packer);
  DPI_RETURN_IF_ERROR(packer.upload("weights of op '" + out->op.name + "'", &out->weights));
  out->weight_bytes = packer.size();
  redirect(out, at);
  return ok_status();
}

size_t cuda_scratch_bytes(const CudaOp& op, int64_t rows) {
  if (op.gemm != nullptr) return op.gemm->scratch_bytes(rows);
  if (op.op.kind == OpKind::kMultiLookup)
    return cuda::lookup_scratch_bytes(op.op.as<kernels::MultiLookupAttrs>(), rows, op.lookup);
  if (op.op.kind != OpKind::kRecurrent) return 0;
  const int64_t m = op.op.output(0).dims.at(-1);
  return static_cast<size_t>(cuda::recurrent_scratch_floats(rows, m)) * sizeof(float);
}

int start_cuda_op(const CudaOp& op, const dpi_op_call& call, void* stream) {
  int code = run_of(op.op.kind)(op, call, stream);
  if (call.faults == nullptr) return code;
  for (size_t i = 0; code == 0 && i < op.op.outputs.size(); ++i) {
    if (is_absent(op.op.output(i))) continue;
    kernels::Tensor t = call.outputs[i];
    t.rows = call.rows;
    t.dims = op.op.output(i).dims;
    t.dtype = op.op.output(i).dtype;
    code = cuda::count_saturated(t, &reinterpret_cast<dpi_call_faults*>(call.faults)->saturated, stream);
  }
  return code;
}

}  // namespace dpi::backend
