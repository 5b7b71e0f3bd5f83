// Products in bf16 and int8 by AMX (the set amx): registers of 16 rows of 64 bytes, whose product is one
// instruction. Compiled for the model of these registers too (tile_model, in tests).
//
// Rows of x are made narrow into scratch, whole steps of 64 bytes each. Weights lie in panels of 16 columns,
// whole steps too, so that 16 rows of a panel are a register. A block of sums is 2 x 2 registers or, of 16
// rows and fewer, 1 x 4: four, as one waits for itself longer than three others take.
//
// bf16: the sum of a step's even terms and that of its odd ones are added, then added to the step's before;
// sums and operands below 2^-126 count as zero. So bits are not those of AVX-512 BF16, but a row's are those
// of every batch. int8: exact, with the bits of AVX-512 VNNI, which multiplies calls of few rows here.
#include "kernels/cpu/gemm_tiles.hpp"
#include "kernels/cpu/narrow_rows.hpp"
#include "kernels/cpu/pack_bf16.hpp"
#include "kernels/cpu/pack_int8.hpp"
#include "kernels/cpu/simd/tile_registers.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int kRows = kTileRegisterRows, kColumns = 16;
constexpr int kSums = 4;                     // registers 0 .. 3; rows of x are 4 and 5, weights 6 and 7
constexpr int64_t kBlockBytes = 512 * 1024;  // rows of x that panels pass over, in the second-level cache
constexpr int64_t kBlockRows = 2 * kRows;
[[maybe_unused]] constexpr int kVectorRows = 1;  // of int8: up to so many are faster without tile registers

DPI_INLINE int64_t rounded_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// Two of a column in each word.
struct Bf16 {
  using Word = uint32_t;
  static constexpr int64_t kStep = 32;
  static DPI_INLINE int64_t steps(int64_t k) { return (k + kStep - 1) / kStep; }
  static DPI_INLINE int64_t words(int64_t k) { return steps(k) * kRows; }

  static DPI_INLINE void round_row(const float* x, int64_t k, char* to) {
    auto* dst = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = k; i < steps(k) * kStep; ++i) dst[i] = 0;
    for_vectors(k, [&](int64_t i, int64_t n) { round_bf16(x + i, n, dst + i); });
  }

  template <int S, int A, int B>
  static DPI_INLINE void multiply() {
    Tiles::multiply_bf16<S, A, B>();
  }

  template <int NV>
  static DPI_INLINE Vec value(const Tile&, int, int, Vec sum) {
    return sum;
  }
};

/// Bytes of a row of x in scratch: its steps, and a line for what belongs to the row. It keeps rows of a
/// power of two from falling into the same lines of the cache.
template <class Form>
DPI_INLINE int64_t row_bytes(int64_t k) {
  return (Form::steps(k) + 1) * kTileRowBytes;
}

/// Four of a column in each word, and a panel's two rows of words as pack_int8 writes them.
struct Int8 {
  using Word = uint32_t;
  static constexpr int64_t kStep = 64;
  static DPI_INLINE int64_t steps(int64_t k) { return (k + kStep - 1) / kStep; }
  static DPI_INLINE int64_t words(int64_t k) { return steps(k) * kRows + 2; }

  static DPI_INLINE void round_row(const float* x, int64_t k, char* to) {
    round_int8_row(x, k, steps(k) * kRows, reinterpret_cast<uint32_t*>(to));
  }

  template <int S, int A, int B>
  static DPI_INLINE void multiply() {
    Tiles::multiply_int8<S, A, B>();
  }

  template <int NV>
  static DPI_INLINE Vec value(const Tile& t, int i, int v, Vec sum) {
    const int64_t k = t.call->k, rows = steps(k) * kRows;
    const char* row = static_cast<const char*>(t.call->scratch) + (t.row - t.first + i) * row_bytes<Int8>(k);
    const auto columns = columns_of<Int8, NV>(t);
    return scaled_sum(sum, columns.at(rows, v), columns.at(rows + 1, v),
                      reinterpret_cast<const uint32_t*>(row) + rows);
  }
};

#if defined(DPI_ISA_AMX)
/// The same weights and rows multiplied by AVX-512 VNNI: for so few rows that a register would be nearly
/// empty.
struct Int8Vectors : Int8 {
  template <int MR, int NV>
  static DPI_INLINE void accumulate(const Tile& t, Vec (&sum)[MR][NV]) {
    const int64_t k = t.call->k, stride = row_bytes<Int8>(k) / 4;
    const auto* x = static_cast<const uint32_t*>(t.call->scratch) + (t.row - t.first) * stride;
    const auto columns = columns_of<Int8, NV>(t);
    start_sums(sum);
    for (int64_t q = 0; q < (k + 3) / 4; ++q) {
      add_step(
          sum, [&](int i) { return _mm512_set1_epi32(static_cast<int32_t>(x[i * stride + q])); },
          [&](int v) { return _mm512_loadu_si512(columns.at(q, v)); },
          [](Vec s, __m512i a, __m512i w) {
            return Vec{_mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(s.v), a, w))};
          });
    }
  }
};
#endif

template <class Form>
DPI_INLINE int64_t rows_of_block(int64_t k) {
  return max_of<int64_t>(kBlockBytes / row_bytes<Form>(k) / kBlockRows, 1) * kBlockRows;
}

/// R registers of rows, of which the last has `last` rows, by up to kSums / R registers of columns.
template <int R>
void configure(int64_t last) {
  TileConfig c{};
  c.palette = 1;
  for (int t = 0; t < kTileRegisters; ++t) {
    const int row = t < kSums ? t / (kSums / R) : t - kSums;
    c.row_bytes[t] = kTileRowBytes;
    c.rows[t] = static_cast<uint8_t>(t < kSums + 2 && row == R - 1 ? last : kRows);
  }
  Tiles::configure(c);
}

/// Sums of R x C registers, from x and w on, to `sums`, each register's one behind the other.
template <class Form, int R, int C>
DPI_INLINE void accumulate(const GemmCall& c, const char* x, const char* w, float* sums) {
  const int64_t x_row = row_bytes<Form>(c.k), steps = Form::steps(c.k);
  const int64_t panel = Form::words(c.k) * kColumns * static_cast<int64_t>(sizeof(uint32_t));
  for_constants<R>([&]<int r>() { for_constants<C>([&]<int v>() { Tiles::zero<r*(kSums / R) + v>(); }); });
  for (int64_t s = 0; s < steps; ++s) {
    for_constants<R>([&]<int r>() { Tiles::load<kSums + r>(x + r * kRows * x_row, x_row); });
    for_constants<C>([&]<int v>() {
      constexpr int kWeights = kSums + 2 + v % 2;
      Tiles::load<kWeights>(w + v * panel, kTileRowBytes);
      for_constants<R>([&]<int r>() { Form::template multiply<r*(kSums / R) + v, kSums + r, kWeights>(); });
    });
    x += kTileRowBytes;
    w += kRows * kTileRowBytes;
  }
  for_constants<R>([&]<int r>() {
    for_constants<C>([&]<int v>() {
      Tiles::store<r*(kSums / R) + v>(sums + (r * C + v) * kRows * kColumns, kTileRowBytes);
    });
  });
}

/// `rows` rows of C registers' sums, from t.row on.
template <class Form, int C>
DPI_INLINE void finish_rows(Tile t, const float* sums, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i, ++t.row) {
    Vec sum[1][C * kPanelVecs];
    DPI_UNROLL
    for (int v = 0; v < C * kPanelVecs; ++v) {
      sum[0][v] =
          Vec::load(sums + v / kPanelVecs * kRows * kColumns + i * kColumns + v % kPanelVecs * Vec::W);
    }
    finish<Form, 1, C * kPanelVecs>(t, sum);
  }
}

/// `rows` <= R * kRows rows against C registers of columns.
template <class Form, int R, int C>
void run_registers(const Tile& at, int64_t rows) {
  alignas(64) float sums[kSums * kRows * kColumns];
  const GemmCall& c = *at.call;
  const char* x = static_cast<const char*>(c.scratch) + (at.row - at.first) * row_bytes<Form>(c.k);
  accumulate<Form, R, C>(c, x, static_cast<const char*>(at.panel), sums);
  Tile t = at;
  for (int64_t r = 0; r < rows; r += kRows, t.row += kRows)
    finish_rows<Form, C>(t, sums + r / kRows * C * kRows * kColumns, min_of<int64_t>(rows - r, kRows));
}

template <class Form, int R, int C>
void run_columns(const Tile& t, int64_t rows, int64_t registers) {
  if (registers == C) return run_registers<Form, R, C>(t, rows);
  if constexpr (C > 1) run_columns<Form, R, C - 1>(t, rows, registers);
}

/// Rows [row, row + rows) of the block that begins with row `first`, R registers of them at a time.
template <class Form, int R>
void run_rows_of_block(const GemmCall& c, int64_t first, int64_t row, int64_t rows, int64_t begin,
                       int64_t end) {
  configure<R>((rows - 1) % kRows + 1);
  int64_t left = (end - begin + kColumns - 1) / kColumns;
  int64_t turns = (left + kSums / R - 1) / (kSums / R);
  for (int64_t col = begin; col < end; --turns) {
    const int64_t registers = (left + turns - 1) / turns, cols = min_of(registers * kColumns, end - col);
    Tile t = tile_at<Form>(c, first, col, cols);
    for (int64_t r = 0; r < rows; r += R * kRows) {
      t.row = row + r;
      run_columns<Form, R, kSums / R>(t, min_of<int64_t>(rows - r, R * kRows), registers);
    }
    left -= registers;
    col += cols;
  }
}

template <class Form>
DPI_INLINE void round_rows(const GemmCall& c, int64_t first, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    Form::round_row(c.x + (first + r) * c.ldx, c.k, static_cast<char*>(c.scratch) + r * row_bytes<Form>(c.k));
  }
}

template <class Form>
void run_product(const GemmCall& c) {
  if (c.parts > 1 && c.m <= kTileRows) ask_rows(c);
  const int64_t block = rows_of_block<Form>(c.k), begin = part_begin(c, c.part);
  const int64_t end = min_of(part_begin(c, c.part + 1), c.n);
  if (begin >= end) return;
  for (int64_t first = 0; first < c.m; first += block) {
    const int64_t rows = min_of(block, c.m - first), whole = rows / kBlockRows * kBlockRows;
    round_rows<Form>(c, first, rows);
    if (whole > 0) run_rows_of_block<Form, 2>(c, first, first, whole, begin, end);
    if (rows - whole > kRows) run_rows_of_block<Form, 2>(c, first, first + whole, rows - whole, begin, end);
    if (rows > whole && rows - whole <= kRows)
      run_rows_of_block<Form, 1>(c, first, first + whole, rows - whole, begin, end);
  }
  Tiles::release();
}

template <class Form>
DPI_INLINE int64_t packed_words(int64_t n, int64_t k) {
  return rounded_up(n, kColumns) * Form::words(k);
}

template <class Form>
DPI_INLINE int64_t scratch_bytes(int64_t rows, int64_t k) {
  return min_of(rows, rows_of_block<Form>(k)) * row_bytes<Form>(k);
}

}  // namespace

int64_t gemm_bf16_words(int64_t n, int64_t k) { return packed_words<Bf16>(n, k); }
void gemm_bf16_pack(const float* weight, int64_t n, int64_t k, uint32_t* packed) {
  pack_bf16(weight, n, k, Bf16::steps(k) * Bf16::kStep, kColumns, kColumns, packed);
}
int64_t gemm_bf16_scratch(int64_t rows, int64_t k) { return scratch_bytes<Bf16>(rows, k); }
void gemm_bf16(const GemmCall& c) { run_product<Bf16>(c); }

int64_t gemm_int8_words(int64_t n, int64_t k) { return packed_words<Int8>(n, k); }
void gemm_int8_pack(const float* weight, int64_t n, int64_t k, uint32_t* packed) {
  pack_int8(weight, n, k, Int8::steps(k) * Int8::kStep, kColumns, kColumns, packed);
}
int64_t gemm_int8_scratch(int64_t rows, int64_t k) { return scratch_bytes<Int8>(rows, k); }
void gemm_int8(const GemmCall& c) {
#if defined(DPI_ISA_AMX)
  if (c.m <= kVectorRows && c.m > 0) {
    const int64_t begin = part_begin(c, c.part), end = min_of(part_begin(c, c.part + 1), c.n);
    round_rows<Int8>(c, 0, c.m);
    return run_wide_rows<Int8Vectors, kVectorRows>(c, 0, c.m, begin, end);
  }
#endif
  run_product<Int8>(c);
}

}  // namespace dpi::kernels::cpu::DPI_ISA
