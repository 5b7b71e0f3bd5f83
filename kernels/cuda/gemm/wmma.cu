// Dense on tensor cores: a block makes a tile of outputs from slabs of 64 bytes along the depth that wait in
// shared memory several deep; bias, activation, product and residual (cross v2) are applied before anything
// is stored. Portable mma, sm_80 and later.
#include "kernels/cuda/common/async_copy.hpp"
#include "kernels/cuda/common/dense_end.hpp"
#include "kernels/cuda/common/wmma.hpp"
#include "kernels/cuda/gemm/gemm.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kSlabBytes = 64;   // of one row of an operand per step
constexpr int kPitchBytes = 80;  // between rows in shared memory: 8 rows of 16 bytes fall into all banks

/// Warps of a block, and 16 x 16 tiles of a warp.
template <int kWarpRows_, int kWarpColumns_, int kTileRows_, int kTileColumns_, int kStages_>
struct BlockShape {
  static constexpr int kWarpRows = kWarpRows_;
  static constexpr int kWarpColumns = kWarpColumns_;
  static constexpr int kTileRows = kTileRows_;
  static constexpr int kTileColumns = kTileColumns_;
  static constexpr int kStages = kStages_;
  static constexpr int kThreads = kWarp * kWarpRows * kWarpColumns;
  static constexpr int kRows = kTileSide * kWarpRows * kTileRows;
  static constexpr int kColumns = kTileSide * kWarpColumns * kTileColumns;
  static constexpr int kStageBytes = (kRows + kColumns) * kPitchBytes;
  static constexpr int kEndPitch = kTileSide * kTileColumns + 8;  // floats
  static constexpr int kEndBytes = kWarpRows * kWarpColumns * kTileSide * kEndPitch * 4;
  static constexpr int kBytes = kStages * kStageBytes > kEndBytes ? kStages* kStageBytes : kEndBytes;
  static_assert(kBytes <= 48 * 1024);
};

using Small = BlockShape<2, 2, 1, 1, 4>;
using Medium = BlockShape<2, 2, 2, 2, 4>;
using Large = BlockShape<4, 2, 2, 4, 2>;

struct alignas(64) Line {
  char bytes[64];
};

struct Gemm {
  TypedRows x;
  const void* weight;  // [out][depth]
  int64_t in;
  int64_t depth;  // packed
  DenseEnd end;
};

template <class P, class Shape>
struct Slab {
  using Element = typename P::Element;
  static constexpr int kDepth = kSlabBytes / static_cast<int>(sizeof(Element));
  static constexpr int kPitch = kPitchBytes / static_cast<int>(sizeof(Element));
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(Element));
  static constexpr int kChunks = kSlabBytes / 16;

  char* base;
  __device__ Element* x(int row) const { return reinterpret_cast<Element*>(base) + row * kPitch; }
  __device__ Element* w(int column) const { return x(Shape::kRows + column); }
};

template <class P, class Shape>
__device__ Slab<P, Shape> slab_at(Line* memory, int64_t step) {
  return {reinterpret_cast<char*>(memory) + step % Shape::kStages * Shape::kStageBytes};
}

/// Rows past the end repeat the last one: their results are not stored.
__device__ inline int64_t at_most(int64_t i, int64_t n) { return i < n ? i : n - 1; }

/// The chunks of 16 bytes that a thread copies of each slab: the same columns of one slab to the next, of
/// rows kApart apart. Where they lie is worked out once, before the loop over the depth.
template <class P, class Shape, bool kAligned>
struct Fetches {
  using S = Slab<P, Shape>;
  using Element = typename P::Element;
  static constexpr int kApart = Shape::kThreads / S::kChunks;
  static constexpr int kWeights = Shape::kColumns / kApart;
  static constexpr int kRows = kAligned ? Shape::kRows / kApart : 0;
  static_assert(Shape::kThreads % S::kChunks == 0);
  static_assert(Shape::kColumns % kApart == 0 && Shape::kRows % kApart == 0);

  int row;  // of the first chunk, in the slab
  int k;    // of all of them
  const Element* weights[kWeights];
  const Element* rows[kAligned ? kRows : 1];

  __device__ explicit Fetches(const Gemm& g)
      : row(static_cast<int>(threadIdx.x) / S::kChunks),
        k(static_cast<int>(threadIdx.x) % S::kChunks * S::kChunk) {
    const auto* weight = static_cast<const Element*>(g.weight);
    DPI_UNROLL
    for (int i = 0; i < kWeights; ++i) {
      const int64_t column = int64_t{blockIdx.y} * Shape::kColumns + row + i * kApart;
      weights[i] = weight + at_most(column, g.end.out) * g.depth + k;
    }
    const auto* x = static_cast<const Element*>(g.x.data);
    DPI_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const int64_t from = int64_t{blockIdx.x} * Shape::kRows + row + i * kApart;
      rows[i] = x + at_most(from, g.end.rows) * g.x.stride;
    }
  }

  __device__ void start_weights(int64_t begin, const S& to) const {
    DPI_UNROLL
    for (int i = 0; i < kWeights; ++i) copy16_async(to.w(row + i * kApart) + k, weights[i] + begin, 16);
  }

  /// x has the product's elements and 16-byte aligned rows.
  __device__ void start_rows(const Gemm& g, int64_t begin, const S& to) const {
    const int64_t left = g.in - begin - k;
    const int n = static_cast<int>(left < 0 ? 0 : left < S::kChunk ? left : S::kChunk);
    DPI_UNROLL
    for (int i = 0; i < kRows; ++i)
      copy16_async(to.x(row + i * kApart) + k, n > 0 ? rows[i] + begin + k : rows[i],
                   n * static_cast<int>(sizeof(Element)));
  }
};

/// Any x, element by element.
template <class P, class Shape>
__device__ void convert_slab(const Gemm& g, int64_t begin, const Slab<P, Shape>& to) {
  using S = Slab<P, Shape>;
  const int64_t first = int64_t{blockIdx.x} * Shape::kRows;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kRows * S::kDepth; i += Shape::kThreads) {
    const int row = i / S::kDepth;
    const int k = i % S::kDepth;
    const int64_t at = at_most(first + row, g.end.rows) * g.x.stride + begin + k;
    const float v = begin + k < g.in ? read_element(g.x.data, g.x.dtype, at) : 0.0f;
    to.x(row)[k] = narrowed<typename P::Element>(v);
  }
}

template <class P, class Shape>
struct Sums {
  TileC<P> t[Shape::kTileRows][Shape::kTileColumns];
};

template <class P, class Shape>
__device__ void multiply(const Slab<P, Shape>& s, int row, int column, Sums<P, Shape>& sums) {
  using S = Slab<P, Shape>;
  DPI_UNROLL
  for (int k = 0; k < S::kDepth; k += P::kDepth) {
    TileA<P> a[Shape::kTileRows];
    DPI_UNROLL
    for (int m = 0; m < Shape::kTileRows; ++m) load(a[m], s.x(row + m * kTileSide) + k, S::kPitch);
    DPI_UNROLL
    for (int n = 0; n < Shape::kTileColumns; ++n) {
      TileB<P> b;
      load(b, s.w(column + n * kTileSide) + k, S::kPitch);
      DPI_UNROLL
      for (int m = 0; m < Shape::kTileRows; ++m) multiply_add(sums.t[m][n], a[m], b);
    }
  }
}

/// 3xTF32: low * high and high * low before high * high, the small terms first; each slab's sum is then added
/// to the total in float32, because the cores truncate while they add up.
template <class Shape>
__device__ void multiply_split(const Slab<Tf32Product, Shape>& s, int row, int column,
                               Sums<Tf32Product, Shape>& sums) {
  using P = Tf32Product;
  using S = Slab<P, Shape>;
  constexpr int kPieces = S::kDepth / P::kDepth;
  TileA<P> high[kPieces][Shape::kTileRows];
  TileA<P> low[kPieces][Shape::kTileRows];
  DPI_UNROLL
  for (int k = 0; k < kPieces; ++k) {
    DPI_UNROLL
    for (int m = 0; m < Shape::kTileRows; ++m)
      load_split(high[k][m], low[k][m], s.x(row + m * kTileSide) + k * P::kDepth, S::kPitch);
  }
  DPI_UNROLL
  for (int n = 0; n < Shape::kTileColumns; ++n) {
    TileB<P> w_high[kPieces];
    TileB<P> w_low[kPieces];
    DPI_UNROLL
    for (int k = 0; k < kPieces; ++k)
      load_split(w_high[k], w_low[k], s.w(column + n * kTileSide) + k * P::kDepth, S::kPitch);
    DPI_UNROLL
    for (int m = 0; m < Shape::kTileRows; ++m) {
      TileC<P> slab_sum;
      fill(slab_sum, 0);
      DPI_UNROLL
      for (int k = 0; k < kPieces; ++k) {
        multiply_add(slab_sum, low[k][m], w_high[k]);
        multiply_add(slab_sum, high[k][m], w_low[k]);
      }
      DPI_UNROLL
      for (int k = 0; k < kPieces; ++k) multiply_add(slab_sum, high[k][m], w_high[k]);
      add(sums.t[m][n], slab_sum);
    }
  }
}

/// How a warp's lanes lie over its columns at the end, and what each knows of its own: read before the loop
/// over the depth, whose copies hide it.
template <class Shape>
struct Ends {
  static constexpr int kColumns = kTileSide * Shape::kTileColumns;
  static constexpr int kAtOnce = kColumns < kWarp ? kColumns : kWarp;  // lanes along a row
  static constexpr int kOwn = kColumns / kAtOnce;
  static_assert(kOwn <= 2);
  ColumnEnd of[kOwn];

  /// Chosen, not indexed: they stay in registers.
  __device__ ColumnEnd at(int i) const { return i == 0 ? of[0] : of[kOwn - 1]; }

  __device__ Ends(const DenseEnd& e, int64_t first) {
    DPI_UNROLL
    for (int i = 0; i < kOwn; ++i) {
      const int64_t column = first + static_cast<int>(threadIdx.x) % kWarp % kAtOnce + i * kAtOnce;
      if (column < e.out) of[i] = column_end(e, column);
    }
  }
};

/// The end of a block's tile. A warp's sums go through 16 rows of shared memory of its own, so that lanes
/// that are neighbours write columns that are.
template <class P, class Shape>
__device__ void finish_tile(const DenseEnd& e, const Ends<Shape>& ends, Line* memory, int row, int column,
                            const Sums<P, Shape>& sums) {
  using E = Ends<Shape>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* mine = reinterpret_cast<float*>(memory) + warp * kTileSide * Shape::kEndPitch;
  DPI_UNROLL  // sums.t is indexed by constants then, and stays in registers
      for (int m = 0; m < Shape::kTileRows; ++m) {
    DPI_UNROLL
    for (int n = 0; n < Shape::kTileColumns; ++n) store(mine + n * kTileSide, sums.t[m][n], Shape::kEndPitch);
    __syncwarp();
    const int64_t first_row = int64_t{blockIdx.x} * Shape::kRows + row + m * kTileSide;
    DPI_ROLLED  // one copy of finish
        for (int i = 0; i < E::kOwn; ++i) {
      const int c = lane % E::kAtOnce + i * E::kAtOnce;
      const int64_t to = int64_t{blockIdx.y} * Shape::kColumns + column + c;
      if (to >= e.out) continue;
      const ColumnEnd end = ends.at(i);
      for (int r = lane / E::kAtOnce; r < kTileSide; r += kWarp / E::kAtOnce) {
        if (first_row + r < e.rows) finish(e, end, first_row + r, to, mine[r * Shape::kEndPitch + c]);
      }
    }
    __syncwarp();
  }
}

/// kAligned: start_rows may be used. kSplit: three products of tf32.
template <class P, class Shape, bool kAligned, bool kSplit>
__device__ void run_block(const Gemm& g, Line* memory) {
  const Fetches<P, Shape, kAligned> fetches(g);
  const auto fetch = [&](int64_t step) {
    if (step * Slab<P, Shape>::kDepth < g.in) {
      const Slab<P, Shape> to = slab_at<P, Shape>(memory, step);
      fetches.start_weights(step * Slab<P, Shape>::kDepth, to);
      if constexpr (kAligned) {
        fetches.start_rows(g, step * Slab<P, Shape>::kDepth, to);
      } else {
        convert_slab(g, step * Slab<P, Shape>::kDepth, to);
      }
    }
    end_copy_group();  // empty past the end: the count of groups stays the same
  };
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int row = warp / Shape::kWarpColumns * Shape::kTileRows * kTileSide;
  const int column = warp % Shape::kWarpColumns * Shape::kTileColumns * kTileSide;
  Sums<P, Shape> sums;
  DPI_UNROLL
  for (int m = 0; m < Shape::kTileRows; ++m) {
    DPI_UNROLL
    for (int n = 0; n < Shape::kTileColumns; ++n) fill(sums.t[m][n], 0);
  }
  for (int64_t step = 0; step < Shape::kStages - 1; ++step) fetch(step);
  const Ends<Shape> ends(g.end, int64_t{blockIdx.y} * Shape::kColumns + column);
  for (int64_t step = 0; step * Slab<P, Shape>::kDepth < g.in; ++step) {
    wait_for_copies<Shape::kStages - 2>();
    __syncthreads();  // the slab is there, and the one before it is done with
    fetch(step + Shape::kStages - 1);
    if constexpr (kSplit) {
      multiply_split(slab_at<P, Shape>(memory, step), row, column, sums);
    } else {
      multiply(slab_at<P, Shape>(memory, step), row, column, sums);
    }
  }
  wait_for_copies<0>();
  __syncthreads();
  finish_tile(g.end, ends, memory, row, column, sums);
}

template <class P, class Shape, bool kAligned>
__global__ void __launch_bounds__(Shape::kThreads) dense_wmma_kernel(const Gemm g) {
  DPI_SHARED(Line, memory, (Shape::kBytes + 63) / 64);
  run_block<P, Shape, kAligned, false>(g, memory);
}

template <class Shape, bool kAligned>
__global__ void __launch_bounds__(Shape::kThreads) dense_split_kernel(const Gemm g) {
  DPI_SHARED(Line, memory, (Shape::kBytes + 63) / 64);
  run_block<Tf32Product, Shape, kAligned, true>(g, memory);
}

template <class P, class Shape, bool kSplit>
int start(const Gemm& g, bool aligned, Stream stream) {
  const dim3 grid(blocks_for(g.end.rows, Shape::kRows, 0x7fffffff), blocks_for(g.end.out, Shape::kColumns));
  const dim3 block(Shape::kThreads);
  if constexpr (kSplit) {
    if (aligned) return launch(dense_split_kernel<Shape, true>, grid, block, stream, g);
    return launch(dense_split_kernel<Shape, false>, grid, block, stream, g);
  } else {
    if (aligned) return launch(dense_wmma_kernel<P, Shape, true>, grid, block, stream, g);
    return launch(dense_wmma_kernel<P, Shape, false>, grid, block, stream, g);
  }
}

template <class P, bool kSplit>
int start_tile(const Gemm& g, GemmTile tile, Stream stream) {
  const auto address = reinterpret_cast<uintptr_t>(g.x.data);
  const int64_t row_bytes = g.x.stride * dtype_bytes(g.x.dtype);
  const bool same = std::is_same_v<typename P::Element, float>  ? g.x.dtype == DType::kF32
                    : std::is_same_v<typename P::Element, Half> ? g.x.dtype == DType::kF16
                                                                : g.x.dtype == DType::kBF16;
  const bool aligned = same && address % 16 == 0 && row_bytes % 16 == 0;
  if (tile == GemmTile::kSmall) return start<P, Small, kSplit>(g, aligned, stream);
  if (tile == GemmTile::kMedium) return start<P, Medium, kSplit>(g, aligned, stream);
  return start<P, Large, kSplit>(g, aligned, stream);
}

}  // namespace

int probe_gemm() { return find_code(dense_wmma_kernel<F16Product, Medium, true>); }

int dense_wmma(const DenseArgs& a, Product product, GemmTile tile, Stream stream) {
  Gemm g = {};
  g.x = typed_rows(a.x);
  g.weight = a.packed;
  g.in = a.weight.dims.at(-1);
  g.depth = packed_depth(g.in);
  g.end = dense_end(a);
  switch (product) {
    case Product::kTf32:
      return start_tile<Tf32Product, false>(g, tile, stream);
    case Product::kTf32x3:
      return start_tile<Tf32Product, true>(g, tile, stream);
    case Product::kF16:
      return start_tile<F16Product, false>(g, tile, stream);
    case Product::kBF16:
      return start_tile<Bf16Product, false>(g, tile, stream);
  }
  return 1;  // cudaErrorInvalidValue
}

}  // namespace dpi::kernels::cuda
