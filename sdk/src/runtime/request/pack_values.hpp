// The inner loops of packing a request: check and narrow ids that lie side by side in a row, in columns or in
// a bag, check and copy a row of floats, see that bags have one id. Scalar, AVX2 and AVX-512 forms of one
// meaning, chosen once by what the processor has. Used by resolve.cpp.
#pragma once

#include <cstdint>

namespace dpi {

constexpr int64_t kColumnsAtOnce = 4;  // that PackForms::columns packs together

/// The loops in one form. An id is good when it is from 0 to below its limit and not the one that means
/// missing. When a function that packs ids says false, out holds something and the caller goes through the
/// ids by their rules. No alignment is asked for.
struct PackForms {
  /// out[k] = ids[k] for k < n, each with a limit of its own; true when all are good.
  bool (*ids)(const int64_t* ids, const uint64_t* limit, const int64_t* missing, int64_t n, int32_t* out);
  /// out[r * width + c] = columns[c][r] for c < kColumnsAtOnce, r < rows.
  bool (*columns)(const int64_t* const* columns, const uint64_t* limit, const int64_t* missing, int64_t rows,
                  int32_t* out, int64_t width);
  /// out[k] = ids[k] for k < n, all with one limit.
  bool (*bag)(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out);
  /// True when offsets[k] is offsets[0] + k for k <= n: n bags of one id each.
  bool (*one_each)(const int64_t* offsets, int64_t n);
  /// True when all weights are 1.
  bool (*ones)(const float* weights, int64_t n);
};

/// The fastest forms that this processor runs.
const PackForms& pack_forms();
/// 0 scalar, 1 AVX2, 2 AVX-512; null when this processor lacks the instructions. For tests.
const PackForms* pack_forms(int form);

/// out[k * stride] = ids[k] for k < n, one column of rows that are `stride` long; true when all are good.
bool pack_column(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out,
                 int64_t stride);

/// The ids of a bag without those that mean missing: how many are left in out, or -1 when one is not below
/// the limit.
int64_t drop_missing(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out);

/// to[k] = from[k] for k < n. True when all are finite.
bool pack_floats(const float* from, int64_t n, float* to);

}  // namespace dpi
