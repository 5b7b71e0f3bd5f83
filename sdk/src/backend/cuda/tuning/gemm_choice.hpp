// Implementations of a Dense op's product, and the shape that decides among them. Tuning tables record
// choices (tuning/tuning.hpp); gemm/gemm.hpp makes and runs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/layer/lt_api.hpp"
#include "kernels/cuda/gemm/gemm.hpp"

namespace dpi::backend {

enum class GemmImpl : int32_t {
  kOwnSimt = 0,
  kOwnTf32 = 1,
  kOwnTf32x3 = 2,
  kOwnF16 = 3,
  kOwnBf16 = 4,
  kLtFp32 = 5,
  kLtTf32 = 6,
  kLtTf32x3 = 7,
  kLtF16 = 8,
  kLtBf16 = 9,
  kCount = 10,
};
const char* gemm_name(GemmImpl impl);  // "own-3xtf32", "cublaslt-fp16" ...
/// kCount at an unknown name.
GemmImpl gemm_impl(const std::string& name);
constexpr bool is_lt(GemmImpl i) { return i >= GemmImpl::kLtFp32; }

enum class GemmPrecision : int32_t { kFp32 = 0, kTf32 = 1, kFp16 = 2, kBf16 = 3 };
const char* precision_name(GemmPrecision p);

/// One way to compute: an implementation with what it needs to know.
struct GemmChoice {
  GemmImpl impl = GemmImpl::kOwnSimt;
  kernels::cuda::GemmTile tile = kernels::cuda::GemmTile::kMedium;  // own-* but own-simt
  lt::Algo algo;                                                    // cublaslt-*
  size_t workspace = 0;                                             // of the algo
  bool staged =
      false;  // cublaslt-*: x is copied to rows that end on 16 bytes though it might be read in place

  bool operator==(const GemmChoice&) const = default;
};

/// The properties of an op on which the choice depends.
struct GemmShape {
  int64_t rows = 0;  // a batch bucket
  int64_t in = 0;
  int64_t out = 0;
  bool fused =
      false;  // the end is more than bias and ReLU: own kernels fuse it, after cuBLASLt it is a kernel
};

}  // namespace dpi::backend
