// Own matrix product with packed weights: dst = epilogue(x W^T). No allocation, no threads, any number of
// rows.
//
// Every output element is one sequence of fused multiply-adds over k = 0, 1 .. K-1, whatever the tile it
// falls into: a row's bits depend neither on the batch it came in nor on its place there. (The scalar set
// rounds twice per step, in the same order.)
//
// In bf16 (gemm_bf16.cpp) the terms of k and k + 1 are one step where the processor multiplies bf16.
//
// Packed weights: panels of kPanelVecs vectors of columns; a panel holds K rows of its columns, zero beyond
// N.
#pragma once

#include <dpi/kernels/dense.hpp>

namespace dpi::kernels::cpu {

/// x: [m, k], ld ldx; packed: by gemm_pack(), gemm_bf16_pack() or gemm_int8_pack() of the same instruction
/// set; scratch: gemm_bf16_scratch(m, k) bytes for gemm_bf16, and so of int8; dst: [m, n], ld ldd, may be
/// `add`, nothing else. mul, add: [m, n] or null; shared: its row row_map[r] (row_map null: r) is added to
/// row r before the function, or null; bias: [n] or null; segments as in DenseAttrs (none: identity); p:
/// channel parameters of the segments. Only part `part` of `parts` of the columns, whole panels, is written.
struct GemmCall {
  const float* x = nullptr;
  const void* packed = nullptr;
  void* scratch = nullptr;
  const float* bias = nullptr;
  const float* mul = nullptr;
  const float* add = nullptr;
  const float* shared = nullptr;
  const int32_t* row_map = nullptr;
  float* dst = nullptr;
  int64_t m = 0, n = 0, k = 0;
  int64_t ldx = 0, ldd = 0, ld_mul = 0, ld_add = 0, ld_shared = 0;
  const DenseSegment* segments = nullptr;
  int32_t n_segments = 0;
  const float* p[3] = {nullptr, nullptr, nullptr};
  int32_t part = 0, parts = 1;
};

/// A packed weight with the product that reads it; of a Linear's groups one behind the other.
struct GemmWeights {
  const void* packed = nullptr;
  int64_t group_bytes = 0;
  void (*gemm)(const GemmCall& c) = nullptr;
  void* scratch = nullptr;
  int32_t part = 0, parts = 1;  // of a product's columns, as in GemmCall
};

}  // namespace dpi::kernels::cpu
