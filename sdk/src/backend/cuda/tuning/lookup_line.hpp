// Measurements of the fused lookup: one line of a tuning table (tuning.hpp) per shape.
//
//   # rows dim sums bags table out kind vector ilp block hint sort stores microseconds
//   lookup 2048 16 yes no f32 f16 rows 8 0 256 keep off plain 5.4
//
// The line that fits a call and is nearest in rows decides what its variant says, at most four times more or
// fewer (kernels/cuda/common/tuned_rows.hpp), of equal ones the first; * fits anything, after all others.
// dim: of the tables that most columns come from. sums: with linear terms, FM or other sums per row. bags:
// with pooled fields. kind: copy or rows; vector, ilp, block: 0 = by rule. hint: stream, plain or keep. sort:
// bags are taken by length. stores: plain, or stream: what is written leaves L2 first, which is followed only
// where L2 does not hold it.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/lookup/lookup.hpp"

namespace dpi::backend {

struct LookupLine {
  kernels::cuda::LookupTuningEntry entry;
  double microseconds = 0;
};

/// An error about the words of a line that begins with "lookup", or null.
const char* parse_lookup_tuning(const std::vector<std::string>& words, LookupLine* out);
std::string lookup_tuning_text(const LookupLine& line);

}  // namespace dpi::backend
