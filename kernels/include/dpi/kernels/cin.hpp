// Cin: compressed interactions of fields (xDeepFM: Lian et al., KDD 2018, part 3), a layer at a time, without
// the products of every two fields in memory.
//
//   dst[o, d] = act(sum over pairs (i, j) of weight[o, (i, j)] x[i, d] y[j, d] + bias[o])
//
// Pairs row by row: (0, 0), (0, 1) .. (m - 1, n - 1). Without y the pairs are those of x with itself, each
// once: (i, j) with i <= j, m (m + 1) / 2 of them, row by row.
#pragma once

#include <dpi/kernels/unary.hpp>

namespace dpi::kernels {

struct CinAttrs {
  UnaryAttrs act;  // kinds without channel parameters
};

/// x: [rows, .. of m fields .., d]; y: [rows, .. of n fields .., d], data null: x with itself; dst: [rows,
/// out, d], where d is the last extent of all three; weight: [out, pairs]; bias: [out] or null. dst aliases
/// nothing.
struct CinArgs {
  CinAttrs attrs;
  Tensor x;
  Tensor y;
  Param weight;
  Param bias;
  Tensor dst;
};

/// Columns of the weight for m fields of x and n of y.
constexpr int64_t cin_pairs(int64_t m, int64_t n, bool with_itself) {
  return with_itself ? m * (m + 1) / 2 : m * n;
}

namespace ref {
void cin(const CinArgs& a);
}
namespace cpu {
void cin(const CinArgs& a);
}
namespace cuda {
int cin(const CinArgs& a, void* stream);
}

}  // namespace dpi::kernels
