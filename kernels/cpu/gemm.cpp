#include "kernels/cpu/gemm_tiles.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

/// float32 as the bundle has it.
struct Plain {
  using Word = float;
#if defined(DPI_ISA_AVX512) || defined(DPI_ISA_NEON)
  static constexpr int kWideRows = 4;
#else
  [[maybe_unused]] static constexpr int kWideRows = 2;
#endif
  static DPI_INLINE int64_t words(int64_t k) { return k; }
  static DPI_INLINE void begin(const GemmCall&, int64_t, int64_t) {}

  template <int NV>
  static DPI_INLINE Vec value(const Tile&, int, int, Vec sum) {
    return sum;
  }

  template <int MR, int NV>
  static DPI_INLINE void accumulate(const Tile& t, Vec (&sum)[MR][NV]) {
    const int64_t ldx = t.call->ldx, depth = t.call->k;
    const float* x = t.call->x + t.row * ldx;
    const auto columns = columns_of<Plain, NV>(t);
    start_sums(sum);
    int64_t k = 0;
#if defined(DPI_ISA_NEON)
    for (; k + 4 <= depth; k += 4)
      add_four_terms(x + k, ldx, sum, [&](int term, int v) { return Vec::load(columns.at(k + term, v)); });
#endif
    for (; k < depth; ++k) {
      add_terms(x + k, ldx, sum, [&](int v) { return Vec::load(columns.at(k, v)); });
    }
  }
};

}  // namespace

int64_t gemm_panels(int64_t n) { return (n + kPanel - 1) / kPanel; }

int64_t gemm_packed_floats(int64_t n, int64_t k) { return (n + Vec::W - 1) / Vec::W * Vec::W * k; }

void gemm_pack(const float* weight, int64_t n, int64_t k, float* packed) {
  for (int64_t col = 0; col < n; col += kPanel) {
    const int64_t width = min_of<int64_t>(kPanel, (n - col + Vec::W - 1) / Vec::W * Vec::W);
    float* panel = packed + col * k;
    for (int64_t r = 0; r < k; ++r) {
      for (int64_t j = 0; j < width; ++j)
        panel[r * width + j] = col + j < n ? weight[(col + j) * k + r] : 0.0f;
    }
  }
}

void gemm(const GemmCall& c) { run_gemm<Plain>(c); }

}  // namespace dpi::kernels::cpu::DPI_ISA
