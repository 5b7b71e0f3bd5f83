// The rarer ops with sums, one thread per output (softmax: per slice). Sums are blocked, so that
// long ones stay exact enough.
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/common/rows.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int64_t kMaxBlocks = 8192;

dim3 grid_for(int64_t items) { return dim3(blocks_for(items, kThreads, kMaxBlocks)); }

__global__ void __launch_bounds__(kThreads) embed_kernel(const EmbedArgs a) {
  const int64_t n = size_of(a.dst.dims);
  for (int64_t i = global_thread(); i < a.dst.rows * n; i += total_threads()) {
    const int64_t r = i / n;
    const int64_t column = i % n % a.table.dim;
    const Bag bag = bag_of(a.ids, r);
    float y;
    if (a.attrs.pooling == Pooling::kNone) {
      bool padding = false;
      const int32_t id =
          laid_out_id(bag, a.attrs.pad_side, a.attrs.max_len, a.attrs.pad_id, i % n / a.table.dim, &padding);
      y = element_at(a.table, id, column);
    } else {
      y = pooled<1>(a.attrs, bag, a.table, column).v[0];
    }
    row_of(a.dst, r)[i % n] = y;
  }
}

__device__ bool mask_at(const MaskArgs& a, int64_t r, int64_t t) {
  if (a.attrs.rule == MaskRule::kNonzero) {
    const int64_t dim = a.x.dims.d[a.x.dims.rank - 1];
    const float* x = row_of(a.x, r) + t * dim;
    float sum = 0;
    for (int64_t k = 0; k < dim; ++k) sum = __fadd_rn(sum, x[k]);
    return sum != 0;
  }
  bool padding = false;
  const int32_t id =
      laid_out_id(bag_of(a.ids, r), a.attrs.pad_side, a.attrs.max_len, a.attrs.pad_id, t, &padding);
  if (a.attrs.rule == MaskRule::kId) return id != a.attrs.pad_id;
  return a.attrs.rule == MaskRule::kNone || !padding;
}

__global__ void __launch_bounds__(kThreads) mask_kernel(const MaskArgs a) {
  const int64_t n = size_of(a.dst.dims);
  for (int64_t i = global_thread(); i < a.dst.rows * n; i += total_threads())
    row_of(a.dst, i / n)[i % n] = mask_at(a, i / n, i % n) ? 1.0f : 0.0f;
}

struct LinearWork {
  Tensor x;
  Tensor dst;
  const float* weight;
  const float* bias;
  int64_t in;
  int64_t out;
  int64_t groups;
  int64_t x_groups;
  int64_t inner;  // kField: elements behind the contracted axis; kLast: 1
  Tensor once;
  int64_t n_once;  // columns of `once` behind those of x
  Tensor shared;   // row row_map[r] (row_map null: r) is added to row r
  const int32_t* row_map;
  Tensor positions;  // a number per slice; where it is 0, so is the slice of dst
};

/// kLast: dst[i, g, o]; kField (inner > 0, groups 1): dst[i, o, d].
__global__ void __launch_bounds__(kThreads) linear_kernel(const LinearWork w, bool by_field) {
  const int64_t n = size_of(w.dst.dims);
  for (int64_t i = global_thread(); i < w.dst.rows * n; i += total_threads()) {
    const int64_t r = i / n;
    const int64_t flat = i % n;
    const int64_t o = by_field ? flat / w.inner % w.out : flat % w.out;
    const int64_t g = by_field ? 0 : flat / w.out % w.groups;
    const int64_t outer = by_field ? flat / (w.inner * w.out) : flat / (w.out * w.groups);
    if (w.positions.data != nullptr && row_of(w.positions, r)[outer] == 0) {
      row_of(w.dst, r)[flat] = 0;
      continue;
    }
    const float* x = row_of(w.x, r);
    x += by_field ? outer * w.in * w.inner + flat % w.inner
                  : (outer * w.x_groups + (w.x_groups > 1 ? g : 0)) * w.in;
    const float* weight = w.weight + (g * w.out + o) * (w.in + w.n_once);
    Sum sum;
    for (int64_t k = 0; k < w.in; ++k) sum.add_product(weight[k], x[k * w.inner]);
    for (int64_t k = 0; k < w.n_once; ++k) sum.add_product(weight[w.in + k], row_of(w.once, r)[k]);
    const int64_t from = w.row_map != nullptr ? w.row_map[r] : r;
    const float shared = w.shared.data != nullptr ? row_of(w.shared, from)[flat] : 0.0f;
    row_of(w.dst, r)[flat] = sum.value() + (w.bias != nullptr ? w.bias[g * w.out + o] : 0.0f) + shared;
  }
}

struct MatMulWork {
  MatMulAttrs attrs;
  Tensor a;
  Tensor b;
  Tensor dst;
  Dims lead_a;
  Dims lead_b;
  Dims lead;
  int64_t m, n, depth, a_columns, b_columns, a_size, b_size;
};

__global__ void __launch_bounds__(kThreads) matmul_kernel(const MatMulWork w) {
  const int64_t total = size_of(w.dst.dims);
  for (int64_t flat = global_thread(); flat < w.dst.rows * total; flat += total_threads()) {
    const int64_t r = flat / total;
    const int64_t e = flat % total;
    const int64_t lead = e / (w.m * w.n);
    const int64_t i = e / w.n % w.m;
    const int64_t j = e % w.n;
    const float* a = row_of(w.a, r) + broadcast_offset(w.lead, lead, w.lead_a) * w.a_size;
    const float* b = row_of(w.b, r) + broadcast_offset(w.lead, lead, w.lead_b) * w.b_size;
    Sum sum;
    for (int64_t k = 0; k < w.depth; ++k) {
      sum.add_product(w.attrs.trans_a != 0 ? a[k * w.a_columns + i] : a[i * w.a_columns + k],
                      w.attrs.trans_b != 0 ? b[j * w.b_columns + k] : b[k * w.b_columns + j]);
    }
    row_of(w.dst, r)[e] = w.attrs.alpha * sum.value();
  }
}

/// Computes the entries of a product on one side of the diagonal.
__global__ void __launch_bounds__(kThreads) matmul_part_kernel(const MatMulWork w) {
  const int64_t total = size_of(w.dst.dims);
  for (int64_t flat = global_thread(); flat < w.dst.rows * total; flat += total_threads()) {
    const int64_t r = flat / total;
    int64_t i = 0, j = 0;
    part_entry(w.attrs.part, w.m, flat % total, &i, &j);
    const float* a = row_of(w.a, r);
    const float* b = row_of(w.b, r);
    Sum sum;
    for (int64_t k = 0; k < w.depth; ++k) {
      sum.add_product(w.attrs.trans_a != 0 ? a[k * w.a_columns + i] : a[i * w.a_columns + k],
                      w.attrs.trans_b != 0 ? b[j * w.b_columns + k] : b[k * w.b_columns + j]);
    }
    row_of(w.dst, r)[flat % total] = w.attrs.alpha * sum.value();
  }
}

/// Sums, count and maximum from one pass over the axis.
struct Collected {
  Sum sum;
  Sum sumsq;
  Sum count;
  float max = 0;
  bool any = false;

  __device__ void add(float x, float m) {
    sum.add_product(m, x);
    sumsq.add_product(m * x, x);
    count.add(m);
    if (m == 0) return;
    if (!any || !(x <= max)) max = x;  // keeps a NaN
    any = true;
  }
  __device__ float result(const ReduceAttrs& a) const {
    switch (a.kind) {
      case ReduceKind::kMean:
        return count.value() == 0 ? a.empty : sum.value() / (count.value() + a.eps);
      case ReduceKind::kMax:
        return any ? max : a.empty;
      case ReduceKind::kSumSq:
        return sumsq.value();
      default:
        return sum.value();
    }
  }
};

__global__ void __launch_bounds__(kThreads) reduce_kernel(const ReduceArgs a, const AxisView v) {
  const int64_t n = v.outer * v.inner;
  for (int64_t flat = global_thread(); flat < a.dst.rows * n; flat += total_threads()) {
    const int64_t r = flat / n;
    const int64_t o = flat % n / v.inner;
    const int64_t k = flat % n % v.inner;
    const float* x = row_of(a.x, r) + o * v.n * v.inner + k;
    const float* mask = a.mask.data != nullptr ? row_of(a.mask, r) + o * v.n : nullptr;
    Collected c;
    for (int64_t i = 0; i < v.n; ++i) c.add(x[i * v.inner], mask != nullptr ? mask[i] : 1.0f);
    row_of(a.dst, r)[flat % n] = c.result(a.attrs);
  }
}

/// One slice along the axis. dst may be x: entry i is read just before it is written.
struct Slice {
  const SoftmaxArgs& a;
  const AxisView& v;
  bool prefix_mask;
  int64_t row;
  int64_t outer;
  int64_t inner;

  __device__ int64_t offset(int64_t i) const { return (outer * v.n + i) * v.inner + inner; }
  __device__ float mask(int64_t i) const {
    if (a.attrs.mask_mode == SoftmaxMask::kNone) return 1;
    const float* m = row_of(a.mask, row);
    return prefix_mask ? m[outer * v.n + i] : m[broadcast_offset(a.x.dims, offset(i), a.mask.dims)];
  }
  __device__ bool excluded(int64_t i) const {
    return a.attrs.mask_mode == SoftmaxMask::kNinf && mask(i) == 0;
  }
  __device__ float logit(int64_t i) const {
    const float x = row_of(a.x, row)[offset(i)];
    if (a.attrs.mask_mode == SoftmaxMask::kAdd) return fmaf(a.attrs.value, 1.0f - mask(i), x);
    if (a.attrs.mask_mode == SoftmaxMask::kReplace && mask(i) == 0) return a.attrs.value;
    return x;
  }
};

__device__ void softmax_slice(const Slice& s) {
  float top = -INFINITY;
  for (int64_t i = 0; i < s.v.n; ++i) {
    const float x = s.logit(i);
    if (!s.excluded(i) && !(x <= top)) top = x;  // keeps a NaN
  }
  Sum sum;
  for (int64_t i = 0; i < s.v.n; ++i) sum.add(s.excluded(i) ? 0.0f : expf(s.logit(i) - top));
  for (int64_t i = 0; i < s.v.n; ++i) {
    const float e = s.excluded(i) ? 0.0f : expf(s.logit(i) - top) / sum.value();
    row_of(s.a.dst, s.row)[s.offset(i)] = e;
  }
}

__global__ void __launch_bounds__(kThreads)
    softmax_kernel(const SoftmaxArgs a, const AxisView v, bool prefix_mask) {
  const int64_t n = v.outer * v.inner;
  for (int64_t i = global_thread(); i < a.dst.rows * n; i += total_threads())
    softmax_slice({a, v, prefix_mask, i / n, i % n / v.inner, i % n % v.inner});
}

}  // namespace

int embed(const EmbedArgs& a, Stream stream) {
  return launch(embed_kernel, grid_for(a.dst.rows * a.dst.dims.size()), dim3(kThreads), stream, a);
}

int mask(const MaskArgs& a, Stream stream) {
  return launch(mask_kernel, grid_for(a.dst.rows * a.dst.dims.size()), dim3(kThreads), stream, a);
}

int linear(const LinearArgs& a, Stream stream) {
  const bool by_field = a.attrs.axis == LinearAxis::kField;
  LinearWork w = {};
  w.x = a.x;
  w.dst = a.dst;
  w.weight = a.weight.data;
  w.bias = a.bias.data;
  w.in = a.x.dims.at(by_field ? -2 : -1);
  w.out = a.dst.dims.at(by_field ? -2 : -1);
  w.groups = a.attrs.groups;
  w.x_groups = a.attrs.groups > 1 ? a.x.dims.at(-2) : 1;
  w.inner = by_field ? a.dst.dims.at(-1) : 1;
  w.once = a.once;
  w.n_once = a.once.data != nullptr ? a.once.dims.size() : 0;
  w.shared = a.shared;
  w.row_map = a.row_map;
  w.positions = a.positions;
  return launch(linear_kernel, grid_for(a.dst.rows * a.dst.dims.size()), dim3(kThreads), stream, w, by_field);
}

int matmul(const MatMulArgs& a, Stream stream) {
  MatMulWork w = {};
  w.attrs = a.attrs;
  w.a = a.a;
  w.b = a.b;
  w.dst = a.dst;
  w.lead_a = a.a.dims;
  w.lead_b = a.b.dims;
  w.lead = a.dst.dims;
  w.lead_a.rank -= 2;
  w.lead_b.rank -= 2;
  w.lead.rank -= 2;
  const bool part = a.attrs.part != MatMulPart::kAll;
  w.m = part ? a.a.dims.at(a.attrs.trans_a != 0 ? -1 : -2) : a.dst.dims.at(-2);
  w.n = part ? w.m : a.dst.dims.at(-1);
  w.depth = a.attrs.trans_a != 0 ? a.a.dims.at(-2) : a.a.dims.at(-1);
  w.a_columns = a.a.dims.at(-1);
  w.b_columns = a.b.dims.at(-1);
  w.a_size = a.a.dims.at(-2) * w.a_columns;
  w.b_size = a.b.dims.at(-2) * w.b_columns;
  if (part)
    return launch(matmul_part_kernel, grid_for(a.dst.rows * a.dst.dims.size()), dim3(kThreads), stream, w);
  return launch(matmul_kernel, grid_for(a.dst.rows * a.dst.dims.size()), dim3(kThreads), stream, w);
}

int reduce(const ReduceArgs& a, Stream stream) {
  const AxisView v = AxisView(a.x.dims, a.attrs.axis);
  return launch(reduce_kernel, grid_for(a.dst.rows * v.outer * v.inner), dim3(kThreads), stream, a, v);
}

int softmax(const SoftmaxArgs& a, Stream stream) {
  const AxisView v = AxisView(a.x.dims, a.attrs.axis);
  bool prefix_mask = a.mask.dims.rank == a.attrs.axis + 1;
  for (int i = 0; prefix_mask && i <= a.attrs.axis; ++i) prefix_mask = a.mask.dims.d[i] == a.x.dims.d[i];
  return launch(softmax_kernel, grid_for(a.dst.rows * v.outer * v.inner), dim3(kThreads), stream, a, v,
                prefix_mask);
}

}  // namespace dpi::kernels::cuda
