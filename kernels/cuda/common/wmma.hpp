// Tensor-core products of 16 x 16 tiles for kernels, over the two instructions of common/mma.hpp. A tile
// belongs to a whole warp: all 32 lanes call each function with the same arguments, and no lane sees single
// elements. Tiles are loaded from shared memory. Loads and stores do not order memory between lanes: a tile
// that other lanes wrote or will read needs __syncwarp() or __syncthreads() in between, as usual.
//
//   TileC<P> sum;  fill(sum, 0);  TileA<P> a;  TileB<P> b;   P = F16Product, Bf16Product or Tf32Product
//   for k:  load(a, x + k, ldx);  load(b, w + k, ldw);  multiply_add(sum, a, b);
//   store(out, sum, ldo);  __syncwarp();
//
// sum[m][n] += sum over k of a[m][k] * b[n][k]: x is [16 rows][depth], w a weight as bundles have it,
// [16 outputs][depth], both row-major. Addresses and leading dimensions are multiples of 16 bytes, of `out`
// of 8.
#pragma once

#include "kernels/cuda/common/mma.hpp"

namespace dpi::kernels::cuda {

constexpr int kTileSide = 16;

/// Element types of a product; the sums are float32.
struct F16Product {
  using Element = Half;
  static constexpr int kDepth = 16;
};
struct Bf16Product {
  using Element = Bfloat16;
  static constexpr int kDepth = 16;
};
/// Elements are float in memory. load rounds the activations to tf32; weights are rounded when they are
/// packed, because each is loaded many times.
struct Tf32Product {
  using Element = float;
  static constexpr int kDepth = 8;
};

/// 16 rows x kDepth of the activations.
template <class Product>
struct TileA {
  uint32_t r[4];
};
/// 16 outputs x kDepth of the weights.
template <class Product>
struct TileB {
  uint32_t r[4];
};
/// 16 rows x 16 outputs.
template <class Product>
struct TileC {
  float v[8];
};

namespace tile_detail {

__device__ __forceinline__ int lane_of_warp() { return static_cast<int>(threadIdx.x) % kWarp; }

/// kRowsFirst: matrices 0 and 1 are the two halves of the rows (A), else of the depth (B).
template <class Product, bool kRowsFirst>
__device__ __forceinline__ void load_tile(uint32_t (&r)[4], const typename Product::Element* p, int ld) {
  const int matrix = lane_of_warp() / 8;
  const int lower = kRowsFirst ? matrix % 2 : matrix / 2;
  const int later = kRowsFirst ? matrix / 2 : matrix % 2;
  load_matrices(r, p + (lane_of_warp() % 8 + lower * 8) * ld + later * (Product::kDepth / 2));
}

__device__ __forceinline__ void split(uint32_t (&high)[4], uint32_t (&low)[4]) {
  DPI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float v = float_of_bits(high[i]);
    high[i] = tf32_bits(v);
    low[i] = tf32_bits(v - float_of_bits(high[i]));
  }
}

}  // namespace tile_detail

template <class Product>
__device__ __forceinline__ void load(TileA<Product>& t, const typename Product::Element* p, int ld) {
  tile_detail::load_tile<Product, true>(t.r, p, ld);
  if constexpr (Product::kDepth == 8) {
    DPI_UNROLL
    for (int i = 0; i < 4; ++i) t.r[i] = tf32_bits(float_of_bits(t.r[i]));
  }
}
template <class Product>
__device__ __forceinline__ void load(TileB<Product>& t, const typename Product::Element* p, int ld) {
  tile_detail::load_tile<Product, false>(t.r, p, ld);
}

/// v = high + low, both tf32: high * high + high * low + low * high is a product to nearly float32.
__device__ __forceinline__ void load_split(TileA<Tf32Product>& high, TileA<Tf32Product>& low, const float* p,
                                           int ld) {
  tile_detail::load_tile<Tf32Product, true>(high.r, p, ld);
  tile_detail::split(high.r, low.r);
}
__device__ __forceinline__ void load_split(TileB<Tf32Product>& high, TileB<Tf32Product>& low, const float* p,
                                           int ld) {
  tile_detail::load_tile<Tf32Product, false>(high.r, p, ld);
  tile_detail::split(high.r, low.r);
}

template <class Product>
__device__ __forceinline__ void fill(TileC<Product>& t, float v) {
  DPI_UNROLL
  for (float& x : t.v) x = v;
}

/// sum += a * b^T
template <class Product>
__device__ __forceinline__ void multiply_add(TileC<Product>& sum, const TileA<Product>& a,
                                             const TileB<Product>& b) {
  if constexpr (std::is_same_v<Product, Tf32Product>) {
    mma_tf32(sum.v, a.r, b.r);
  } else if constexpr (std::is_same_v<Product, F16Product>) {
    mma_f16(sum.v, a.r, b.r);
  } else {
    mma_bf16(sum.v, a.r, b.r);
  }
}

/// total += sum, rounded to nearest. Tensor cores truncate while they add up, so a long sum is made of short
/// ones, which are added here.
template <class Product>
__device__ __forceinline__ void add(TileC<Product>& total, const TileC<Product>& sum) {
  DPI_UNROLL
  for (int i = 0; i < 8; ++i) total.v[i] += sum.v[i];
}

/// p[m * ld + n] = sum[m][n]
template <class Product>
__device__ __forceinline__ void store(float* p, const TileC<Product>& sum, int ld) {
  float* to = p + tile_detail::lane_of_warp() / 4 * ld + tile_detail::lane_of_warp() % 4 * 2;
  DPI_UNROLL
  for (int i = 0; i < 8; i += 2) store_pair(to + i / 2 % 2 * 8 * ld + i / 4 * 8, sum.v[i], sum.v[i + 1]);
}

}  // namespace dpi::kernels::cuda
