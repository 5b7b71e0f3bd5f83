// Tensor-core products of 16 x 16 tiles for kernels: nvcuda::wmma under nvcc, under the emulation exact
// products that are added up as tensor cores do it (kernels/emu/tensor_core.hpp), one API. A tile belongs to
// a whole warp: all 32 lanes call each function with the same arguments, and no lane sees single elements.
// Loads and stores do not order memory between lanes: a tile that other lanes wrote or will read needs
// __syncwarp() or __syncthreads() in between, as usual.
//
//   TileC<P> sum;  fill(sum, 0);  TileA<P> a;  TileB<P> b;   P = F16Product, Bf16Product or Tf32Product
//   for k:  load(a, x + k, ldx);  load(b, w + k, ldw);  multiply_add(sum, a, b);
//   store(out, sum, ldo);  __syncwarp();
//
// sum[m][n] += sum over k of a[m][k] * b[n][k]: x is [16 rows][depth], w a weight as bundles have it,
// [16 outputs][depth], both row-major. Addresses are multiples of 32 bytes, leading dimensions of 16 bytes.
#pragma once

#include "kernels/cuda/common/narrow.hpp"

#ifdef __CUDACC__
#include <mma.h>
#else
#include "kernels/emu/tensor_core.hpp"
#endif

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
/// Elements are float in memory and rounded to tf32 by load.
struct Tf32Product {
  using Element = float;
  static constexpr int kDepth = 8;
};

#ifdef __CUDACC__

namespace wmma_detail {

template <class Product>
struct Native;
template <>
struct Native<F16Product> {
  using Type = __half;
  using Memory = __half;
};
template <>
struct Native<Bf16Product> {
  using Type = __nv_bfloat16;
  using Memory = __nv_bfloat16;
};
template <>
struct Native<Tf32Product> {
  using Type = nvcuda::wmma::precision::tf32;
  using Memory = float;
};

template <class Product, class Use, class Layout>
using Fragment = nvcuda::wmma::fragment<Use, kTileSide, kTileSide, Product::kDepth,
                                        typename Native<Product>::Type, Layout>;

}  // namespace wmma_detail

/// 16 rows x kDepth of the activations.
template <class Product>
struct TileA {
  wmma_detail::Fragment<Product, nvcuda::wmma::matrix_a, nvcuda::wmma::row_major> native;
};
/// 16 outputs x kDepth of the weights.
template <class Product>
struct TileB {
  wmma_detail::Fragment<Product, nvcuda::wmma::matrix_b, nvcuda::wmma::col_major> native;
};
/// 16 rows x 16 outputs. Where in it an element lies is known to CUDA alone, and per depth.
template <class Product>
struct TileC {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kTileSide, kTileSide, Product::kDepth, float> native;
};

namespace wmma_detail {

template <class Product, class Tile>
__device__ inline void load_tile(Tile& t, const typename Product::Element* p, int ld) {
  nvcuda::wmma::load_matrix_sync(t.native, reinterpret_cast<const typename Native<Product>::Memory*>(p),
                                 static_cast<unsigned>(ld));
}

template <class Tile>
__device__ inline void round_tile(Tile& t) {
  DPI_UNROLL
  for (int i = 0; i < t.native.num_elements; ++i)
    t.native.x[i] = nvcuda::wmma::__float_to_tf32(t.native.x[i]);
}

template <class Tile>
__device__ inline void split_tile(Tile& high, Tile& low) {
  DPI_UNROLL
  for (int i = 0; i < high.native.num_elements; ++i) {
    const float v = high.native.x[i];
    const float h = nvcuda::wmma::__float_to_tf32(v);
    high.native.x[i] = h;
    low.native.x[i] = nvcuda::wmma::__float_to_tf32(v - h);
  }
}

}  // namespace wmma_detail

template <class Product>
__device__ void load(TileA<Product>& t, const typename Product::Element* p, int ld) {
  wmma_detail::load_tile<Product>(t, p, ld);
  if constexpr (Product::kDepth == 8) wmma_detail::round_tile(t);
}
template <class Product>
__device__ void load(TileB<Product>& t, const typename Product::Element* p, int ld) {
  wmma_detail::load_tile<Product>(t, p, ld);
  if constexpr (Product::kDepth == 8) wmma_detail::round_tile(t);
}

/// v = high + low, both tf32: high * high + high * low + low * high is a product to nearly float32.
__device__ inline void load_split(TileA<Tf32Product>& high, TileA<Tf32Product>& low, const float* p, int ld) {
  wmma_detail::load_tile<Tf32Product>(high, p, ld);
  wmma_detail::split_tile(high, low);
}
__device__ inline void load_split(TileB<Tf32Product>& high, TileB<Tf32Product>& low, const float* p, int ld) {
  wmma_detail::load_tile<Tf32Product>(high, p, ld);
  wmma_detail::split_tile(high, low);
}

template <class Product>
__device__ void fill(TileC<Product>& t, float v) {
  nvcuda::wmma::fill_fragment(t.native, v);
}

/// sum += a * b^T
template <class Product>
__device__ void multiply_add(TileC<Product>& sum, const TileA<Product>& a, const TileB<Product>& b) {
  nvcuda::wmma::mma_sync(sum.native, a.native, b.native, sum.native);
}

/// total += sum, rounded to nearest. Tensor cores truncate while they add up, so a long sum is made of short
/// ones, which are added here.
template <class Product>
__device__ void add(TileC<Product>& total, const TileC<Product>& sum) {
  DPI_UNROLL
  for (int i = 0; i < total.native.num_elements; ++i) total.native.x[i] += sum.native.x[i];
}

/// p[m * ld + n] = sum[m][n]
template <class Product>
__device__ void store(float* p, const TileC<Product>& sum, int ld) {
  nvcuda::wmma::store_matrix_sync(p, sum.native, static_cast<unsigned>(ld), nvcuda::wmma::mem_row_major);
}

#else

// Emulation: lane 0 holds the tile and does the work, the others only wait for it. The wait is no memory
// barrier on purpose: a kernel that lacks a __syncwarp() is still reported as a race.
template <class Product>
struct TileA {
  float v[kTileSide][Product::kDepth];
};
template <class Product>
struct TileB {
  float v[Product::kDepth][kTileSide];  // turned, so that sums run along the rows of both
};
template <class Product>
struct TileC {
  float v[kTileSide][kTileSide];
};

namespace wmma_detail {

/// Meets the other lanes; true in the one that works.
inline bool meet(const char* what, const char* file, int line) {
  emu::exchange_bits(kAllLanes, 0, 0, what, {file, line});
  return emu::lane() == 0;
}

/// What the hardware demands of an address ends the launch here too.
inline void check_address(const void* p, int64_t row_bytes, const char* file, int line) {
  const bool aligned = reinterpret_cast<uintptr_t>(p) % 32 == 0 && row_bytes % 16 == 0;
  if (!aligned) emu::exchange_bits(0, 0, 0, "a tile at an address that is not aligned", {file, line});
}

template <class Product>
float rounded(float v) {
  return Product::kDepth == 8 ? tf32_of(v) : v;
}

}  // namespace wmma_detail

template <class Product>
void load(TileA<Product>& t, const typename Product::Element* p, int ld, const char* file = __builtin_FILE(),
          int line = __builtin_LINE()) {
  wmma_detail::check_address(p, int64_t{ld} * static_cast<int>(sizeof(*p)), file, line);
  if (!wmma_detail::meet("tile load", file, line)) return;
  for (int m = 0; m < kTileSide; ++m) {
    for (int k = 0; k < Product::kDepth; ++k)
      t.v[m][k] = wmma_detail::rounded<Product>(widened(p[int64_t{m} * ld + k]));
  }
}
template <class Product>
void load(TileB<Product>& t, const typename Product::Element* p, int ld, const char* file = __builtin_FILE(),
          int line = __builtin_LINE()) {
  wmma_detail::check_address(p, int64_t{ld} * static_cast<int>(sizeof(*p)), file, line);
  if (!wmma_detail::meet("tile load", file, line)) return;
  for (int n = 0; n < kTileSide; ++n) {
    for (int k = 0; k < Product::kDepth; ++k)
      t.v[k][n] = wmma_detail::rounded<Product>(widened(p[int64_t{n} * ld + k]));
  }
}

inline void load_split(TileA<Tf32Product>& high, TileA<Tf32Product>& low, const float* p, int ld,
                       const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  wmma_detail::check_address(p, int64_t{ld} * 4, file, line);
  if (!wmma_detail::meet("tile load", file, line)) return;
  for (int m = 0; m < kTileSide; ++m) {
    for (int k = 0; k < Tf32Product::kDepth; ++k) {
      const float v = p[int64_t{m} * ld + k];
      high.v[m][k] = tf32_of(v);
      low.v[m][k] = tf32_of(v - high.v[m][k]);
    }
  }
}
inline void load_split(TileB<Tf32Product>& high, TileB<Tf32Product>& low, const float* p, int ld,
                       const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  wmma_detail::check_address(p, int64_t{ld} * 4, file, line);
  if (!wmma_detail::meet("tile load", file, line)) return;
  for (int n = 0; n < kTileSide; ++n) {
    for (int k = 0; k < Tf32Product::kDepth; ++k) {
      const float v = p[int64_t{n} * ld + k];
      high.v[k][n] = tf32_of(v);
      low.v[k][n] = tf32_of(v - high.v[k][n]);
    }
  }
}

template <class Product>
void fill(TileC<Product>& t, float v) {
  if (emu::lane() != 0) return;
  for (auto& row : t.v) {
    for (float& x : row) x = v;
  }
}

template <class Product>
void multiply_add(TileC<Product>& sum, const TileA<Product>& a, const TileB<Product>& b,
                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!wmma_detail::meet("tile product", file, line)) return;
  for (int m = 0; m < kTileSide; ++m) {
    if constexpr (Product::kDepth == 8) {
      emu::tensor_add_tf32(sum.v[m], a.v[m], b.v, Product::kDepth);
    } else {
      emu::tensor_add_16(sum.v[m], a.v[m], b.v, Product::kDepth);
    }
  }
}

template <class Product>
void add(TileC<Product>& total, const TileC<Product>& sum) {
  if (emu::lane() != 0) return;
  for (int m = 0; m < kTileSide; ++m) {
    for (int n = 0; n < kTileSide; ++n) total.v[m][n] += sum.v[m][n];
  }
}

template <class Product>
void store(float* p, const TileC<Product>& sum, int ld, const char* file = __builtin_FILE(),
           int line = __builtin_LINE()) {
  wmma_detail::check_address(p, int64_t{ld} * 4, file, line);
  if (!wmma_detail::meet("tile store", file, line)) return;
  for (int m = 0; m < kTileSide; ++m) {
    for (int n = 0; n < kTileSide; ++n) p[int64_t{m} * ld + n] = sum.v[m][n];
  }
}

#endif

}  // namespace dpi::kernels::cuda
