// MultiLookup: all lookups of a model in one op, output-first. It writes the GEMM-ready input matrix and, in
// the same pass, the per-row sums that the folds need: linear terms, FM, DCN-v1 scalars (DPIFrame, arXiv
// 2606.21101, section on multi-table lookup; the per-row scalars are ours).
//
//   out[r, col_f .. col_f + dim_f)  = pooled embedding of field f                 (fields with col >= 0)
//   out[r, col_j .. col_j + dim_j)  = x_j v_j, or x_j itself                      (numeric fields)
//   chan[r, c] = bias[c] + sum over scalar fields of pooled rows + sum_j x_j lin[j,c]
//   chan[r, fm_channel] += sum over pairs f < g of FM fields of e_f . e_g
//
// FM is summed pair by pair: each field's vector times the sum of those before it. The usual 0.5 (|S|^2 - sum
// |e_f|^2) costs as little, but is the difference of two numbers that may be far larger than it.
#pragma once

#include <dpi/kernels/embed.hpp>

namespace dpi::kernels {

/// The most channels of one lookup. Plans keep to it, because a tile of the cpu backend has room for no more
/// and would take the reference.
inline constexpr int32_t kMaxChannels = 128;

/// One embedding field. `input`: operand that holds its bags; `table`: index into tables. All pooling rules
/// of EmbedAttrs but kNone.
struct LookupField {
  EmbedAttrs embed;
  int32_t input = 0;
  int32_t table = 0;
  int32_t out_col = -1;  // first column in out, -1 = not copied
  bool fm = false;       // one of FM's fields
};

/// A table whose rows hold `count` scalars (an LR table, or a derived table); channel first_channel + k gets
/// column k. Pooled like an embedding field (kSingle, kSum, kMean).
struct ScalarField {
  EmbedAttrs embed;
  int32_t input = 0;
  int32_t table = 0;
  int32_t first_channel = 0;
  int32_t count = 1;
};

/// One numeric feature. `vec`: offset of its vector v_j in numeric_vec, -1 = the raw value (dim 1; or dim
/// floats of a dense feature). `coef`: offset in numeric_coef of lin[0..n_channels), -1 = none (dim 1
/// features only).
struct NumericField {
  int32_t input = 0;
  int32_t out_col = -1;
  int32_t dim = 1;
  int32_t vec = -1;
  int32_t coef = -1;
  bool fm = false;  // its vector x_j v_j is one of FM's
};

struct MultiLookupAttrs {
  const LookupField* fields = nullptr;
  const ScalarField* scalars = nullptr;
  const NumericField* numerics = nullptr;
  int32_t n_fields = 0;
  int32_t n_scalars = 0;
  int32_t n_numerics = 0;
  int32_t n_channels = 0;   // 0: no channel output
  int32_t fm_channel = -1;  // -1: no FM
  int32_t fm_dim = 0;
};

/// inputs: operands in the plan's order. tables: views in the plan's order. out: [rows, out_cols] with
/// row_stride >= out_cols (data null when no field has a column); columns no field writes are left alone.
/// chan: [rows, n_channels] (data null when 0). params: numeric_vec, numeric_coef (flat), channel_bias
/// [n_channels] or absent.
struct MultiLookupArgs {
  MultiLookupAttrs attrs;
  const Operand* inputs = nullptr;
  const TableView* tables = nullptr;
  Param numeric_vec;
  Param numeric_coef;
  Param channel_bias;
  int64_t rows = 0;
  Tensor out;
  Tensor chan;
};

namespace ref {
void multi_lookup(const MultiLookupArgs& a);
}
namespace cpu {
void multi_lookup(const MultiLookupArgs& a);
}

}  // namespace dpi::kernels
