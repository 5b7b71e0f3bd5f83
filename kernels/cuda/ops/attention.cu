// Attention: a warp per query of a head of a row. Lanes take keys for the scores, which stay in the warp's
// shared memory, and columns for what is made of the values; keys and values come through the caches, where
// the warps of one row meet. The format's op reads keys in tiles; what is added up so far lies in the result.
#include <dpi/kernels/attention.hpp>

#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / kWarp;

struct Query {
  int64_t row;
  int64_t head;
  int64_t query;
};

/// Largest over the lanes, the same in every lane; a NaN stays.
__device__ float warp_largest(float v) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, v, step);
    v = v <= other || other != other ? other : v;
  }
  return v;
}

__device__ float mask_at(const AttentionArgs& a, const Query& at, int64_t j) {
  if (a.mask.data == nullptr) return 1;
  return row_of(a.mask, at.row)[at.head * a.attrs.mask_head + at.query * a.attrs.mask_query + j];
}

/// Added up in order. Four numbers a load where both lie so: lanes read a key each, and a load of 32 keys
/// takes as many sectors for four numbers as for one.
__device__ float dot(const float* q, const float* k, int64_t n) {
  float sum = 0;
  int64_t c = 0;
  const bool fours = ((reinterpret_cast<uintptr_t>(q) | reinterpret_cast<uintptr_t>(k)) & 15u) == 0;
  for (; fours && c + 4 <= n; c += 4) {
    const float4 x = *reinterpret_cast<const float4*>(q + c), y = *reinterpret_cast<const float4*>(k + c);
    sum = fmaf(x.x, y.x, sum);
    sum = fmaf(x.y, y.y, sum);
    sum = fmaf(x.z, y.z, sum);
    sum = fmaf(x.w, y.w, sum);
  }
  for (; c < n; ++c) sum = fmaf(q[c], k[c], sum);
  return sum;
}

/// The scaled product of the query and a key.
__device__ float product_of(const AttentionArgs& a, const Query& at, int64_t j) {
  const float* const q = row_of(a.q, at.row) + a.attrs.q.at(at.head, at.query);
  const float* const k = a.key(at.row, at.head, j);
  return a.attrs.scale * dot(q, k, a.attrs.dim);
}

/// -infinity where the key is left out; *dropped says so.
__device__ float score_of(const AttentionArgs& a, const Query& at, int64_t j, bool* dropped) {
  const float m = mask_at(a, at, j);
  *dropped = a.attrs.mask_mode == SoftmaxMask::kNinf && m == 0;
  if (*dropped) return -INFINITY;
  const float x = product_of(a, at, j);
  if (a.attrs.mask_mode == SoftmaxMask::kAdd) return __fadd_rn(x, a.attrs.value * (1.0f - m));
  return a.attrs.mask_mode == SoftmaxMask::kReplace && m == 0 ? a.attrs.value : x;
}

/// The weights of all keys, not yet divided by their sum, which comes back; a key that is left out has -1.
__device__ float weigh(const AttentionArgs& a, const Query& at, float* weight) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float top = -INFINITY;
  for (int64_t j = lane; j < a.attrs.keys; j += kWarp) {
    bool dropped = false;
    weight[j] = score_of(a, at, j, &dropped);
    if (!(weight[j] <= top)) top = weight[j];
  }
  top = warp_largest(top);
  float sum = 0;
  for (int64_t j = lane; j < a.attrs.keys; j += kWarp) {
    const bool dropped = a.attrs.mask_mode == SoftmaxMask::kNinf && mask_at(a, at, j) == 0;
    const float e = dropped ? 0.0f : expf(weight[j] - top);
    sum += e;
    weight[j] = dropped ? -1.0f : e;
  }
  return warp_sum(sum);
}

__global__ void __launch_bounds__(kThreads) attention_kernel(const AttentionArgs a) {
  DPI_SHARED(float, weights, kWarps* kMaxAttentionKeys);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t n = int64_t{blockIdx.x} * kWarps + warp;
  if (n >= a.dst.rows * a.attrs.heads * a.attrs.queries) return;  // a whole warp
  const Query at{n / a.attrs.queries / a.attrs.heads, n / a.attrs.queries % a.attrs.heads,
                 n % a.attrs.queries};
  float* const dst = row_of(a.dst, at.row) + a.attrs.y.at(at.head, at.query);
  if (a.attrs.counted != 0 && mask_at(a, at, at.query) == 0) {
    for (int64_t c = lane; c < a.attrs.value_dim; c += kWarp) dst[c] = 0;
    return;  // a whole warp
  }
  float* const weight = weights + warp * kMaxAttentionKeys;
  const float sum = weigh(a, at, weight);
  __syncwarp();
  const float inverse = sum == 0 ? 0.0f : 1.0f / sum;
  const float* const v = row_of(a.v, at.row);
  for (int64_t c = lane; c < a.attrs.value_dim; c += kWarp) {
    float y = 0;
    for (int64_t j = 0; j < a.attrs.keys; ++j) {
      if (weight[j] != -1.0f) y = fmaf(weight[j], v[a.attrs.v.at(at.head, j) + c], y);
    }
    dst[c] = y * inverse;
  }
}

// ---- the format's op

/// A softmax over the keys so far, the same in all lanes of a warp.
struct Running {
  float top = -INFINITY;
  float sum = 0;
};

/// The score of a key, -infinity where the query does not read it.
__device__ float stream_score(const AttentionArgs& a, const Query& at, int64_t j) {
  const bool read = j < keys_read(a.attrs, at.query) || j == own_key(a.attrs, at.query);
  if (!read || mask_at(a, at, j) == 0) return -INFINITY;
  float x = product_of(a, at, j);
  if (a.attrs.biased != 0) x += row_of(a.bias, at.row)[a.attrs.bias.at(at.head, at.query) + j];
  return x;
}

__device__ float silu(float x) { return x / (1.0f + expf(-x)); }

/// Weights of keys [first, first + n); what the sums so far are worth beside them.
__device__ float weigh_tile(const AttentionArgs& a, const Query& at, int64_t first, int64_t n, float* weight,
                            Running* so_far) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bool softmax = a.attrs.form == AttentionForm::kSoftmax;
  float top = so_far->top;
  for (int64_t j = lane; j < n; j += kWarp) {
    const float x = stream_score(a, at, first + j);
    weight[j] = x;
    if (x > top) top = x;
  }
  top = warp_largest(top);
  float sum = 0;
  for (int64_t j = lane; j < n; j += kWarp) {
    const float x = weight[j];
    const float e = x == -INFINITY ? 0.0f : softmax ? expf(x - top) : silu(x) / a.attrs.divisor;
    sum += e;
    weight[j] = e;
  }
  if (!softmax) return 1;
  // A NaN alone leaves no largest score: its sum is NaN all the same.
  const float worth = so_far->top == -INFINITY ? 0.0f : expf(so_far->top - top);
  so_far->sum = so_far->sum * worth + warp_sum(sum);
  so_far->top = top;
  return worth;
}

/// dst = worth dst + weights of keys [first, first + n) times their values.
__device__ void add_tile(const AttentionArgs& a, const Query& at, int64_t first, int64_t n,
                         const float* weight, float worth, float* dst) {
  for (int64_t c = static_cast<int>(threadIdx.x) % kWarp; c < a.attrs.value_dim; c += kWarp) {
    float y = 0;
    for (int64_t j = 0; j < n; ++j) {
      if (weight[j] != 0) y = fmaf(weight[j], a.value(at.row, at.head, first + j)[c], y);
    }
    dst[c] = fmaf(dst[c], worth, y);
  }
}

/// Keys [first, end), a tile of shared memory at a time.
__device__ void read_keys(const AttentionArgs& a, const Query& at, int64_t first, int64_t end, float* weight,
                          Running* so_far, float* dst) {
  for (; first < end; first += kMaxAttentionKeys) {
    const int64_t n = end - first < kMaxAttentionKeys ? end - first : kMaxAttentionKeys;
    const float worth = weigh_tile(a, at, first, n, weight, so_far);
    __syncwarp();
    add_tile(a, at, first, n, weight, worth, dst);
    __syncwarp();
  }
}

__device__ void finish_softmax(const AttentionArgs& a, const Query& at, const Running& all, float* dst) {
  for (int64_t c = static_cast<int>(threadIdx.x) % kWarp; c < a.attrs.value_dim; c += kWarp) {
    if (all.sum != 0) {
      dst[c] = dst[c] / all.sum;
    } else if (a.attrs.mean_of_none != 0) {
      Sum mean;
      for (int64_t j = 0; j < a.attrs.keys; ++j) mean.add(a.value(at.row, at.head, j)[c]);
      dst[c] = mean.value() / static_cast<float>(a.attrs.keys);
    }
  }
}

__global__ void __launch_bounds__(kThreads) attention_stream_kernel(const AttentionArgs a) {
  DPI_SHARED(float, weights, kWarps* kMaxAttentionKeys);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t n = int64_t{blockIdx.x} * kWarps + warp;
  if (n >= a.dst.rows * a.attrs.heads * a.attrs.queries) return;  // a whole warp
  const Query at{n / a.attrs.queries / a.attrs.heads, n / a.attrs.queries % a.attrs.heads,
                 n % a.attrs.queries};
  float* const dst = row_of(a.dst, at.row) + a.attrs.y.at(at.head, at.query);
  // Each lane writes and reads columns of its own.
  for (int64_t c = static_cast<int>(threadIdx.x) % kWarp; c < a.attrs.value_dim; c += kWarp) dst[c] = 0;
  if (a.attrs.counted != 0 && mask_at(a, at, at.query) == 0) return;  // a whole warp
  float* const weight = weights + warp * kMaxAttentionKeys;
  Running so_far;
  read_keys(a, at, 0, keys_read(a.attrs, at.query), weight, &so_far, dst);
  const int64_t own = own_key(a.attrs, at.query);
  if (own >= 0) read_keys(a, at, own, own + 1, weight, &so_far, dst);
  if (a.attrs.form == AttentionForm::kSoftmax) finish_softmax(a, at, so_far, dst);
}

}  // namespace

int attention(const AttentionArgs& a, Stream stream) {
  const int64_t queries = a.dst.rows * a.attrs.heads * a.attrs.queries;
  const auto kernel = a.attrs.streamed != 0 ? attention_stream_kernel : attention_kernel;
  return launch(kernel, dim3(blocks_for(queries, kWarps, 0x7fffffff)), dim3(kThreads), stream, a);
}

}  // namespace dpi::kernels::cuda
