// A request as the runtime sees it: the C API's batch without its struct header, checked for size and version
// by capi.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace dpi {

class RowWait;
class StageTimes;

/// One part (item or shared) of a batch. With offsets == nullptr bag b is ids[b]; else ids[offsets[b]] ..
/// ids[offsets[b + 1] - 1]. Bag of (row, slot): row * slots + slot, or slot * rows + row when slot_major.
struct BatchPart {
  int64_t rows = 0;
  const float* dense = nullptr;
  int64_t dense_stride = 0;  // 0 = number of columns
  const int64_t* ids = nullptr;
  const int64_t* offsets = nullptr;
  const float* weights = nullptr;
  int64_t nnz = 0;
};

struct Batch {
  BatchPart item;
  BatchPart shared;                         // rows == 0 without a shared part
  const int64_t* shared_offsets = nullptr;  // [shared.rows + 1]; null = no shared part
  bool slot_major = false;

  bool has_shared() const { return shared_offsets != nullptr; }
};

struct RunControl {
  uint64_t deadline_ns = 0;                  // CLOCK_MONOTONIC; 0 = none
  const volatile int32_t* cancel = nullptr;  // read atomically
  float* logits = nullptr;                   // [rows, heads] or null
  uint64_t* version = nullptr;               // receives the version that scored, or null
  RowWait* row_wait = nullptr;               // told of waits for rows, or null
  StageTimes* stages = nullptr;              // of a call that is timed
};

}  // namespace dpi
