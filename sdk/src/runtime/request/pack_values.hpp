// The inner loops of packing a request: check and narrow a row of ids, check and copy a row of floats.
// Scalar, AVX2 and AVX-512 forms of one meaning, chosen once by what the processor has. Used by resolve.cpp.
#pragma once

#include <cstdint>

namespace dpi {

/// out[k] = ids[k] for k < n. True when every id is below limit[k] (as unsigned) and not missing[k]; when
/// false, out holds something and the caller goes through the row by its rules. No alignment is asked for.
bool pack_ids(const int64_t* ids, const uint64_t* limit, const int64_t* missing, int64_t n, int32_t* out);

/// out[k * stride] = ids[k] for k < n, a column of rows that are `stride` long; true as above.
bool pack_column(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out,
                 int64_t stride);

/// to[k] = from[k] for k < n. True when all are finite.
bool pack_floats(const float* from, int64_t n, float* to);

// The forms themselves, for tests: false when this processor lacks the instructions.
using PackIds = bool (*)(const int64_t*, const uint64_t*, const int64_t*, int64_t, int32_t*);
bool pack_ids_form(int form, PackIds* out);  // 0 scalar, 1 AVX2, 2 AVX-512

}  // namespace dpi
