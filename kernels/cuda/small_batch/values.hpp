// Elements of the small-batch kernel's values in shared memory: read from the rank's own copy, written to the
// copies of all ranks.
#pragma once

#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/narrow.hpp"
#include "kernels/cuda/small_batch/cluster.hpp"

namespace dpi::kernels::cuda::small_batch {

/// Element: of the products. float means that there are no narrow images.
template <class Element>
__device__ float get(const ThreadInfo& p, const View& v, int32_t row, int32_t column) {
  if constexpr (sizeof(Element) == 2) {
    if (v.wide_at < 0) return widened(shared_at<Element>(p, v.narrow_at)[row * v.narrow_pitch + column]);
  }
  return shared_at<float>(p, v.wide_at)[row * v.wide_pitch + column];
}

/// N elements that are stored at once where their address allows it.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

template <class T>
__device__ void get_four(const T* from, int32_t n, float (&x)[4]) {
  if (n >= 4 && reinterpret_cast<uintptr_t>(from) % sizeof(Pack<T, 4>) == 0) {
    const auto all = *reinterpret_cast<const Pack<T, 4>*>(from);
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) x[k] = widened(all.v[k]);
    return;
  }
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) x[k] = k < n ? widened(from[k]) : 0.0f;
}

/// Columns column .. column + 3 of one row at once; 0 from the n-th on.
template <class Element>
__device__ void get_four(const ThreadInfo& p, const View v, int32_t row, int32_t column, int32_t n,
                         float (&x)[4]) {
  if constexpr (sizeof(Element) == 2) {
    if (v.wide_at < 0)
      return get_four(shared_at<Element>(p, v.narrow_at) + row * v.narrow_pitch + column, n, x);
  }
  get_four(shared_at<float>(p, v.wide_at) + row * v.wide_pitch + column, n, x);
}

template <int N, class T>
__device__ void put_image(const ThreadInfo& p, T* to, const float (&x)[N], int32_t n) {
  using Together = Pack<T, N>;
  if (n == N && reinterpret_cast<uintptr_t>(to) % sizeof(Together) == 0) {
    Together together;
    DPI_UNROLL
    for (int i = 0; i < N; ++i) together.v[i] = narrowed<T>(x[i]);
    store_to_ranks(p, reinterpret_cast<Together*>(to), together);
    return;
  }
  DPI_UNROLL
  for (int i = 0; i < N; ++i) {
    if (i < n) store_to_ranks(p, to + i, narrowed<T>(x[i]));
  }
}

/// Columns column .. column + n - 1 (n <= N) of one row, into the images that the view has.
template <class Element, int N>
__device__ void put(const ThreadInfo& p, const View& v, int32_t row, int32_t column, const float (&x)[N],
                    int32_t n) {
  if (v.wide_at >= 0) put_image<N>(p, shared_at<float>(p, v.wide_at) + row * v.wide_pitch + column, x, n);
  if constexpr (sizeof(Element) == 2) {
    if (v.narrow_at >= 0)
      put_image<N>(p, shared_at<Element>(p, v.narrow_at) + row * v.narrow_pitch + column, x, n);
  }
}

template <class Element>
__device__ void put_one(const ThreadInfo& p, const View& v, int32_t row, int32_t column, float x) {
  const float one[1] = {x};
  put<Element, 1>(p, v, row, column, one, 1);
}

/// All kinds but identity, ReLU and sigmoid. Not inlined at each use: copies of their code would push the
/// rest of a kernel that runs for microseconds out of the instruction cache.
static DPI_COLD __device__ float rare_unary(const UnaryAttrs u, float x, const Channel c) {
  return apply_unary(u, x, c);
}

__device__ inline float unary_of(const UnaryAttrs& u, float x, const Channel& c) {
  if (u.kind == UnaryKind::kIdentity) return x;
  if (u.kind == UnaryKind::kRelu) return x < 0 ? 0 : x;
  if (u.kind == UnaryKind::kSigmoid) return sigmoid(x);
  return rare_unary(u, x, c);
}

}  // namespace dpi::kernels::cuda::small_batch
