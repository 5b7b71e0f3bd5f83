// The functions that exist once per instruction set, and the table of them that a device chooses when it is
// opened. dpi::kernels::cpu::{scalar,avx2,avx512,neon} declare the same names, avx512_bf16, avx512_vnni, amx
// neon_dot and neon_mmla those that differ from the set they extend; nothing outside kernels/cpu and
// sdk/src/backend/cpu uses them.
#pragma once

#include <dpi/kernels/attention.hpp>
#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/cin.hpp>
#include <dpi/kernels/co_action.hpp>
#include <dpi/kernels/concat.hpp>
#include <dpi/kernels/cross_v1.hpp>
#include <dpi/kernels/elementwise.hpp>
#include <dpi/kernels/fm.hpp>
#include <dpi/kernels/gather.hpp>
#include <dpi/kernels/layer_norm.hpp>
#include <dpi/kernels/linear.hpp>
#include <dpi/kernels/matmul.hpp>
#include <dpi/kernels/multi_lookup.hpp>
#include <dpi/kernels/recurrent.hpp>
#include <dpi/kernels/reduce.hpp>
#include <dpi/kernels/softmax.hpp>
#include <dpi/kernels/tail.hpp>
#include <dpi/kernels/top_k.hpp>
#include <dpi/kernels/unary.hpp>
#include <dpi/kernels/view.hpp>
#include <dpi/kernels/where.hpp>

#include "kernels/cpu/gemm.hpp"

namespace dpi::kernels::cpu {

/// Floats that the widest pooled row takes which goes to no column of the output: beside the tile's sums, on
/// the stack. dim_of(table): its width.
template <class DimOf>
int64_t spare_floats(const MultiLookupAttrs& attrs, bool has_out, DimOf dim_of) {
  int64_t most = 0;
  const auto take = [&most](int64_t n) { most = n > most ? n : most; };
  for (int32_t i = 0; i < attrs.n_fields; ++i) {
    const LookupField& f = attrs.fields[i];
    if (f.embed.pooling != Pooling::kSingle && (f.out_col < 0 || !has_out)) take(dim_of(f.table));
  }
  for (int32_t i = 0; i < attrs.n_scalars; ++i) {
    const ScalarField& s = attrs.scalars[i];  // the rule `nonzero` is about whole rows
    take(s.embed.mask == MaskRule::kNonzero ? dim_of(s.table) : s.count);
  }
  return most;
}

/// Rows whose part of a Linear that repeats along the positions is multiplied together: linear_positions has
/// scratch for so many outputs.
constexpr int64_t kOnceRows = 16;

/// Slices that count which linear_positions multiplies together: it has scratch for so many inputs and
/// outputs.
constexpr int64_t kPlaceRows = 48;

/// gemm_pack of a Recurrent's weights. hidden: with ResetGate::kBefore two packs, the rows of r and z and,
/// behind them, those of n.
struct RecurrentWeights {
  const float* input = nullptr;
  const float* hidden = nullptr;
};

// clang-format off
#define DPI_CPU_BF16_FUNCTIONS(F)                                                        \
  F(int64_t, gemm_bf16_words, (int64_t n, int64_t k))                                    \
  F(void, gemm_bf16_pack, (const float* weight, int64_t n, int64_t k, uint32_t* packed)) \
  F(int64_t, gemm_bf16_scratch, (int64_t rows, int64_t k))                               \
  F(void, gemm_bf16, (const GemmCall& c))

#define DPI_CPU_INT8_FUNCTIONS(F)                                                        \
  F(int64_t, gemm_int8_words, (int64_t n, int64_t k))                                    \
  F(void, gemm_int8_pack, (const float* weight, int64_t n, int64_t k, uint32_t* packed)) \
  F(int64_t, gemm_int8_scratch, (int64_t rows, int64_t k))                               \
  F(void, gemm_int8, (const GemmCall& c))

#define DPI_CPU_FUNCTIONS(F)                                                     \
  F(void, multi_lookup, (const MultiLookupArgs& a))                              \
  F(bool, multi_lookup_fits, (const MultiLookupAttrs& attrs, int64_t spare))     \
  F(void, embed, (const EmbedArgs& a))                                           \
  F(void, elementwise, (const ElementwiseArgs& a))                               \
  F(void, unary, (const UnaryArgs& a))                                           \
  F(void, binary, (const BinaryArgs& a))                                         \
  F(void, where, (const WhereArgs& a))                                           \
  F(void, top_k, (const TopKArgs& a))                                            \
  F(void, gather, (const GatherArgs& a))                                         \
  F(void, cross_v1, (const CrossV1Args& a))                                      \
  F(void, cross_v1_closed, (const CrossV1ClosedArgs& a))                         \
  F(void, fm, (const FmArgs& a))                                                 \
  F(void, tail, (const TailArgs& a))                                             \
  F(void, co_action, (const CoActionArgs& a))                                    \
  F(void, cin, (const CinArgs& a))                                               \
  F(void, layer_norm, (const LayerNormArgs& a))                                  \
  F(void, softmax, (const SoftmaxArgs& a))                                       \
  F(void, reduce, (const ReduceArgs& a))                                         \
  F(void, matmul, (const MatMulArgs& a))                                         \
  F(void, concat, (const ConcatArgs& a))                                         \
  F(void, view, (const ViewArgs& a))                                             \
  F(void, broadcast_rows, (const BroadcastRowsArgs& a))                          \
  F(void, linear, (const LinearArgs& a))                                         \
  F(void, linear_packed, (const LinearArgs& a, const GemmWeights& w))            \
  F(void, linear_once, (const LinearArgs& a, const float* packed))               \
  F(void, linear_positions, (const LinearArgs& a, const GemmWeights& w))            \
  F(int64_t, attention_scratch_floats, (const AttentionAttrs& a))                \
  F(void, attention, (const AttentionArgs& a))                                   \
  F(int64_t, recurrent_scratch_floats, (int64_t steps, int64_t in, int64_t m))   \
  F(void, recurrent_packed, (const RecurrentArgs& a, const RecurrentWeights& w)) \
  F(int64_t, gemm_panels, (int64_t n))                                           \
  F(int64_t, gemm_packed_floats, (int64_t n, int64_t k))                         \
  F(void, gemm_pack, (const float* weight, int64_t n, int64_t k, float* packed)) \
  F(void, gemm, (const GemmCall& c))                                             \
  DPI_CPU_BF16_FUNCTIONS(F)                                                      \
  DPI_CPU_INT8_FUNCTIONS(F)
// clang-format on

#define DPI_CPU_DECLARE(result, name, params) result name params;
namespace scalar {
DPI_CPU_FUNCTIONS(DPI_CPU_DECLARE)
}
namespace avx2 {
DPI_CPU_FUNCTIONS(DPI_CPU_DECLARE)
}
namespace avx512 {
DPI_CPU_FUNCTIONS(DPI_CPU_DECLARE)
}
namespace avx512_bf16 {
DPI_CPU_BF16_FUNCTIONS(DPI_CPU_DECLARE)
}
namespace avx512_vnni {
DPI_CPU_INT8_FUNCTIONS(DPI_CPU_DECLARE)
}
namespace amx {
DPI_CPU_BF16_FUNCTIONS(DPI_CPU_DECLARE)
DPI_CPU_INT8_FUNCTIONS(DPI_CPU_DECLARE)
}  // namespace amx
namespace neon {
DPI_CPU_FUNCTIONS(DPI_CPU_DECLARE)
}
namespace neon_dot {
DPI_CPU_INT8_FUNCTIONS(DPI_CPU_DECLARE)
}
namespace neon_mmla {
DPI_CPU_BF16_FUNCTIONS(DPI_CPU_DECLARE)
DPI_CPU_INT8_FUNCTIONS(DPI_CPU_DECLARE)
}  // namespace neon_mmla
namespace tile_model {  // in tests only
DPI_CPU_BF16_FUNCTIONS(DPI_CPU_DECLARE)
DPI_CPU_INT8_FUNCTIONS(DPI_CPU_DECLARE)
}  // namespace tile_model
#undef DPI_CPU_DECLARE

#define DPI_CPU_POINTER(result, name, params) result(*name) params = nullptr;
struct Functions {
  DPI_CPU_FUNCTIONS(DPI_CPU_POINTER)
};
#undef DPI_CPU_POINTER

/// kAvx512Bf16, kAvx512Vnni, kAmx: avx512 with a processor's own products of bf16, of int8, and of both.
/// kNeonDot: neon with those of int8. kNeonMmla: neon with products of matrices in bf16 and int8.
enum class Isa : int32_t {
  kScalar = 0,
  kAvx2 = 1,
  kAvx512 = 2,
  kAvx512Bf16 = 3,
  kAvx512Vnni = 4,
  kAmx = 5,
  kNeon = 6,
  kNeonDot = 7,
  kNeonMmla = 8
};
constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512,  Isa::kAvx512Bf16, Isa::kAvx512Vnni,
                         Isa::kAmx,    Isa::kNeon, Isa::kNeonDot, Isa::kNeonMmla};

/// The types to which weights of layers are packed.
enum class Weights : int32_t { kF32, kBf16, kInt8 };

const char* isa_name(Isa isa);

/// True if this processor and its operating system run the set. The products of kAmx need the kernel's
/// permission besides: tile_permission.hpp.
bool isa_supported(Isa isa);

/// The best supported set for such weights but kAmx.
Isa best_isa(Weights weights = Weights::kF32);

const Functions& functions(Isa isa);

/// True if Functions::softmax takes these arguments: last axis, mask absent or of x's dims. Reads dims and
/// attrs only.
bool softmax_is_plain(const SoftmaxArgs& a);

}  // namespace dpi::kernels::cpu
