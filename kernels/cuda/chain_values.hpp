// Elements of the chain kernel's values in shared memory: read from the rank's own copy, written to the
// copies of all ranks.
#pragma once

#include "kernels/cuda/chain_cluster.hpp"
#include "kernels/cuda/common/narrow.hpp"

namespace dpi::kernels::cuda {

/// Element: of the products. float means that there are no narrow images.
template <class Element>
__device__ float chain_get(const ChainPlace& p, const ChainView& v, int32_t row, int32_t column) {
  if constexpr (sizeof(Element) == 2) {
    if (v.wide_at < 0) return widened(shared_at<Element>(p, v.narrow_at)[row * v.narrow_pitch + column]);
  }
  return shared_at<float>(p, v.wide_at)[row * v.wide_pitch + column];
}

/// N elements that are stored at once where their address allows it.
template <class T, int N>
struct alignas(sizeof(T) * N) ChainPack {
  T v[N];
};

template <int N, class T>
__device__ void put_image(const ChainPlace& p, T* to, const float (&x)[N], int32_t n) {
  using Pack = ChainPack<T, N>;
  if (n == N && reinterpret_cast<uintptr_t>(to) % sizeof(Pack) == 0) {
    Pack pack;
    DPI_UNROLL
    for (int i = 0; i < N; ++i) pack.v[i] = narrowed<T>(x[i]);
    for (int32_t r = 0; r < p.ranks; ++r) *at_rank(p, reinterpret_cast<Pack*>(to), r) = pack;
    return;
  }
  DPI_UNROLL
  for (int i = 0; i < N; ++i) {
    if (i >= n) continue;
    for (int32_t r = 0; r < p.ranks; ++r) *at_rank(p, to + i, r) = narrowed<T>(x[i]);
  }
}

/// Columns column .. column + n - 1 (n <= N) of one row, into the images that the view has.
template <class Element, int N>
__device__ void chain_put(const ChainPlace& p, const ChainView& v, int32_t row, int32_t column,
                          const float (&x)[N], int32_t n) {
  if (v.wide_at >= 0) put_image<N>(p, shared_at<float>(p, v.wide_at) + row * v.wide_pitch + column, x, n);
  if constexpr (sizeof(Element) == 2) {
    if (v.narrow_at >= 0)
      put_image<N>(p, shared_at<Element>(p, v.narrow_at) + row * v.narrow_pitch + column, x, n);
  }
}

template <class Element>
__device__ void chain_put_one(const ChainPlace& p, const ChainView& v, int32_t row, int32_t column, float x) {
  const float one[1] = {x};
  chain_put<Element, 1>(p, v, row, column, one, 1);
}

}  // namespace dpi::kernels::cuda
