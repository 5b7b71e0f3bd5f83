// All lookups of a model in one launch, output-first: the work is rows x output vectors of four columns,
// known before the launch and the same for every thread, whatever the tables are; one-hot and pooled fields,
// mixed dims and numerics lie side by side in it. Then each warp sums the channels of one row from rows that
// are in the cache by now: linear terms, derived scalars, numerics, FM.
//
// The fields travel as kernel arguments (32 KB since sm_70), so that nothing has to be copied before a
// launch.
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/common/rows.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kRowsPerBlock = kThreads / kWarp;

/// One field of any sort. Vectors: `bags` and `table`; numerics: x. first_unit: its first output vector.
struct Record {
  TableView table;
  const int32_t* ids;
  const int32_t* offsets;
  const float* data;  // weights of a bag, or the numeric values
  int64_t stride;     // of ids, or between numeric rows
  int64_t max_len;
  float eps;
  float empty;
  int32_t pad_id;
  int32_t out_col;  // scalars: first channel
  int32_t first_unit;
  int32_t width;  // columns, or channels of a scalar field
  int32_t vec;
  int32_t coef;
  int8_t pooling;
  int8_t mask;
  int8_t fm;
};

/// kCapacity: 32, 96 or kMaxLookupRecords; small models do not pay for large arguments. Records are ordered
/// fields, numerics, scalars.
template <int kCapacity>
struct Work {
  Record records[kCapacity];
  const float* vec;
  const float* coef;
  const float* bias;
  float* out;
  float* chan;
  int64_t out_stride;
  int64_t chan_stride;
  int64_t rows;
  int32_t n_fields;
  int32_t n_numerics;
  int32_t n_scalars;
  int32_t n_units;
  int32_t n_channels;
  int32_t fm_channel;
  int32_t fm_dim;
};
static_assert(sizeof(Work<kMaxLookupRecords>) <= 32764, "kernel arguments have 32764 bytes");

__device__ EmbedAttrs attrs_of(const Record& f) {
  EmbedAttrs a;
  a.pooling = static_cast<Pooling>(f.pooling);
  a.mask = static_cast<MaskRule>(f.mask);
  a.pad_id = f.pad_id;
  a.max_len = f.max_len;
  a.eps = f.eps;
  a.empty = f.empty;
  return a;
}

template <int N>
__device__ Pooled<N> field_columns(const Record& f, int64_t row, int64_t column) {
  if (static_cast<Pooling>(f.pooling) == Pooling::kSingle && f.offsets == nullptr)
    return columns_at<N>(f.table, f.ids[row * f.stride], column);
  return pooled<N>(attrs_of(f), bag_of({f.ids, f.offsets, f.data, f.stride, 0}, row), f.table, column);
}

__device__ float numeric_value(const Record& f, const float* vec, int64_t row, int64_t k) {
  const float* x = f.data + row * f.stride;
  return f.vec >= 0 ? x[0] * vec[f.vec + k] : x[k];
}

/// The last record whose first unit is not behind `unit`; records without columns own no unit.
template <class W>
__device__ int record_of(const W& w, int32_t unit) {
  int low = 0;
  int high = w.n_fields + w.n_numerics - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (w.records[middle].first_unit <= unit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

template <class W>
__device__ void write_unit(const W& w, int64_t row, int32_t unit) {
  const int index = record_of(w, unit);
  const Record& f = w.records[index];
  const int32_t column = (unit - f.first_unit) * 4;
  Pooled<4> v = {};
  if (index < w.n_fields) {
    v = field_columns<4>(f, row, column);
  } else {
    for (int k = 0; k < 4; ++k) {
      if (column + k < f.width) v.v[k] = numeric_value(f, w.vec, row, column + k);
    }
  }
  float* dst = w.out + row * w.out_stride + f.out_col + column;
  if (column + 4 <= f.width && (reinterpret_cast<uintptr_t>(dst) & 15u) == 0) {
    *reinterpret_cast<float4*>(dst) = {v.v[0], v.v[1], v.v[2], v.v[3]};
    return;
  }
  for (int k = 0; k < 4; ++k) {
    if (column + k < f.width) dst[k] = v.v[k];
  }
}

/// This lane's part of 0.5 |S|^2 - 0.5 sum of squares: columns lane, lane + 32, ...
template <class W>
__device__ float fm_part(const W& w, int64_t row, int lane) {
  float total = 0;
  for (int32_t k = lane; k < w.fm_dim; k += kWarp) {
    float s = 0;
    float squares = 0;
    for (int32_t i = 0; i < w.n_fields; ++i) {
      const Record& f = w.records[i];
      if (static_cast<FmRole>(f.fm) == FmRole::kNone) continue;
      const float e = field_columns<1>(f, row, k).v[0];
      s += e;
      if (static_cast<FmRole>(f.fm) == FmRole::kWithSquares) squares = fmaf(e, e, squares);
    }
    for (int32_t i = w.n_fields; i < w.n_fields + w.n_numerics; ++i) {
      const Record& f = w.records[i];
      if (static_cast<FmRole>(f.fm) != FmRole::kNone) s += numeric_value(f, w.vec, row, k);
    }
    total += 0.5f * (s * s - squares);
  }
  return total;
}

template <class W>
__device__ float channel_part(const W& w, int64_t row, int32_t c, int lane) {
  float sum = 0;
  const int32_t vectors = w.n_fields + w.n_numerics;
  for (int32_t i = vectors + lane; i < vectors + w.n_scalars; i += kWarp) {
    const Record& f = w.records[i];
    const int32_t k = c - f.out_col;
    if (k >= 0 && k < f.width) sum += field_columns<1>(f, row, k).v[0];
  }
  for (int32_t i = w.n_fields + lane; i < vectors; i += kWarp) {
    const Record& f = w.records[i];
    if (f.coef < 0) continue;
    const float x = f.data[row * f.stride];
    const float* coef = w.coef + f.coef;
    sum += fmaf(x * x, coef[w.n_channels + c], x * coef[c]);
  }
  return c == w.fm_channel ? sum + fm_part(w, row, lane) : sum;
}

/// Block: kThreads threads, kRowsPerBlock rows.
template <int kCapacity>
__global__ void __launch_bounds__(kThreads) lookup_kernel(const Work<kCapacity> w) {
  const int64_t first = int64_t{blockIdx.x} * kRowsPerBlock;
  const int thread = static_cast<int>(threadIdx.x);
  for (int32_t i = thread; i < kRowsPerBlock * w.n_units; i += kThreads) {
    const int64_t row = first + i / w.n_units;
    if (row < w.rows) write_unit(w, row, i % w.n_units);
  }
  const int64_t row = first + thread / kWarp;  // one for a whole warp
  if (row >= w.rows) return;
  const int lane = thread % kWarp;
  for (int32_t c = 0; c < w.n_channels; ++c) {
    const float sum = warp_sum(channel_part(w, row, c, lane));
    if (lane == 0) w.chan[row * w.chan_stride + c] = sum + (w.bias != nullptr ? w.bias[c] : 0.0f);
  }
}

void set_bags(Record* r, const EmbedAttrs& a, const Bags& bags, const TableView& table) {
  r->table = table;
  r->ids = bags.ids;
  r->offsets = bags.offsets;
  r->data = bags.weights;
  r->stride = bags.stride;
  r->max_len = a.max_len;
  r->eps = a.eps;
  r->empty = a.empty;
  r->pad_id = a.pad_id;
  r->pooling = static_cast<int8_t>(a.pooling);
  r->mask = static_cast<int8_t>(a.mask);
}

/// Gives the record its output vectors.
void set_columns(Record* r, int32_t out_col, int32_t width, int32_t* units) {
  r->first_unit = *units;
  r->out_col = out_col;
  r->width = width;
  if (out_col >= 0) *units += (width + 3) / 4;
}

void fill_records(const MultiLookupArgs& a, Record* next, int32_t* units) {
  for (int32_t i = 0; i < a.attrs.n_fields; ++i, ++next) {
    const LookupField& f = a.attrs.fields[i];
    set_bags(next, f.embed, a.inputs[f.input].bags, a.tables[f.table]);
    set_columns(next, a.out.data != nullptr ? f.out_col : -1, a.tables[f.table].dim, units);
    next->fm = static_cast<int8_t>(f.fm);
  }
  for (int32_t i = 0; i < a.attrs.n_numerics; ++i, ++next) {
    const NumericField& f = a.attrs.numerics[i];
    const Tensor& x = a.inputs[f.input].tensor;
    next->data = x.data;
    next->stride = x.row_stride;
    next->vec = f.vec;
    next->coef = f.coef;
    next->fm = static_cast<int8_t>(f.fm);
    set_columns(next, a.out.data != nullptr ? f.out_col : -1, f.dim, units);
  }
  for (int32_t i = 0; i < a.attrs.n_scalars; ++i, ++next) {
    const ScalarField& f = a.attrs.scalars[i];
    set_bags(next, f.embed, a.inputs[f.input].bags, a.tables[f.table]);
    next->out_col = f.first_channel;
    next->width = f.count;
  }
}

template <int kCapacity>
int start(const MultiLookupArgs& a, Stream stream) {
  Work<kCapacity> w = {};
  fill_records(a, w.records, &w.n_units);
  w.vec = a.numeric_vec.data;
  w.coef = a.numeric_coef.data;
  w.bias = a.channel_bias.data;
  w.out = a.out.data;
  w.chan = a.chan.data;
  w.out_stride = a.out.row_stride;
  w.chan_stride = a.chan.row_stride;
  w.rows = a.rows;
  w.n_fields = a.attrs.n_fields;
  w.n_numerics = a.attrs.n_numerics;
  w.n_scalars = a.attrs.n_scalars;
  w.n_channels = a.chan.data != nullptr ? a.attrs.n_channels : 0;
  w.fm_channel = a.attrs.fm_channel;
  w.fm_dim = a.attrs.fm_dim;
  const unsigned blocks = blocks_for(a.rows, kRowsPerBlock, 0x7fffffff);
  return launch(lookup_kernel<kCapacity>, dim3(blocks), dim3(kThreads), stream, w);
}

}  // namespace

int multi_lookup(const MultiLookupArgs& a, Stream stream) {
  const int32_t n = a.attrs.n_fields + a.attrs.n_numerics + a.attrs.n_scalars;
  if (n <= 32) return start<32>(a, stream);
  if (n <= 96) return start<96>(a, stream);
  return start<kMaxLookupRecords>(a, stream);
}

}  // namespace dpi::kernels::cuda
