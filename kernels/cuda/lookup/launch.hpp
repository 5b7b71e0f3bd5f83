// Between the host code of the fused lookup and its kernels: one function per form of vector, each in a file
// of its own (lookup/f4.cu, lookup/f8.cu, lookup/h8.cu), so that they compile side by side.
#pragma once

#include "kernels/cuda/lookup/build.hpp"

namespace dpi::kernels::cuda {

/// One launch, complete but for the form of vector. head.records: set when they are on the device already.
struct LookupRequest {
  const LookupBuild* build = nullptr;
  Launch head;
  int32_t n_records = 0;
  bool cached = false;  // a record has a cache
  int32_t ilp = 4;
  int32_t block = 256;
};

int start_lookup_f4(const LookupRequest& q, Stream stream);  // 4 columns, f32 out
int start_lookup_f8(const LookupRequest& q, Stream stream);  // 8 columns, f32 out
int start_lookup_h8(const LookupRequest& q, Stream stream);  // 8 columns, 16-bit out
/// The same where a record has a cache.
int start_cached_f4(const LookupRequest& q, Stream stream);
int start_cached_f8(const LookupRequest& q, Stream stream);
int start_cached_h8(const LookupRequest& q, Stream stream);

/// The input-first variant: a launch per field. `sums`: input_first_floats of scratch.
int start_input_first(const MultiLookupArgs& a, LookupFaults* faults, float* sums, Stream stream);
int64_t input_first_floats(const MultiLookupAttrs& attrs, int64_t rows);

/// Rows of `fields` bag fields, each field's by length of its bag, longest first, then by row:
/// order[field * rows + place]. Everything lies in scratch.
constexpr int kMaxOrderFields = 64;
struct BagOrder {
  const int32_t* offsets[kMaxOrderFields];
  int32_t fields = 0;
  int64_t rows = 0;
};
size_t bag_order_bytes(int32_t fields, int64_t rows);
int start_bag_order(const BagOrder& b, void* scratch, Stream stream);  // order is scratch's beginning

}  // namespace dpi::kernels::cuda
