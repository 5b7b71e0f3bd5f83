// Matrix products behind Dense, beside the plain kernel of dense.cu: tensor-core kernels with the whole
// epilogue fused, and what runs before and after a vendor library's product. Called by
// sdk/src/backend/cuda/gemm, which chooses among them; nothing here knows how.
#pragma once

#include <dpi/kernels/dense.hpp>

namespace dpi::kernels::cuda {

using Stream = void*;

/// Element types of a tensor-core product. kTf32x3: each operand as the sum of two tf32 values, three
/// products, summed up outside the cores: as exact as float32.
enum class Product : int32_t { kTf32 = 0, kTf32x3 = 1, kF16 = 2, kBF16 = 3 };

/// Rows x outputs that one block computes.
enum class GemmTile : int32_t { kSmall = 0, kMedium = 1, kLarge = 2 };  // 32 x 32, 64 x 64, 128 x 128

constexpr int64_t tile_side(GemmTile t) {
  return t == GemmTile::kSmall ? 32 : t == GemmTile::kMedium ? 64 : 128;
}

/// Packed weights: [out][packed_depth(in)] elements, zeros past `in`; float for tf32, rounded to it for kTf32
/// and not for kTf32x3.
constexpr int64_t packed_depth(int64_t in) { return (in + 31) / 32 * 32; }

/// Dense with a.packed = packed weights of `product`'s element type, 128-byte aligned. A row's result does
/// not depend on the other rows, nor on the tile.
int dense_wmma(const DenseArgs& a, Product product, GemmTile tile, Stream stream);

/// One accumulator of a tensor core takes all three products and is cut each time it is added to. With more
/// inputs than this the logits of the widest models would come near the gate of fp32, 1e-5 max(1, |logit|)
/// (tests/emu/tf32_grid_main.cpp), so deeper sums are made in slabs that are added up outside the cores.
constexpr int64_t kMostSplitIn = 768;
constexpr int64_t split_slabs(int64_t n) { return (n + kMostSplitIn - 1) / kMostSplitIn; }
constexpr int64_t split_depth(int64_t n, int64_t slabs) { return packed_depth((n + slabs - 1) / slabs); }

/// x (rows x n, any type) as float rows of `slabs` times 3 * depth, depth = split_depth(n, slabs): slab s has
/// columns s * depth to (s + 1) * depth - 1 of x, zeros past its width, as [lo | hi | hi]; `to` is 16-byte
/// aligned. With weights [hi | lo | hi] one tf32 product of three times the depth gives lo * hi + hi * lo +
/// hi * hi. The small terms come first: tensor cores cut what they add up, and would cut these away below a
/// full sum.
int split_rows(const Tensor& x, float* to, int64_t slabs, Stream stream);

/// x as rows of `stride` elements of `type`, zeros past its width. stride: a multiple of 4; `to` is aligned
/// to four elements.
int convert_rows(const Tensor& x, void* to, DType type, int64_t stride, Stream stream);

/// The end of a Dense whose sums (and bias, if a.bias is absent) are already in `sums`, float rows `stride`
/// apart: activation, times a.mul, plus a.add. `sums` may be a.dst itself.
int finish_dense(const DenseArgs& a, const float* sums, int64_t stride, Stream stream);

/// 0 if the tensor-core kernels can run on the calling thread's current device.
int probe_gemm();

}  // namespace dpi::kernels::cuda
