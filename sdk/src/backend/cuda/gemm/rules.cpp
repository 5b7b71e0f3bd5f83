// The choice where nothing was measured; the numbers are those of
// kernels/cuda/common/estimates.hpp. The rules in words:
//   - fp32 never takes plain tf32: SIMT for tiny layers, cuBLASLt's SGEMM for few rows, else three tf32
//     products, which are as exact;
//   - cuBLASLt, with a kernel for an end that it lacks (cross v2), wherever it can be used: on an H200 at
//   2048
//     rows the own kernels took 1.1 to 4.2 times as long in each of 57 cells of the paper's grid, 2.4 in the
//     geometric mean (dpi_gpu_tune --first, 2026-11-26; fused 624 in fp16: 16.5 and 30.2 us);
//   - without cuBLASLt, and under determinism=strict, own kernels.
#include "backend/cuda/gemm/gemm.hpp"

namespace dpi::backend {

using kernels::cuda::GemmTile;

namespace {

using namespace kernels::cuda::estimates;

GemmImpl own_impl(GemmPrecision p) {
  constexpr GemmImpl kOwn[] = {GemmImpl::kOwnTf32x3, GemmImpl::kOwnTf32, GemmImpl::kOwnF16,
                               GemmImpl::kOwnBf16};
  return kOwn[static_cast<int>(p)];
}

GemmImpl lt_impl(GemmPrecision p, int64_t rows) {
  constexpr GemmImpl kLt[] = {GemmImpl::kLtTf32x3, GemmImpl::kLtTf32, GemmImpl::kLtF16, GemmImpl::kLtBf16};
  if (p == GemmPrecision::kFp32 && rows < kGemmManyRows) return GemmImpl::kLtFp32;
  return kLt[static_cast<int>(p)];
}

bool has_f32_weights(GemmPrecision p) { return p == GemmPrecision::kFp32 || p == GemmPrecision::kTf32; }

}  // namespace

std::vector<GemmImpl> impls_for(GemmPrecision precision) {
  switch (precision) {
    case GemmPrecision::kTf32:
      return {GemmImpl::kOwnTf32, GemmImpl::kOwnSimt, GemmImpl::kLtTf32};
    case GemmPrecision::kFp16:
      return {GemmImpl::kOwnF16, GemmImpl::kLtF16};
    case GemmPrecision::kBf16:
      return {GemmImpl::kOwnBf16, GemmImpl::kLtBf16};
    default:
      return {GemmImpl::kOwnSimt, GemmImpl::kOwnTf32x3, GemmImpl::kLtFp32, GemmImpl::kLtTf32x3};
  }
}

GemmImpl default_impl(const GemmShape& s, GemmPrecision precision, bool lt, bool strict) {
  const bool tiny = s.in < kGemmTinyIn || s.out < kGemmTinyOut;
  if (tiny) return has_f32_weights(precision) ? GemmImpl::kOwnSimt : own_impl(precision);
  if (strict || !lt) return own_impl(precision);
  return lt_impl(precision, s.rows);
}

GemmTile default_tile(const GemmShape& s, int multiprocessors) {
  for (const GemmTile t : {GemmTile::kLarge, GemmTile::kMedium}) {
    const int64_t side = kernels::cuda::tile_side(t);
    const int64_t blocks = ((s.rows + side - 1) / side) * ((s.out + side - 1) / side);
    if (blocks >= multiprocessors) return t;
  }
  return GemmTile::kSmall;
}

}  // namespace dpi::backend
