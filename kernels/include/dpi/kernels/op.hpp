// The vocabulary of ops: the primitives of weights/FORMAT.md part 7 and the fused forms that the
// plan makes of them. Values are part of the backend ABI: append only. Names and everything else about a
// kind: sdk/src/ops/table.cpp.
#pragma once

#include <cstdint>

namespace dpi::kernels {

enum class OpKind : int32_t {
  // primitives
  kInput = 0,
  kConst = 1,
  kEmbed = 2,
  kMask = 3,
  kLinear = 4,
  kMatMul = 5,
  kBinary = 6,
  kUnary = 7,
  kLayerNorm = 8,
  kSoftmax = 9,
  kReduce = 10,
  kConcat = 11,
  kView = 12,
  kRecurrent = 13,
  // inserted where row spaces meet
  kBroadcastRows = 14,
  // fused forms
  kMultiLookup = 15,  // all lookups of a model, GEMM-ready output, per-row sums, FM sum
  kDense = 16,  // linear + bias + activation (+ times x0, + residual): MLP layers, cross v2, merged GEMMs
  kElementwise = 17,    // several element-wise steps in one pass
  kCrossV1 = 18,        // all layers of DCN's cross network, step by step
  kCrossV1Closed = 19,  // the same after the closed-form fold: per-row scalars only
  kFm = 20,             // 0.5 (|sum e|^2 - sum |e|^2)
  kTail = 21,           // dot products of all branches + scalars + bias, activation
  // primitives that came later
  kWhere = 22,
  kTopK = 23,
  kGather = 24,
  // fused forms that came later
  kCoAction = 25,   // CAN: a micro-MLP out of one feature's row over the items of another
  kAttention = 26,  // softmax(q k^T) v, heads and masked positions; a primitive too, since format 2.2
  kCin = 27,        // xDeepFM: sums of products of every two fields, one layer
  kCount = 28,
};

}  // namespace dpi::kernels
