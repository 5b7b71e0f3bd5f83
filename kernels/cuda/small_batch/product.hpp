// The Dense layers of the small-batch kernel: a warp multiplies 16 rows of an input in shared memory with 32
// columns of a weight over a slice of the depth; the sums of all slices are added in order, then the layer's
// epilogue runs. Weights arrive by asynchronous copies through a ring of stages per warp. The ring is filled
// ahead of use, across levels and barriers, since weights depend on no other value.
#pragma once

#include <type_traits>

#include "kernels/cuda/common/async_copy.hpp"
#include "kernels/cuda/common/wmma.hpp"
#include "kernels/cuda/small_batch/values.hpp"

namespace dpi::kernels::cuda::small_batch {

/// Element: of inputs and weights in memory; Product: of the tensor cores, void: plain float32.
template <Mode>
struct Math;
template <>
struct Math<Mode::kF32> {
  using Element = float;
  using Product = void;
};
template <>
struct Math<Mode::kF32Split> {
  using Element = float;
  using Product = Tf32Product;
};
template <>
struct Math<Mode::kTf32> {
  using Element = float;
  using Product = Tf32Product;
};
template <>
struct Math<Mode::kF16> {
  using Element = Half;
  using Product = F16Product;
};
template <>
struct Math<Mode::kBf16> {
  using Element = Bfloat16;
  using Product = Bf16Product;
};

/// Everything a warp needs to start copies of its weights.
struct StreamStart {
  WarpWeights weights;
  int32_t ring_at;
  int32_t stages;
};

/// From the program in global memory: shared memory may not have it yet.
__device__ inline StreamStart stream_start(const ThreadInfo& p, const Header& h) {
  return {h.streams[p.warp], h.ring_at, h.stages};
}

/// The blocks of weights of one warp, in the order in which it multiplies. All lanes call all functions.
template <Mode kMode>
class WeightStream {
 public:
  /// Starts the first copies.
  __device__ WeightStream(const ThreadInfo& p, const StreamStart& s, const char* weights)
      : next_(weights + int64_t{s.weights.begin} * 16),
        ring_(p.shared + s.ring_at + p.warp * s.stages * stage_bytes(kMode)),
        left_(s.weights.blocks),
        stages_(s.stages),
        lane_(p.lane) {
    for (int32_t i = 1; i < stages_; ++i) start_next();
  }

  /// Until what this thread copied before its first weights is there. Before the first take().
  __device__ void wait_for_older() const {
    if (stages_ >= 8) {
      wait_for_copies<7>();
    } else if (stages_ >= 6) {
      wait_for_copies<5>();
    } else if (stages_ >= 4) {
      wait_for_copies<3>();
    } else if (stages_ >= 3) {
      wait_for_copies<2>();
    } else {
      wait_for_copies<1>();
    }
  }

  /// The next block. Nobody reads the one before it any more: refill() then fills its stage.
  __device__ const char* take() {
    wait();
    __syncwarp();
    const char* block = ring_ + out_ * stage_bytes(kMode);
    out_ = out_ + 1 == stages_ ? 0 : out_ + 1;
    return block;
  }

  /// Once after each take(): later than the first reads of the block, which would wait behind the copy.
  __device__ void refill() { start_next(); }

 private:
  static constexpr int kChunks = block_bytes(kMode) / 16;
  static constexpr int kRowChunks = element_bytes(kMode);  // of 16 deep elements

  __device__ void start_next() {
    if (left_ > 0) {
      char* stage = ring_ + in_ * stage_bytes(kMode);
      DPI_UNROLL
      for (int i = 0; i < kChunks / kWarp; ++i) {
        const int chunk = i * kWarp + lane_;
        const int pad = kMode == Mode::kF32 ? 0 : chunk / kRowChunks;  // 16 bytes after each row
        copy16_async(stage + (chunk + pad) * 16, next_ + chunk * 16, 16);
      }
      next_ += block_bytes(kMode);
      --left_;
    }
    in_ = in_ + 1 == stages_ ? 0 : in_ + 1;
    end_copy_group();  // empty ones too: wait() counts them
  }

  /// Until the oldest block in flight is there. Compared one after another: a switch becomes an indirect
  /// jump, for which a table is read.
  __device__ void wait() const {
    if (stages_ >= 8) {
      wait_for_copies<6>();
    } else if (stages_ >= 6) {
      wait_for_copies<4>();
    } else if (stages_ >= 4) {
      wait_for_copies<2>();
    } else if (stages_ >= 3) {
      wait_for_copies<1>();
    } else {
      wait_for_copies<0>();
    }
  }

  const char* next_;
  char* ring_;
  int32_t left_;
  int32_t stages_;
  int32_t lane_;
  int32_t in_ = 0;
  int32_t out_ = 0;
};

/// Plain float32: a lane owns rows rg, rg + 4, rg + 8, rg + 12 and four columns.
template <Mode kMode>
__device__ void multiply_plain(const ThreadInfo& p, const Unit& u, float* patch, WeightStream<kMode>* w) {
  const int32_t rg = p.lane / 8;
  const int32_t cg = p.lane % 8 * 4;
  const float* x = shared_at<float>(p, u.x_at) + rg * u.pitch;
  float sum[4][4] = {};
  for (int32_t b = 0; b < u.blocks; ++b, x += kBlockDepth) {
    const float* block = reinterpret_cast<const float*>(w->take()) + cg;
    w->refill();
    DPI_UNROLL
    for (int k = 0; k < kBlockDepth; k += 4) {
      Pack<float, 4> a[4];
      DPI_UNROLL
      for (int i = 0; i < 4; ++i) a[i] = *reinterpret_cast<const Pack<float, 4>*>(x + i * 4 * u.pitch + k);
      DPI_UNROLL
      for (int j = 0; j < 4; ++j) {
        const auto c = *reinterpret_cast<const Pack<float, 4>*>(block + (k + j) * kTileColumns);
        DPI_UNROLL
        for (int i = 0; i < 4; ++i) {
          DPI_UNROLL
          for (int n = 0; n < 4; ++n) sum[i][n] = fmaf(a[i].v[j], c.v[n], sum[i][n]);
        }
      }
    }
  }
  DPI_UNROLL
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<Pack<float, 4>*>(patch + (rg + 4 * i) * kPatchPitch +
                                       cg) = {{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}};
}

/// Tensor cores: two tiles of 16 columns share the input's tile.
template <Mode kMode>
__device__ void multiply_tiles(const ThreadInfo& p, const Unit& u, float* patch, WeightStream<kMode>* w) {
  using Element = typename Math<kMode>::Element;
  using Product = typename Math<kMode>::Product;
  constexpr int kPitch = kBlockDepth + 16 / static_cast<int>(sizeof(Element));
  const Element* x = shared_at<Element>(p, u.x_at);
  TileC<Product> sum[2];
  for (auto& s : sum) fill(s, 0.0f);
  for (int32_t b = 0; b < u.blocks; ++b, x += kBlockDepth) {
    const auto* block = reinterpret_cast<const Element*>(w->take());
    DPI_UNROLL
    for (int k = 0; k < kBlockDepth; k += Product::kDepth) {
      TileA<Product> a;
      TileB<Product> c[2];
      load(a, x + k, u.pitch);
      DPI_UNROLL
      for (int half = 0; half < 2; ++half) load(c[half], block + half * kTileSide * kPitch + k, kPitch);
      if (k == 0) w->refill();
      DPI_UNROLL
      for (int half = 0; half < 2; ++half) multiply_add(sum[half], a, c[half]);
    }
  }
  for (int half = 0; half < 2; ++half) store(patch + half * kTileSide, sum[half], kPatchPitch);
}

/// Nearly float32 from tf32 tensor cores: three products per pair of operands, short sums.
template <Mode kMode>
__device__ void multiply_split(const ThreadInfo& p, const Unit& u, float* patch, WeightStream<kMode>* w) {
  constexpr int kPitch = kBlockDepth + 4;
  const float* x = shared_at<float>(p, u.x_at);
  TileC<Tf32Product> total[2];
  for (auto& t : total) fill(t, 0.0f);
  for (int32_t b = 0; b < u.blocks; ++b, x += kBlockDepth) {
    const auto* block = reinterpret_cast<const float*>(w->take());
    w->refill();
    TileC<Tf32Product> block_sum[2];
    for (auto& t : block_sum) fill(t, 0.0f);
    DPI_UNROLL
    for (int k = 0; k < kBlockDepth; k += Tf32Product::kDepth) {
      TileA<Tf32Product> high, low;
      load_split(high, low, x + k, u.pitch);
      DPI_UNROLL
      for (int half = 0; half < 2; ++half) {
        TileB<Tf32Product> w_high, w_low;
        load_split(w_high, w_low, block + half * kTileSide * kPitch + k, kPitch);
        multiply_add(block_sum[half], low, w_high);
        multiply_add(block_sum[half], high, w_low);
        multiply_add(block_sum[half], high, w_high);
      }
    }
    for (int half = 0; half < 2; ++half) add(total[half], block_sum[half]);
  }
  for (int half = 0; half < 2; ++half) store(patch + half * kTileSide, total[half], kPatchPitch);
}

template <Mode kMode>
__device__ void multiply_unit(const ThreadInfo& p, const Header& h, const Unit& from,
                              WeightStream<kMode>* w) {
  const Unit u = from;  // in registers: the loop over its blocks would read it from shared memory each time
  if (u.x_at < 0) return;
  float* patch = shared_at<float>(p, h.patches_at + p.warp * kPatchBytes);
  if constexpr (kMode == Mode::kF32) {
    multiply_plain(p, u, patch, w);
  } else if constexpr (kMode == Mode::kF32Split) {
    multiply_split(p, u, patch, w);
  } else {
    multiply_tiles(p, u, patch, w);
  }
}

__device__ inline Channel dense_channel(const ThreadInfo& p, const Dense& d, int32_t column) {
  Channel c;
  if (d.p0_at >= 0) c.p0 = shared_at<float>(p, d.p0_at)[column];
  if (d.p1_at >= 0) c.p1 = shared_at<float>(p, d.p1_at)[column];
  if (d.p2_at >= 0) c.p2 = shared_at<float>(p, d.p2_at)[column];
  c.present = d.p0_at >= 0;
  return c;
}

/// x = activation of the columns' segments of x. All four mostly lie in one, of a cheap kind.
__device__ inline void activate(const ThreadInfo& p, const Dense& d, int32_t column, float (&x)[4]) {
  const Segment* s = shared_at<Segment>(p, d.segments_at);
  while (column >= s->end) ++s;
  const UnaryKind kind = s->act.kind;
  const bool one_segment = s->end >= (column + 4 < d.n ? column + 4 : d.n);
  if (one_segment && kind == UnaryKind::kIdentity) return;
  if (one_segment && kind == UnaryKind::kRelu) {
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) x[k] = x[k] < 0 ? 0 : x[k];
    return;
  }
  DPI_ROLLED
  for (int k = 0; k < 4; ++k) {
    if (column + k >= d.n) return;
    while (column + k >= s->end) ++s;
    float y = 0;
    DPI_UNROLL
    for (int i = 0; i < 4; ++i) y = i == k ? x[i] : y;  // no index: x stays in registers
    y = unary_of(s->act, y, dense_channel(p, d, column + k));
    DPI_UNROLL
    for (int i = 0; i < 4; ++i) x[i] = i == k ? y : x[i];
  }
}

__device__ inline bool is_present(const View& v) { return v.wide_at >= 0 || v.narrow_at >= 0; }

/// Four columns of one row: bias, activation of its segment, times mul, plus add; 0 in the padding.
template <class Element>
__device__ void finish_columns(const ThreadInfo& p, const Dense& d, int32_t row, int32_t column,
                               float (&x)[4]) {
  const int32_t n = d.n - column;
  if (d.bias_at >= 0) {
    float bias[4];
    get_four(shared_at<float>(p, d.bias_at) + column, n, bias);
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) x[k] += bias[k];
  }
  if (n > 0) activate(p, d, column, x);
  if (is_present(d.mul)) {
    float factor[4];
    get_four<Element>(p, d.mul, row, column, n, factor);
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) x[k] *= factor[k];
  }
  if (is_present(d.add)) {
    float more[4];
    get_four<Element>(p, d.add, row, column, n, more);
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) x[k] += more[k];
  }
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) {
    if (k >= n) x[k] = 0;
  }
}

/// A thread takes four neighbouring columns of one row. The slices of a sum are added in the order of the
/// depth.
template <class Element>
__device__ void finish_round(const ThreadInfo& p, const Header& h, const Round& round,
                             const Output* outputs) {
  constexpr int32_t kFours = kTileRows * kTileColumns / 4;
  const char* patches = shared_at<char>(p, h.patches_at);
  DPI_ROLLED
  for (int32_t i = p.thread; i < round.n_tiles * kFours; i += p.threads) {
    const Tile t = shared_at<Tile>(p, round.tiles_at)[i / kFours];
    const Dense& d = *shared_at<Dense>(p, t.dense_at);
    const int32_t row = i % kFours / (kTileColumns / 4);
    const int32_t within = i % (kTileColumns / 4) * 4;
    const int32_t column = t.column + within;
    if (column >= d.padded) continue;
    float y[4] = {};
    const char* patch = patches + t.first_patch * kPatchBytes + (row * kPatchPitch + within) * 4;
    DPI_UNROLL_BY(2)
    for (int32_t s = 0; s < t.slices; ++s, patch += kPatchBytes) {
      const auto part = *reinterpret_cast<const Pack<float, 4>*>(patch);
      DPI_UNROLL
      for (int k = 0; k < 4; ++k) y[k] += part.v[k];
    }
    finish_columns<Element>(p, d, row, column, y);
    const int32_t left = d.padded - column;
    put<Element, 4>(p, d.dst, row, column, y, left < 4 ? left : 4);
    if (d.output < 0 || row >= p.rows) continue;
    const Output& out = outputs[d.output];
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) {
      if (column + k < d.n && out.data != nullptr)
        out.data[(p.first_row + row) * out.stride + column + k] = y[k];
    }
  }
}

}  // namespace dpi::kernels::cuda::small_batch
