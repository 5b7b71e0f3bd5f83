// The input-first lookup, for comparison with the fused one: as in existing frameworks the work is dealt out
// by input, a launch per table, a thread per bag, so that neighbouring threads read and write rows far apart.
// A thread owns its row's sums for the length of a launch, and launches follow one another: no atomics.
#include "kernels/cuda/lookup/launch.hpp"
#include "kernels/cuda/lookup/vector.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kThreads = 128;

/// One field. sums: [rows, fm_dim + 1], the sum of the vectors so far and then the pairs; null when the field
/// is not in FM.
struct InputFirst {
  EmbedAttrs embed;
  Bags bags;
  TableView table;
  Tensor out;  // data null: not written
  float* sums;
  float* chan;  // data null: not a scalar field
  int64_t chan_stride;
  LookupFaults* faults;
  int32_t out_col;
  int32_t first_channel;
  int32_t count;  // columns read
  int32_t fm_dim;
  int32_t input;
};

__device__ void refuse(const InputFirst& f, int64_t row) {
  if (f.faults == nullptr) return;
  atomicAdd(&f.faults->count, 1ull);
  const uint64_t place = static_cast<uint64_t>(row) << 20 | static_cast<uint32_t>(f.input);
  atomicMin(&f.faults->first, static_cast<unsigned long long>(place));
}

/// The row's bag, empty when its offsets cannot be.
__device__ Bag checked_bag(const InputFirst& f, int64_t row, int64_t rows) {
  Bag bag = {f.bags.ids + row * f.bags.stride, nullptr, 1};
  if (f.bags.offsets != nullptr) {
    const int32_t begin = f.bags.offsets[row];
    const int32_t end = f.bags.offsets[row + 1];
    const bool sound = begin >= 0 && begin <= end && end <= f.bags.offsets[rows];
    if (!sound) refuse(f, row);
    bag = {f.bags.ids, nullptr, 0};
    if (sound)
      bag = {f.bags.ids + begin, f.bags.weights != nullptr ? f.bags.weights + begin : nullptr, end - begin};
  }
  for (int64_t i = 0; f.faults != nullptr && i < bag.n; ++i) {
    if (!id_in_table(f.table, bag.ids[i])) refuse(f, row);
  }
  return bag;
}

__device__ float column_of(const InputFirst& f, const Bag& bag, int32_t k) {
  if (f.embed.pooling == Pooling::kSingle) return bag.n > 0 ? element_at(f.table, bag.ids[0], k) : 0.0f;
  return pooled<1>(f.embed, bag, f.table, k).v[0];
}

__device__ void write_out(const Tensor& out, int64_t at, float v) {
  if (out.dtype == DType::kF32) {
    out.data[at] = v;
  } else {
    reinterpret_cast<uint16_t*>(out.data)[at] = static_cast<uint16_t>(narrow_bits(out.dtype, v));
  }
}

/// sums: of the row.
__device__ void add_to_sums(float* sums, int32_t fm_dim, int32_t k, float v) {
  sums[fm_dim] = fmaf(v, sums[k], sums[fm_dim]);
  sums[k] += v;
}

__global__ void __launch_bounds__(kThreads) input_first_kernel(const InputFirst f, int64_t rows) {
  const int64_t row = global_thread();
  if (row >= rows) return;
  const Bag bag = checked_bag(f, row, rows);
  for (int32_t k = 0; k < f.count; ++k) {
    const float v = column_of(f, bag, k);
    if (f.out.data != nullptr) write_out(f.out, row * f.out.row_stride + f.out_col + k, v);
    if (f.sums != nullptr) add_to_sums(f.sums + row * (f.fm_dim + 1), f.fm_dim, k, v);
    if (f.chan != nullptr) f.chan[row * f.chan_stride + f.first_channel + k] += v;
  }
}

struct NumericFirst {
  Tensor x;
  Tensor out;
  const float* vec;
  const float* coef;
  float* sums;
  float* chan;
  int64_t chan_stride;
  int32_t out_col;
  int32_t dim;
  int32_t fm_dim;
  int32_t n_channels;
};

__global__ void __launch_bounds__(kThreads) numeric_first_kernel(const NumericFirst f, int64_t rows) {
  const int64_t row = global_thread();
  if (row >= rows) return;
  const float* x = f.x.data + row * f.x.row_stride;
  for (int32_t k = 0; k < f.dim; ++k) {
    const float v = f.vec != nullptr ? x[0] * f.vec[k] : x[k];
    if (f.out.data != nullptr) write_out(f.out, row * f.out.row_stride + f.out_col + k, v);
    if (f.sums != nullptr) add_to_sums(f.sums + row * (f.fm_dim + 1), f.fm_dim, k, v);
  }
  for (int32_t c = 0; f.coef != nullptr && c < f.n_channels; ++c)
    f.chan[row * f.chan_stride + c] += x[0] * f.coef[c];
}

/// Before the fields: sums and channels at their start. After them: FM into its channel.
struct Ends {
  float* sums;
  float* chan;
  const float* bias;
  int64_t chan_stride;
  int32_t fm_dim;
  int32_t fm_channel;
  int32_t n_channels;
};

__global__ void __launch_bounds__(kThreads) input_first_begin_kernel(const Ends e, int64_t rows) {
  const int64_t row = global_thread();
  if (row >= rows) return;
  for (int32_t c = 0; c < e.n_channels; ++c)
    e.chan[row * e.chan_stride + c] = e.bias != nullptr ? e.bias[c] : 0.0f;
  for (int32_t k = 0; e.sums != nullptr && k <= e.fm_dim; ++k) e.sums[row * (e.fm_dim + 1) + k] = 0;
}

__global__ void __launch_bounds__(kThreads) input_first_fm_kernel(const Ends e, int64_t rows) {
  const int64_t row = global_thread();
  if (row >= rows) return;
  e.chan[row * e.chan_stride + e.fm_channel] += e.sums[row * (e.fm_dim + 1) + e.fm_dim];
}

class Launches {
 public:
  Launches(const MultiLookupArgs& a, LookupFaults* faults, float* sums, Stream stream)
      : a_(a),
        faults_(faults),
        stream_(stream),
        channels_(a.chan.data != nullptr ? a.attrs.n_channels : 0),
        fm_(channels_ > 0 && a.attrs.fm_channel >= 0),
        sums_(fm_ ? sums : nullptr) {}

  int run() {
    Ends e = {sums_,
              a_.chan.data,
              a_.channel_bias.data,
              a_.chan.row_stride,
              a_.attrs.fm_dim,
              a_.attrs.fm_channel,
              channels_};
    if (channels_ > 0) start(input_first_begin_kernel, e);
    for (int32_t i = 0; i < a_.attrs.n_fields; ++i) field(a_.attrs.fields[i]);
    for (int32_t i = 0; i < a_.attrs.n_numerics; ++i) numeric(a_.attrs.numerics[i]);
    for (int32_t i = 0; channels_ > 0 && i < a_.attrs.n_scalars; ++i) scalar(a_.attrs.scalars[i]);
    if (fm_) start(input_first_fm_kernel, e);
    return code_;
  }

 private:
  template <class K, class F>
  void start(K kernel, const F& f) {
    if (code_ == 0)
      code_ = launch(kernel, dim3(blocks_for(a_.rows, kThreads, 0x7fffffff)), dim3(kThreads), stream_, f,
                     a_.rows);
  }

  InputFirst looked_up(const EmbedAttrs& embed, int32_t input, int32_t table) const {
    InputFirst f = {};
    f.embed = embed;
    f.bags = a_.inputs[input].bags;
    f.table = a_.tables[table];
    f.faults = faults_;
    f.input = input;
    f.fm_dim = a_.attrs.fm_dim;
    f.count = f.table.dim;
    return f;
  }

  void field(const LookupField& field) {
    InputFirst f = looked_up(field.embed, field.input, field.table);
    f.out_col = field.out_col;
    if (field.out_col >= 0) f.out = a_.out;
    if (field.fm) f.sums = sums_;
    if (f.out.data != nullptr || f.sums != nullptr) start(input_first_kernel, f);
  }

  void scalar(const ScalarField& field) {
    InputFirst f = looked_up(field.embed, field.input, field.table);
    f.chan = a_.chan.data;
    f.chan_stride = a_.chan.row_stride;
    f.first_channel = field.first_channel;
    f.count = field.count;
    start(input_first_kernel, f);
  }

  void numeric(const NumericField& field) {
    NumericFirst f = {};
    f.x = a_.inputs[field.input].tensor;
    if (field.out_col >= 0) f.out = a_.out;
    f.out_col = field.out_col;
    f.dim = field.dim;
    f.fm_dim = a_.attrs.fm_dim;
    f.n_channels = channels_;
    f.chan = a_.chan.data;
    f.chan_stride = a_.chan.row_stride;
    if (field.vec >= 0) f.vec = a_.numeric_vec.data + field.vec;
    if (field.coef >= 0 && channels_ > 0) f.coef = a_.numeric_coef.data + field.coef;
    if (field.fm) f.sums = sums_;
    start(numeric_first_kernel, f);
  }

  const MultiLookupArgs& a_;
  LookupFaults* faults_;
  Stream stream_;
  int32_t channels_;
  bool fm_;
  float* sums_;
  int code_ = 0;
};

}  // namespace

int64_t input_first_floats(const MultiLookupAttrs& attrs, int64_t rows) {
  return attrs.fm_channel >= 0 && attrs.n_channels > 0 ? rows * (int64_t{attrs.fm_dim} + 1) : 0;
}

int start_input_first(const MultiLookupArgs& a, LookupFaults* faults, float* sums, Stream stream) {
  return Launches(a, faults, sums, stream).run();
}

}  // namespace dpi::kernels::cuda
