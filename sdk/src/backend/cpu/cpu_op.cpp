#include "backend/cpu/cpu_op.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace dpi::backend {

namespace {

namespace cpu = kernels::cpu;
namespace ref = kernels::ref;
using kernels::OpKind;

// One line per kind and implementation. The kernels neither allocate nor throw.
template <auto Member, auto Args>
void run_vector(const CpuOp& op, const dpi_op_call& call) {
  (op.f->*Member)(Args(op.op, call));
}

template <auto Kernel, auto Args>
void run_plain(const CpuOp& op, const dpi_op_call& call) {
  Kernel(Args(op.op, call));
}

void run_linear(const CpuOp& op, const dpi_op_call& call) {
  op.f->linear_packed(linear_args(op.op, call), op.packed.get());
}

void run_dense(const CpuOp& op, const dpi_op_call& call) {
  const kernels::DenseArgs a = dense_args(op.op, call);
  cpu::GemmCall c;
  c.x = a.x.data;
  c.packed = op.packed.get();
  c.bias = a.bias.data;
  c.mul = a.mul.data;
  c.add = a.add.data;
  c.dst = a.dst.data;
  c.m = a.dst.rows;
  c.n = a.dst.dims.size();
  c.k = a.x.dims.size();
  c.ldx = a.x.row_stride;
  c.ldd = a.dst.row_stride;
  c.ld_mul = a.mul.row_stride;
  c.ld_add = a.add.row_stride;
  c.segments = a.attrs.segments;
  c.n_segments = a.attrs.n_segments;
  c.p[0] = a.p0.data;
  c.p[1] = a.p1.data;
  c.p[2] = a.p2.data;
  op.f->gemm(c);
}

/// What one kind does; null vector: always plain.
struct Choice {
  CpuRun vector = nullptr;
  CpuRun plain = nullptr;
  const char* plain_name = "ref";
};

Choice choice_of(OpKind kind) {
  using F = cpu::Functions;
  switch (kind) {
    case OpKind::kEmbed:
      return {run_vector<&F::embed, embed_args>};
    case OpKind::kMask:
      return {nullptr, run_plain<ref::mask, mask_args>};
    case OpKind::kLinear:
      return {run_linear};
    case OpKind::kMatMul:
      return {run_vector<&F::matmul, matmul_args>};
    case OpKind::kBinary:
      return {run_vector<&F::binary, binary_args>};
    case OpKind::kUnary:
      return {run_vector<&F::unary, unary_args>};
    case OpKind::kLayerNorm:
      return {run_vector<&F::layer_norm, layer_norm_args>};
    case OpKind::kSoftmax:
      return {run_vector<&F::softmax, softmax_args>, run_plain<ref::softmax, softmax_args>};
    case OpKind::kReduce:
      return {run_vector<&F::reduce, reduce_args>};
    case OpKind::kConcat:
      return {nullptr, run_plain<cpu::concat, concat_args>, "cpu.copy"};
    case OpKind::kView:
      return {nullptr, run_plain<cpu::view, view_args>, "cpu.copy"};
    case OpKind::kRecurrent:
      return {nullptr, run_plain<ref::recurrent, recurrent_args>};
    case OpKind::kBroadcastRows:
      return {nullptr, run_plain<cpu::broadcast_rows, broadcast_rows_args>, "cpu.copy"};
    case OpKind::kMultiLookup:
      return {run_vector<&F::multi_lookup, multi_lookup_args>,
              run_plain<ref::multi_lookup, multi_lookup_args>};
    case OpKind::kDense:
      return {run_dense};
    case OpKind::kElementwise:
      return {run_vector<&F::elementwise, elementwise_args>};
    case OpKind::kCrossV1:
      return {run_vector<&F::cross_v1, cross_v1_args>};
    case OpKind::kCrossV1Closed:
      return {run_vector<&F::cross_v1_closed, cross_v1_closed_args>};
    case OpKind::kFm:
      return {run_vector<&F::fm, fm_args>};
    case OpKind::kTail:
      return {run_vector<&F::tail, tail_args>};
    default:
      return {};
  }
}

/// Why the vector form does not take the op; empty when it does.
std::string refusal(const CpuOp& op) {
  if (op.op.kind == OpKind::kMultiLookup) {
    int64_t max_dim = 0;
    for (const dpi_table_desc& t : op.op.tables) max_dim = std::max<int64_t>(max_dim, t.dim);
    if (!op.f->multi_lookup_fits(op.op.as<kernels::MultiLookupAttrs>(), max_dim)) {
      return "a row or the FM sum is wider than the tile buffers";
    }
  }
  if (op.op.kind == OpKind::kSoftmax) {
    kernels::SoftmaxArgs a;
    a.attrs = op.op.as<kernels::SoftmaxAttrs>();
    a.x.dims = op.op.input(0).dims;
    a.mask.dims = op.op.input(1).dims;
    if (!cpu::softmax_is_plain(a)) return "the axis is not the last, or the mask has other dims";
  }
  return {};
}

Status pack(CpuOp& op) {
  const bool linear = op.op.kind == OpKind::kLinear;
  if (!linear && op.op.kind != OpKind::kDense) return ok_status();
  int64_t groups = 1;
  if (linear) {
    const auto& attrs = op.op.as<kernels::LinearAttrs>();
    if (attrs.axis == kernels::LinearAxis::kField) {
      op.run = run_vector<&cpu::Functions::linear, linear_args>;
      return ok_status();
    }
    groups = attrs.groups;
  }
  const kernels::Param w = op.op.param(0);
  const int64_t n = w.dims.at(-2), k = w.dims.at(-1);
  const int64_t size = op.f->gemm_packed_floats(n, k);
  op.packed = make_aligned(groups * size);
  if (op.packed == nullptr) return {Code::kOutOfMemory, "no memory for packed weights"};
  for (int64_t g = 0; g < groups; ++g) op.f->gemm_pack(w.data + g * n * k, n, k, op.packed.get() + g * size);
  op.op.drop_param(0);
  return ok_status();
}

}  // namespace

void FreeAligned::operator()(float* p) const { std::free(p); }

AlignedFloats make_aligned(int64_t n) {
  const size_t bytes = (static_cast<size_t>(n) * sizeof(float) + 63) / 64 * 64;
  return AlignedFloats(static_cast<float*>(std::aligned_alloc(64, bytes > 0 ? bytes : 64)));
}

Status choose(CpuOp& op, cpu::Isa isa) {
  op.f = &cpu::functions(isa);
  const Choice c = choice_of(op.op.kind);
  const std::string name = std::string("cpu.") + cpu::isa_name(isa);
  const std::string reason = c.vector == nullptr ? "has no vector form" : refusal(op);
  if (reason.empty()) {
    op.run = c.vector;
    op.report = "chosen: " + name;
    return pack(op);
  }
  if (c.plain == nullptr) return unsupported("op '" + op.op.name + "': " + name + ": " + reason);
  op.run = c.plain;
  op.report = std::string("chosen: ") + c.plain_name + "; refused: " + name + ": " + reason;
  if (op.op.kind == OpKind::kRecurrent) {
    const size_t bytes = 7 * static_cast<size_t>(op.op.output(0).dims.at(-1)) * sizeof(double);
    op.scratch_per_call = (bytes + 63) / 64 * 64;
  }
  return ok_status();
}

}  // namespace dpi::backend
