// Starting the small-batch kernel (small_batch/program.hpp): what it is given per launch, and what the device
// can do. Called by sdk/src/backend/cuda/small_batch/small_batch_op.cpp.
#pragma once

#include <dpi/kernels/tensor.hpp>

#include "kernels/cuda/common/simt.hpp"
#include "kernels/cuda/small_batch/program.hpp"

namespace dpi::kernels::cuda::small_batch {

/// An input of a launch: ids (one per row, or bags) or floats. Device memory, or mapped host memory.
struct Input {
  const void* data = nullptr;
  const int32_t* offsets = nullptr;  // bags
  const float* weights = nullptr;    // bags
  int64_t stride = 0;                // elements between rows; 0: every row is the same
};

/// Where a value goes that is read outside: column c of row r at data[r * stride + c]; data may be null.
struct Output {
  float* data = nullptr;
  int64_t stride = 0;
};

/// Properties that all launches of one prepared model share.
struct Shape {
  Mode mode = Mode::kF32;
  int32_t ranks = 1;
  int32_t warps = 4;
  int32_t n_inputs = 0;
  int32_t n_tables = 0;
  int32_t shared_bytes = 0;   // per rank
  int32_t program_bytes = 0;  // from one rank's program to the next
  // Shared memory of every rank, 16-byte aligned, known before its program is there:
  int32_t zero_at = 0;  // starts as 0
  int32_t zero_bytes = 0;
  int32_t views_at = 0;    // staged_bytes(): inputs and tables of the call; until the gather is over
  int32_t outputs_at = 0;  // Output[kMaxOutputs]
  bool overlap = false;    // starts while the kernel before it ends (sm_90)
};

/// Bytes that inputs and tables of a call take in shared memory.
constexpr int32_t staged_bytes(int32_t n_inputs, int32_t n_tables) {
  return n_inputs * static_cast<int32_t>(sizeof(Input)) + n_tables * static_cast<int32_t>(sizeof(TableView));
}

/// Host arrays; read before the call returns.
struct Call {
  const char* programs = nullptr;  // device memory: one per rank
  const char* weights = nullptr;   // device memory
  const Input* inputs = nullptr;
  const TableView* tables = nullptr;
  const Output* outputs = nullptr;
  int32_t n_outputs = 0;
  int64_t rows = 0;
};

struct Limits {
  int32_t shared_bytes = 0;   // most dynamic shared memory of a block
  int32_t processors = 0;     // SMs
  int32_t max_ranks = 1;      // 8 where clusters exist
  int32_t warps = kMaxWarps;  // of a block, at most
  int32_t least_warps = 4;
  int32_t ranks = 0;  // use this many; 0: choose
};

/// Limits of the calling thread's current device. Returns the native code, 0 = done.
int limits_of_device(Limits* out);

/// May a program read inputs in place? Builds with DPI_MEASURE only, until it has been measured.
bool has_fetch_in_place();

/// Allows the shape's shared memory; *clusters: clusters that can run at once, 0 = the device takes none.
int allow(const Shape& shape, int32_t* clusters);

/// Starts the kernel on `stream`; the native code of the launch.
int start(const Shape& shape, const Call& call, Stream stream);

}  // namespace dpi::kernels::cuda::small_batch
