#include <dpi/kernels/fm.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

void fm(const FmArgs& a) {
  const int64_t fields = a.attrs.fields, dim = a.attrs.dim;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* x = row_of(a.x, r);
    // |S|^2 - sum |e|^2 is taken per column: summed over columns first, both would be large, and their
    // difference would lose digits.
    Vec total = Vec::zero();
    for_vectors(dim, [&](int64_t i, int64_t k) {
      Vec sum = Vec::zero(), squares = Vec::zero();
      for (int64_t f = 0; f < fields; ++f) {
        const Vec e = load_n(x + f * dim + i, k);
        sum = sum + e;
        squares = fma(e, e, squares);
      }
      total = total + fma(sum, sum, Vec::zero() - squares);
    });
    *row_of(a.dst, r) = 0.5f * total.sum();
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
