#include "backend/cpu/split_call.hpp"

#include <algorithm>

namespace dpi::backend {

namespace {

using kernels::Bags;
using kernels::Operand;
using kernels::OpKind;
using kernels::Tensor;

constexpr int64_t kMinRows = 128;  // of a share
constexpr size_t kMaxInputs = 128;
constexpr size_t kMaxOutputs = 2;

struct Job {
  const CpuOp& op;
  const dpi_op_call& call;
  int32_t shares;
};

Tensor rows_of(Tensor t, int64_t begin, int64_t end) {
  if (t.data == nullptr || t.row_stride == 0) return t;  // absent, or the same for all rows
  t.data += begin * t.row_stride;
  t.rows = end - begin;
  return t;
}

Bags rows_of(Bags b, int64_t begin, int64_t end) {
  if (b.ids == nullptr) return b;
  if (b.offsets != nullptr) {
    b.offsets += begin;  // ids and weights are found by offset
  } else {
    b.ids += begin * b.stride;
  }
  b.rows = end - begin;
  return b;
}

void run_share(void* context, int32_t share) {
  const Job& job = *static_cast<const Job*>(context);
  const dpi_op_call& whole = job.call;
  const int64_t begin = whole.rows * share / job.shares, end = whole.rows * (share + 1) / job.shares;
  Operand inputs[kMaxInputs];
  Tensor outputs[kMaxOutputs];
  const bool mapped = job.op.op.kind == OpKind::kBroadcastRows && whole.row_map != nullptr;
  for (size_t i = 0; i < job.op.op.inputs.size(); ++i) {
    inputs[i] = whole.inputs[i];
    if (mapped) continue;  // rows are found by the map
    inputs[i].tensor = rows_of(whole.inputs[i].tensor, begin, end);
    inputs[i].bags = rows_of(whole.inputs[i].bags, begin, end);
  }
  for (size_t i = 0; i < job.op.op.outputs.size(); ++i) outputs[i] = rows_of(whole.outputs[i], begin, end);
  dpi_op_call call = whole;
  call.rows = end - begin;
  call.inputs = inputs;
  call.outputs = outputs;
  call.row_map = mapped ? whole.row_map + begin : whole.row_map;
  if (whole.scratch != nullptr)
    call.scratch = static_cast<char*>(whole.scratch) + share * job.op.scratch_per_call;
  job.op.run(job.op, call);
}

}  // namespace

bool worth_splitting(const CpuOp& op, const dpi_op_call& call) {
  return call.rows >= 2 * kMinRows && op.op.inputs.size() <= kMaxInputs &&
         op.op.outputs.size() <= kMaxOutputs;
}

void run_split(const CpuOp& op, const dpi_op_call& call) {
  const auto most = static_cast<int32_t>(std::min<int64_t>(call.rows / kMinRows, op.threads));
  Job job{op, call, most};
  op.pool->run(op.pool->self, most, run_share, &job);
}

}  // namespace dpi::backend
