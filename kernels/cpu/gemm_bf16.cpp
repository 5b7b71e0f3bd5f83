// The product with weights in bf16: two of a column, k and k + 1, in each 32-bit word.
//
// Where the processor multiplies bf16 (AVX-512 BF16: the set avx512_bf16) x is rounded too, as it is read,
// and what is below 2^-126 counts as zero. Elsewhere weights are widened as they are read and x stays
// float32: half the bytes, the arithmetic of gemm.cpp. Both ways a sum is one sequence over k whatever the
// tile.
#include "kernels/cpu/gemm_tiles.hpp"
#include "kernels/cpu/narrow_rows.hpp"
#include "kernels/cpu/pack_bf16.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

DPI_INLINE int64_t pairs_of(int64_t k) { return (k + 1) / 2; }

#if defined(DPI_ISA_AVX512_BF16)

/// Both operands in bf16.
struct Product {
  using Word = uint32_t;
  static constexpr int kWideRows = 4;
  static constexpr bool kScratch = true;
  static DPI_INLINE int64_t words(int64_t k) { return pairs_of(k); }

  template <int NV>
  static DPI_INLINE Vec value(const Tile&, int, int, Vec sum) {
    return sum;
  }

  /// Rounds the block's rows into scratch, an even number of elements each.
  static void begin(const GemmCall& c, int64_t first, int64_t rows) {
    auto* dst = static_cast<uint16_t*>(c.scratch);
    for (int64_t r = first; r < first + rows; ++r, dst += 2 * pairs_of(c.k)) {
      const float* x = c.x + r * c.ldx;
      for_vectors(c.k, [&](int64_t i, int64_t n) { round_bf16(x + i, n, dst + i); });
      if (c.k % 2 != 0) dst[c.k] = 0;
    }
  }

  template <int MR, int NV>
  static DPI_INLINE void accumulate(const Tile& t, Vec (&sum)[MR][NV]) {
    const int64_t pairs = pairs_of(t.call->k);
    const auto* x = static_cast<const uint32_t*>(t.call->scratch) + (t.row - t.first) * pairs;
    const auto columns = columns_of<Product, NV>(t);
    start_sums(sum);
    for (int64_t k = 0; k < pairs; ++k) {
      add_step(
          sum, [&](int i) { return _mm512_set1_epi32(static_cast<int32_t>(x[i * pairs + k])); },
          [&](int v) { return _mm512_loadu_si512(columns.at(k, v)); },
          [](Vec s, __m512i a, __m512i w) {
            return Vec{_mm512_dpbf16_ps(s.v, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(w))};
          });
    }
  }
};

#else

/// Weights in bf16, x and sums in float32.
struct Product {
  using Word = uint32_t;
  // With AVX2 two rows and what is being widened need more registers than there are; three and four rows have
  // sums enough in one panel.
#if defined(DPI_ISA_AVX512) || defined(DPI_ISA_NEON)
  static constexpr int kWideRows = 2;
#else
  [[maybe_unused]] static constexpr int kWideRows = 1;
#endif
  static constexpr bool kScratch = false;
  static DPI_INLINE int64_t words(int64_t k) { return pairs_of(k); }

  template <int NV>
  static DPI_INLINE Vec value(const Tile&, int, int, Vec sum) {
    return sum;
  }
  static DPI_INLINE void begin(const GemmCall&, int64_t, int64_t) {}

  template <int MR, int NV>
  static DPI_INLINE void accumulate(const Tile& t, Vec (&sum)[MR][NV]) {
    const int64_t ldx = t.call->ldx, depth = t.call->k;
    const float* x = t.call->x + t.row * ldx;
    const auto columns = columns_of<Product, NV>(t);
    const auto lower = [&](int64_t pair) {
      return [&columns, pair](int v) { return Vec::load_lower_bf16(columns.at(pair, v)); };
    };
    start_sums(sum);
    int64_t k = 0;
#if defined(DPI_ISA_NEON)
    for (; k + 4 <= depth; k += 4) {
      add_four_terms(x + k, ldx, sum, [&](int term, int v) {
        const uint32_t* const words = columns.at((k + term) / 2, v);
        return term % 2 == 0 ? Vec::load_lower_bf16(words) : Vec::load_upper_bf16(words);
      });
    }
#endif
    for (; k + 2 <= depth; k += 2) {
      add_terms(x + k, ldx, sum, lower(k / 2));
#if defined(DPI_ISA_AVX2)
      // The words are read a second time: kept meanwhile, they would push sums out of the 16 registers.
      asm volatile("" : : : "memory");
#endif
      add_terms(x + k + 1, ldx, sum, [&](int v) { return Vec::load_upper_bf16(columns.at(k / 2, v)); });
    }
    if (k < depth) add_terms(x + k, ldx, sum, lower(k / 2));
  }
};

#endif

}  // namespace

int64_t gemm_bf16_words(int64_t n, int64_t k) { return (n + Vec::W - 1) / Vec::W * Vec::W * pairs_of(k); }

void gemm_bf16_pack(const float* weight, int64_t n, int64_t k, uint32_t* packed) {
  pack_bf16(weight, n, k, k, kPanel, Vec::W, packed);
}

int64_t gemm_bf16_scratch(int64_t rows, int64_t k) {
  return Product::kScratch
             ? min_of(rows, block_rows(k)) * pairs_of(k) * static_cast<int64_t>(sizeof(uint32_t))
             : 0;
}

void gemm_bf16(const GemmCall& c) { run_gemm<Product>(c); }

}  // namespace dpi::kernels::cpu::DPI_ISA
