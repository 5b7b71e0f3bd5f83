#include "backend/cpu/cpu_op.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "kernels/cpu/pack_bf16.hpp"
#include "kernels/cpu/pack_int8.hpp"
#include "ops/table.hpp"

namespace dpi::backend {

namespace {

namespace cpu = kernels::cpu;
using kernels::OpKind;

// The kernels neither allocate nor throw.
template <auto Member, auto Args>
void run_vector(const CpuOp& op, const dpi_op_call& call) {
  (op.f->*Member)(Args(op.op, call));
}

template <auto Kernel, auto Args>
void run_plain(const CpuOp& op, const dpi_op_call& call) {
  Kernel(Args(op.op, call));
}

void run_ref(const CpuOp& op, const dpi_op_call& call) { form_of(op.op.kind).ref(op.op, call); }

void linear_part(const CpuOp& op, const dpi_op_call& call, OpPart part) {
  cpu::GemmWeights w = op.weights;
  w.scratch = call.scratch;
  w.part = part.index;
  w.parts = part.count;
  op.f->linear_packed(linear_args(op.op, call), w);
}

void run_linear(const CpuOp& op, const dpi_op_call& call) { linear_part(op, call, {}); }

void dense_part(const CpuOp& op, const dpi_op_call& call, OpPart part) {
  const kernels::DenseArgs a = dense_args(op.op, call);
  cpu::GemmCall c;
  c.part = part.index;
  c.parts = part.count;
  c.x = a.x.data;
  c.packed = op.packed.get();
  c.scratch = call.scratch;
  c.bias = a.bias.data;
  c.mul = a.mul.data;
  c.add = a.add.data;
  c.shared = a.shared.data;
  c.row_map = a.row_map;
  c.dst = a.dst.data;
  c.m = a.dst.rows;
  c.n = a.dst.dims.size();
  c.k = a.x.dims.size();
  c.ldx = a.x.row_stride;
  c.ldd = a.dst.row_stride;
  c.ld_mul = a.mul.row_stride;
  c.ld_add = a.add.row_stride;
  c.ld_shared = a.shared.row_stride;
  c.segments = a.attrs.segments;
  c.n_segments = a.attrs.n_segments;
  c.p[0] = a.p0.data;
  c.p[1] = a.p1.data;
  c.p[2] = a.p2.data;
  op.weights.gemm(c);
}

void run_dense(const CpuOp& op, const dpi_op_call& call) { dense_part(op, call, {}); }

void run_recurrent(const CpuOp& op, const dpi_op_call& call) {
  const kernels::Dims input = op.op.param(0).dims;
  const auto* packed = static_cast<const float*>(op.packed.get());
  op.f->recurrent_packed(recurrent_args(op.op, call),
                         {packed, packed + op.f->gemm_packed_floats(input.d[0], input.d[1])});
}

void run_linear_once(const CpuOp& op, const dpi_op_call& call) {
  op.f->linear_once(linear_args(op.op, call), static_cast<const float*>(op.packed.get()));
}

void run_linear_positions(const CpuOp& op, const dpi_op_call& call) {
  op.f->linear_positions(linear_args(op.op, call), op.weights);
}

/// Functions of one kind. The vector form is taken where it accepts the op (`refusal`), else the plain one.
struct CpuForm {
  OpKind kind;
  CpuRun vector = nullptr;
  CpuRun plain = nullptr;
  const char* plain_name = "ref";
};

using F = cpu::Functions;

// One line per kind, in the order of OpKind.
constexpr std::array<CpuForm, kOpCount> kForms = {{
    {OpKind::kInput},
    {OpKind::kConst},
    {OpKind::kEmbed, run_vector<&F::embed, embed_args>},
    {OpKind::kMask, nullptr, run_plain<cpu::mask, mask_args>, "cpu"},
    {OpKind::kLinear, run_linear},
    {OpKind::kMatMul, run_vector<&F::matmul, matmul_args>},
    {OpKind::kBinary, run_vector<&F::binary, binary_args>},
    {OpKind::kUnary, run_vector<&F::unary, unary_args>},
    {OpKind::kLayerNorm, run_vector<&F::layer_norm, layer_norm_args>},
    {OpKind::kSoftmax, run_vector<&F::softmax, softmax_args>, run_ref},
    {OpKind::kReduce, run_vector<&F::reduce, reduce_args>},
    {OpKind::kConcat, run_vector<&F::concat, concat_args>},
    {OpKind::kView, run_vector<&F::view, view_args>},
    {OpKind::kRecurrent, run_recurrent},
    {OpKind::kBroadcastRows, run_vector<&F::broadcast_rows, broadcast_rows_args>},
    {OpKind::kMultiLookup, run_vector<&F::multi_lookup, multi_lookup_args>, run_ref},
    {OpKind::kDense, run_dense},
    {OpKind::kElementwise, run_vector<&F::elementwise, elementwise_args>},
    {OpKind::kCrossV1, run_vector<&F::cross_v1, cross_v1_args>},
    {OpKind::kCrossV1Closed, run_vector<&F::cross_v1_closed, cross_v1_closed_args>},
    {OpKind::kFm, run_vector<&F::fm, fm_args>},
    {OpKind::kTail, run_vector<&F::tail, tail_args>},
    {OpKind::kWhere, run_vector<&F::where, where_args>},
    {OpKind::kTopK, run_vector<&F::top_k, top_k_args>},
    {OpKind::kGather, run_vector<&F::gather, gather_args>},
    {OpKind::kCoAction, run_vector<&F::co_action, co_action_args>},
    {OpKind::kAttention, run_vector<&F::attention, attention_args>},
    {OpKind::kCin, run_vector<&F::cin, cin_args>},
}};

#ifndef DPI_SANITIZED  // where g++ takes no address for a constant
constexpr bool is_complete() {
  for (size_t i = 0; i < kForms.size(); ++i) {
    const bool runs = kForms[i].vector != nullptr || kForms[i].plain != nullptr;
    if (kForms[i].kind != static_cast<OpKind>(i) || runs != is_executed(kForms[i].kind)) return false;
  }
  return true;
}
static_assert(is_complete(), "a kind has no line, or its line is out of order");
#endif

/// Why the vector form does not take the op; empty when it does.
std::string refusal(const CpuOp& op) {
  if (op.op.kind == OpKind::kMultiLookup) {
    const auto& attrs = op.op.as<kernels::MultiLookupAttrs>();
    const int64_t spare = cpu::spare_floats(attrs, !is_absent(op.op.output(0)), [&op](int32_t table) {
      return op.op.tables[static_cast<size_t>(table)].dim;
    });
    if (!op.f->multi_lookup_fits(attrs, spare))
      return "a pooled row, the FM sum or the channels are wider than the tile buffers";
  }
  if (op.op.kind == OpKind::kSoftmax) {
    kernels::SoftmaxArgs a;
    a.attrs = op.op.as<kernels::SoftmaxAttrs>();
    a.x.dims = op.op.input(0).dims;
    a.mask.dims = op.op.input(1).dims;
    if (!cpu::softmax_is_plain(a)) return "the axis is not the last, or the mask has not all of it";
  }
  return {};
}

Status hold_packed(CpuOp& op, size_t bytes) {
  op.packed = take_weight_block(bytes);
  if (op.packed == nullptr) return {Code::kOutOfMemory, "no memory for packed weights"};
  op.packed_bytes = weight_block_bytes(bytes);
  return ok_status();
}

/// [n, k], row-major.
struct Matrix {
  const float* data;
  int64_t n, k;
};

/// gemm_pack of each, one behind the other.
Status pack_all(CpuOp& op, const std::vector<Matrix>& matrices) {
  int64_t size = 0;
  for (const Matrix& m : matrices) size += op.f->gemm_packed_floats(m.n, m.k);
  DPI_RETURN_IF_ERROR(hold_packed(op, static_cast<size_t>(size) * sizeof(float)));
  auto* to = static_cast<float*>(op.packed.get());
  for (const Matrix& m : matrices) {
    op.f->gemm_pack(m.data, m.n, m.k, to);
    to += op.f->gemm_packed_floats(m.n, m.k);
  }
  return ok_status();
}

/// The scratch of a call, in whole cache lines.
size_t whole_lines(int64_t floats) { return (static_cast<size_t>(floats) * sizeof(float) + 63) / 64 * 64; }

/// Columns [begin, end) of the weight.
std::vector<float> columns_of(const kernels::Param& w, int64_t begin, int64_t end) {
  const int64_t in = w.dims.at(-1);
  std::vector<float> columns;
  for (int64_t o = 0; o < w.dims.at(-2); ++o)
    columns.insert(columns.end(), w.data + o * in + begin, w.data + o * in + end);
  return columns;
}

Status pack_once(CpuOp& op) {
  const kernels::Param w = op.op.param(0);
  const int64_t n = w.dims.at(-2), in = op.op.input(0).dims.at(-1), all = w.dims.at(-1);
  const std::vector<float> positions = columns_of(w, 0, in), once = columns_of(w, in, all);
  DPI_RETURN_IF_ERROR(pack_all(op, {{positions.data(), n, in}, {once.data(), n, all - in}}));
  op.op.drop_param(0);
  op.run = run_linear_once;
  op.scratch_per_call = whole_lines(cpu::kOnceRows * n);
  return ok_status();
}

/// Why a product stays in fp32 although narrow weights are asked for; null = it does not. Narrow layers gain
/// nothing by it (400 -> 16 in bf16: 1.0 times), and a score hangs on few terms of them.
const char* refusal_of(cpu::Weights weights, const kernels::Param& w) {
  constexpr int64_t kNarrow = 16;
  if (w.dims.at(-2) <= kNarrow) return "16 columns and fewer gain nothing";
  const int64_t size = w.dims.size();
  if (weights == cpu::Weights::kBf16)
    return cpu::bf16_holds_all(w.data, size) ? nullptr : "a weight is beyond its largest value";
  if (w.dims.at(-1) > cpu::kInt8Depth) return "sums of so many terms do not fit";
  return cpu::all_finite(w.data, size) ? nullptr : "a weight is not finite";
}

/// A product with its form of weights: what of Functions belongs together.
struct ProductForm {
  int64_t (*words)(int64_t n, int64_t k);
  void (*pack)(const float* weight, int64_t n, int64_t k, uint32_t* packed);
  int64_t (*scratch)(int64_t rows, int64_t k);
  void (*gemm)(const cpu::GemmCall& c);
};

ProductForm product_form(cpu::Weights weights, const F& f) {
  if (weights == cpu::Weights::kBf16)
    return {f.gemm_bf16_words, f.gemm_bf16_pack, f.gemm_bf16_scratch, f.gemm_bf16};
  return {f.gemm_int8_words, f.gemm_int8_pack, f.gemm_int8_scratch, f.gemm_int8};
}

/// Packs `groups` weights [n, k] one behind the other, `words` (as many as of float32) each.
template <class Word>
Status pack_groups(CpuOp& op, int64_t groups, int64_t words,
                   void (*pack)(const float*, int64_t, int64_t, Word*)) {
  const kernels::Param w = op.op.param(0);
  const int64_t n = w.dims.at(-2), k = w.dims.at(-1);
  DPI_RETURN_IF_ERROR(hold_packed(op, static_cast<size_t>(groups * words) * sizeof(Word)));
  op.weights.group_bytes = words * static_cast<int64_t>(sizeof(Word));
  op.weights.packed = op.packed.get();
  for (int64_t g = 0; g < groups; ++g)
    pack(w.data + g * n * k, n, k, static_cast<Word*>(op.packed.get()) + g * words);
  op.op.drop_param(0);
  return ok_status();
}

const char* name_of(cpu::Weights weights) { return weights == cpu::Weights::kBf16 ? "bf16" : "int8"; }

/// Products that have no form with narrow weights.
void refuse_narrow(CpuOp& op, cpu::Weights weights) {
  if (weights != cpu::Weights::kF32)
    op.report += std::string("; refused: ") + name_of(weights) + ": no such form";
}

/// Products of n columns that multiply one packed weight after the other can be cut.
void allow_parts(CpuOp& op, int64_t n) {
  const CpuRunPart part = op.run == run_dense ? dense_part : op.run == run_linear ? linear_part : nullptr;
  if (part == nullptr) return;
  op.run_part = part;
  op.parts = static_cast<int32_t>(std::max<int64_t>(op.f->gemm_panels(n), 1));
}

Status pack_product(CpuOp& op, cpu::Weights weights) {
  if (op.op.kind == OpKind::kLinear && !(is_absent(op.op.input(1)) && is_absent(op.op.input(2)))) {
    refuse_narrow(op, weights);
    return pack_once(op);
  }
  int64_t groups = 1;
  const bool by_place = op.op.kind == OpKind::kLinear && !is_absent(op.op.input(3));
  if (by_place) {
    op.run = run_linear_positions;
    const kernels::Dims w = op.op.param(0).dims;
    op.scratch_per_call = whole_lines(cpu::kPlaceRows * (w.at(-2) + w.at(-1)));
  }
  if (op.op.kind == OpKind::kLinear) {
    const auto& attrs = op.op.as<kernels::LinearAttrs>();
    if (attrs.axis == kernels::LinearAxis::kField) {
      op.run = run_vector<&cpu::Functions::linear, linear_args>;
      return ok_status();
    }
    groups = attrs.groups;
  }
  const kernels::Param w = op.op.param(0);
  const int64_t n = w.dims.at(-2), k = w.dims.at(-1);
  allow_parts(op, n);
  const bool plain = weights == cpu::Weights::kF32;
  const char* const refused = plain ? nullptr : refusal_of(weights, w);
  if (refused != nullptr) op.report += std::string("; refused: ") + name_of(weights) + ": " + refused;
  if (plain || refused != nullptr) {
    op.weights.gemm = op.f->gemm;
    return pack_groups(op, groups, op.f->gemm_packed_floats(n, k), op.f->gemm_pack);
  }
  const ProductForm form = product_form(weights, *op.f);
  op.weights.gemm = form.gemm;
  if (by_place)
    op.scratch_per_call += static_cast<size_t>(form.scratch(cpu::kPlaceRows, k) + 63) / 64 * 64;
  else
    op.scratch = form.scratch;
  op.product_k = k;
  op.product_rows = std::max<int64_t>(op.op.output(0).dims.size() / (groups * n), 1);
  op.report +=
      std::string(form.scratch(1, k) > 0 ? ", weights and inputs in " : ", weights in ") + name_of(weights);
  return pack_groups(op, groups, form.words(n, k), form.pack);
}

Status pack_recurrent(CpuOp& op) {
  const kernels::Param input = op.op.param(0), hidden = op.op.param(1);
  const int64_t in = input.dims.d[1], m = hidden.dims.d[1];
  std::vector<Matrix> matrices = {{input.data, 3 * m, in}};
  if (op.op.as<kernels::RecurrentAttrs>().reset == kernels::ResetGate::kBefore) {
    matrices.push_back({hidden.data, 2 * m, m});
    matrices.push_back({hidden.data + 2 * m * m, m, m});
  } else {
    matrices.push_back({hidden.data, 3 * m, m});
  }
  DPI_RETURN_IF_ERROR(pack_all(op, matrices));
  op.op.drop_param(0);
  op.op.drop_param(1);
  op.scratch_per_call = whole_lines(op.f->recurrent_scratch_floats(op.op.input(0).dims.d[0], in, m));
  return ok_status();
}

Status pack(CpuOp& op, cpu::Weights weights) {
  if (op.op.kind == OpKind::kAttention) {
    op.scratch_per_call = whole_lines(op.f->attention_scratch_floats(op.op.as<kernels::AttentionAttrs>()));
  }
  if (op.op.kind == OpKind::kRecurrent) {
    refuse_narrow(op, weights);
    return pack_recurrent(op);
  }
  const bool product = op.op.kind == OpKind::kLinear || op.op.kind == OpKind::kDense;
  return product ? pack_product(op, weights) : ok_status();
}

}  // namespace

size_t scratch_bytes(const CpuOp& op, int64_t rows) {
  if (op.scratch == nullptr) return op.scratch_per_call;
  const auto bytes = static_cast<size_t>(op.scratch(rows * op.product_rows, op.product_k));
  return (bytes + 63) / 64 * 64;
}

Status choose(CpuOp& op, cpu::Isa isa, cpu::Weights weights) {
  op.f = &cpu::functions(isa);
  const CpuForm& c = kForms[static_cast<size_t>(op.op.kind)];
  const std::string name = std::string("cpu.") + cpu::isa_name(isa);
  const std::string reason = c.vector == nullptr ? "has no vector form" : refusal(op);
  if (reason.empty()) {
    op.run = c.vector;
    op.report = "chosen: " + name;
    return pack(op, weights);
  }
  if (c.plain == nullptr) return unsupported("op '" + op.op.name + "': " + name + ": " + reason);
  op.run = c.plain;
  op.report = std::string("chosen: ") + c.plain_name + "; refused: " + name + ": " + reason;
  return ok_status();
}

}  // namespace dpi::backend
