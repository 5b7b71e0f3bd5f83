// Products in bf16 and int8 by BFMMLA and SMMLA (the set neon_mmla): one instruction multiplies eight bytes
// of each of two rows by eight bytes of each of two columns, into 2 x 2 sums in one register.
//
// Rows of x are made narrow into scratch in pairs, eight bytes of one row and eight of the other in turn.
// Weights lie in panels as everywhere, in words of eight bytes, so that two columns are a register.
//
// bf16: in each instruction the first two terms are added to each other, then to the sum, then the other two;
// additions round to odd, and what is below 2^-126 counts as zero. So a row's bits are those of every batch,
// but not those of other sets. int8: exact, with the bits of all sets.
#include "kernels/cpu/gemm_tiles.hpp"
#include "kernels/cpu/narrow_rows.hpp"
#include "kernels/cpu/pack_bf16.hpp"
#include "kernels/cpu/pack_int8.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kPiece = 8;  // bytes of a row, or of a column, in one instruction

/// Elements in a piece, and how a row becomes pieces, 2 * kPiece bytes apart.
struct Bf16 {
  static constexpr int64_t kElements = 4, kRest = 0;  // kRest: words behind a column's pieces
  using Sums = float32x4_t;

  static DPI_INLINE Sums zero() { return vdupq_n_f32(0); }
  static DPI_INLINE Sums multiply(Sums s, uint8x16_t x, uint8x16_t w) {
    return vbfmmlaq_f32(s, vreinterpretq_bf16_u8(x), vreinterpretq_bf16_u8(w));
  }
  static DPI_INLINE uint64x2_t bits(Sums s) { return vreinterpretq_u64_f32(s); }

  static void round_row(const float* x, int64_t k, int64_t, uint8_t* dst) {
    for_vectors(k, [&](int64_t i, int64_t n) {
      const Vec v = load_n(x + i, n), most = Vec::all(0x1.fep127f);
      const Vec cut = min(most, max(Vec::zero() - most, v));
      const Vec safe = select(abs(v) < Vec::all(__builtin_inff()), cut, v);
      vst1_u16(reinterpret_cast<uint16_t*>(dst + i / kElements * 2 * kPiece),
               vreinterpret_u16_bf16(vcvt_bf16_f32(safe.v)));
    });
  }
};

struct Int8 {
  static constexpr int64_t kElements = 8, kRest = 1;  // 128 times its sum, which is not read, and its scale
  using Sums = int32x4_t;

  static DPI_INLINE Sums zero() { return vdupq_n_s32(0); }
  static DPI_INLINE Sums multiply(Sums s, uint8x16_t x, uint8x16_t w) {
    return vmmlaq_s32(s, vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(w));
  }
  static DPI_INLINE uint64x2_t bits(Sums s) { return vreinterpretq_u64_s32(s); }

  /// The scale is in the place of one more piece.
  static void round_row(const float* x, int64_t k, int64_t pieces, uint8_t* dst) {
    const float scale = row_scale(x, k);
    const Vec factor = Vec::all(scale > 0 ? 1.0f / scale : 0.0f);
    std::memset(dst + (pieces - 1) * 2 * kPiece, 0, kPiece);
    for_vectors(k, [&](int64_t i, int64_t n) {
      const Vec v = scale > 0 ? load_n(x + i, n) * factor : Vec::zero();
      store_bytes(v, n, dst + i / kElements * 2 * kPiece + i % kElements);
    });
    __builtin_memcpy(dst + pieces * 2 * kPiece, &scale, sizeof scale);
  }
};

template <class Form>
struct Product {
  using Word = uint64_t;
  static constexpr int kWideRows = 4;

  static DPI_INLINE int64_t pieces(int64_t k) { return (k + Form::kElements - 1) / Form::kElements; }
  static DPI_INLINE int64_t words(int64_t k) { return pieces(k) + Form::kRest; }
  static DPI_INLINE int64_t pair_bytes(int64_t k) { return words(k) * 2 * kPiece; }

  /// Row r of the block: every second piece from here on.
  static DPI_INLINE uint8_t* row_at(const GemmCall& c, int64_t r) {
    return static_cast<uint8_t*>(c.scratch) + r / 2 * pair_bytes(c.k) + r % 2 * kPiece;
  }

  static void begin(const GemmCall& c, int64_t first, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r)
      Form::round_row(c.x + (first + r) * c.ldx, c.k, pieces(c.k), row_at(c, r));
    for (int64_t s = 0; rows % 2 != 0 && s < pieces(c.k); ++s)
      std::memset(row_at(c, rows) + s * 2 * kPiece, 0, kPiece);  // the last row's partner
  }

  /// Tiles begin with the first row of a pair (kRowUnit).
  template <int MR, int NV>
  static DPI_INLINE void accumulate(const Tile& t, Vec (&sum)[MR][NV]) {
    constexpr int kPairs = (MR + 1) / 2;
    const int64_t steps = pieces(t.call->k), apart = pair_bytes(t.call->k);
    const uint8_t* x = row_at(*t.call, t.row - t.first);
    const auto columns = columns_of<Product, NV>(t);
    typename Form::Sums square[kPairs][2 * NV];
    DPI_UNROLL
    for (int p = 0; p < kPairs; ++p) {
      DPI_UNROLL
      for (int c = 0; c < 2 * NV; ++c) square[p][c] = Form::zero();
    }
    for (int64_t s = 0; s < steps; ++s, x += 2 * kPiece) {
      uint8x16_t rows[kPairs];
      DPI_UNROLL
      for (int p = 0; p < kPairs; ++p) rows[p] = vld1q_u8(x + p * apart);
      DPI_UNROLL
      for (int c = 0; c < 2 * NV; ++c) {
        // A column's weights are read when they are due: GCC 12 reads all first, and then has no registers
        // for three of the 24 sums.
        asm volatile("" : : : "memory");
        const uint8x16_t w = vreinterpretq_u8_u64(vld1q_u64(columns.at(s, c / 2) + c % 2 * 2));
        DPI_UNROLL
        for (int p = 0; p < kPairs; ++p) square[p][c] = Form::multiply(square[p][c], rows[p], w);
      }
    }
    DPI_UNROLL
    for (int i = 0; i < MR; ++i) {
      DPI_UNROLL
      for (int v = 0; v < NV; ++v) {
        const uint64x2_t a = Form::bits(square[i / 2][2 * v]), b = Form::bits(square[i / 2][2 * v + 1]);
        sum[i][v] = {vreinterpretq_f32_u64(i % 2 == 0 ? vzip1q_u64(a, b) : vzip2q_u64(a, b))};
      }
    }
  }

  template <int NV>
  static DPI_INLINE Vec value(const Tile& t, int i, int v, Vec sum) {
    if constexpr (Form::kRest == 0) {
      return sum;
    } else {
      const int64_t steps = pieces(t.call->k);
      const int first = v / kPanelVecs * kPanelVecs, vecs = min_of(kPanelVecs, NV - first);
      const auto columns = columns_of<Product, NV>(t);
      const auto* rest = reinterpret_cast<const uint32_t*>(columns.at(steps, first));
      const uint8_t* row = row_at(*t.call, t.row - t.first + i) + steps * 2 * kPiece;
      return scaled_sum(sum, nullptr, rest + (vecs + v - first) * Vec::W,
                        reinterpret_cast<const uint32_t*>(row));
    }
  }
};

template <class Form>
DPI_INLINE int64_t packed_words(int64_t n, int64_t k) {
  return (n + Vec::W - 1) / Vec::W * Vec::W * Product<Form>::words(k) * 2;
}

template <class Form>
DPI_INLINE int64_t scratch_bytes(int64_t rows, int64_t k) {
  return (min_of(rows, block_rows(k)) + 1) / 2 * Product<Form>::pair_bytes(k);
}

}  // namespace

int64_t gemm_bf16_words(int64_t n, int64_t k) { return packed_words<Bf16>(n, k); }
void gemm_bf16_pack(const float* weight, int64_t n, int64_t k, uint32_t* packed) {
  pack_bf16(weight, n, k, Product<Bf16>::pieces(k) * Bf16::kElements, kPanel, Vec::W, packed, 2);
}
int64_t gemm_bf16_scratch(int64_t rows, int64_t k) { return scratch_bytes<Bf16>(rows, k); }
void gemm_bf16(const GemmCall& c) { run_gemm<Product<Bf16>>(c); }

int64_t gemm_int8_words(int64_t n, int64_t k) { return packed_words<Int8>(n, k); }
void gemm_int8_pack(const float* weight, int64_t n, int64_t k, uint32_t* packed) {
  pack_int8(weight, n, k, Product<Int8>::pieces(k) * Int8::kElements, kPanel, Vec::W, packed, 2);
}
int64_t gemm_int8_scratch(int64_t rows, int64_t k) { return scratch_bytes<Int8>(rows, k); }
void gemm_int8(const GemmCall& c) { run_gemm<Product<Int8>>(c); }

}  // namespace dpi::kernels::cpu::DPI_ISA
