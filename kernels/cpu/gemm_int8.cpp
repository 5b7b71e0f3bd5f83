// The product in int8: weights with a scale per column, four of a column, k to k + 3, in each 32-bit word;
// rows of x with a scale each, made as they are read. Sums are whole numbers, so they are exact and have no
// order; then they are scaled, and what follows is float32. So all sets give the same bits.
//
// A panel ends with 128 times the sum of each of its columns, for sets that read x as q + 128, and the
// columns' scales. simd/int8_terms.hpp has what multiplies.
#include "kernels/cpu/gemm_tiles.hpp"
#include "kernels/cpu/narrow_rows.hpp"
#include "kernels/cpu/pack_int8.hpp"
#include "kernels/cpu/simd/int8_terms.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

DPI_INLINE int64_t quads_of(int64_t k) { return (k + 3) / 4; }
/// A row of x in scratch: its whole numbers, its scale.
DPI_INLINE int64_t row_words(int64_t k) { return quads_of(k) * kRowWords + 1; }

struct Product {
  using Word = uint32_t;
#if defined(DPI_ISA_AVX512_VNNI) || defined(DPI_ISA_NEON_DOT)
  static constexpr int kWideRows = 4;
#elif defined(DPI_ISA_AVX512) || defined(DPI_ISA_NEON)
  static constexpr int kWideRows = 2;
#else
  [[maybe_unused]] static constexpr int kWideRows = 1;
#endif
  static DPI_INLINE int64_t words(int64_t k) { return quads_of(k) + 2; }

  static void begin(const GemmCall& c, int64_t first, int64_t rows) {
    auto* dst = static_cast<uint32_t*>(c.scratch);
    for (int64_t r = 0; r < rows; ++r)
      round_int8_row(c.x + (first + r) * c.ldx, c.k, quads_of(c.k) * kRowWords, dst + r * row_words(c.k));
  }

  template <int MR, int NV>
  static DPI_INLINE void accumulate(const Tile& t, Vec (&sum)[MR][NV]) {
    const int64_t stride = row_words(t.call->k);
    const auto* x = static_cast<const uint32_t*>(t.call->scratch) + (t.row - t.first) * stride;
    const auto columns = columns_of<Product, NV>(t);
    start_sums(sum);  // whole numbers until the end, in the same registers
    add_products(x, stride, quads_of(t.call->k), sum, [&](int64_t k, int v) { return columns.at(k, v); });
  }

  /// A sum with its scales. Not where sums are made: GCC would keep them in memory there.
  template <int NV>
  static DPI_INLINE Vec value(const Tile& t, int i, int v, Vec sum) {
    const int64_t quads = quads_of(t.call->k);
    const auto* x =
        static_cast<const uint32_t*>(t.call->scratch) + (t.row - t.first + i) * row_words(t.call->k);
    const auto columns = columns_of<Product, NV>(t);
    return scaled_sum(sum, columns.at(quads, v), columns.at(quads + 1, v), x + quads * kRowWords);
  }
};

}  // namespace

int64_t gemm_int8_words(int64_t n, int64_t k) {
  return (n + Vec::W - 1) / Vec::W * Vec::W * Product::words(k);
}

void gemm_int8_pack(const float* weight, int64_t n, int64_t k, uint32_t* packed) {
  pack_int8(weight, n, k, k, kPanel, Vec::W, packed);
}

int64_t gemm_int8_scratch(int64_t rows, int64_t k) {
  return min_of(rows, block_rows(k)) * row_words(k) * static_cast<int64_t>(sizeof(uint32_t));
}

void gemm_int8(const GemmCall& c) { run_gemm<Product>(c); }

}  // namespace dpi::kernels::cpu::DPI_ISA
