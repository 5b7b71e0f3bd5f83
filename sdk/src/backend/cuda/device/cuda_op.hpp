// One prepared op of the CUDA backend: its description, its weights on the device, and the call that starts
// its kernels. Used by cuda_backend.cpp.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/gemm/gemm.hpp"
#include "kernels/cuda/lookup/lookup.hpp"
#include "ops/owned_op.hpp"

namespace dpi::backend {

/// How a device is to compute: dpi_backend_options, copied.
struct CudaOptions {
  int32_t precision = 0;  // 0 fp32, 1 tf32, 2 fp16, 3 bf16
  bool strict = false;
  std::string lookup = "auto";
  bool fetch_in_place = false;  // the small-batch kernel reads its inputs from staging memory itself
  std::string tuning = "default";
  std::shared_ptr<const GemmDevice> gemm;  // what Dense ops share, made when the device is opened
};

struct CudaOp {
  OwnedOp op;
  int device = 0;
  void* weights = nullptr;              // device memory: params, dense segments, view indices
  size_t weight_bytes = 0;              // of them, and of what small_batch_prepare made
  std::unique_ptr<Gemm> gemm;           // of a Dense op, with its weight
  kernels::cuda::LookupVariant lookup;  // of a MultiLookup op: what the option says, the rest by its rules
  kernels::cuda::LookupTuning lookup_tuning;  // lines of `tuning`, or none
  std::shared_ptr<const TuningTable> tuning;  // keeps them
  kernels::cuda::DeviceSize size;             // of the device
  /// Made by small_batch_prepare (small_batch/small_batch_op.cpp); then nothing else but `device` is set.
  std::shared_ptr<const void> small_batch;

  CudaOp() = default;
  CudaOp(const CudaOp&) = delete;
  CudaOp& operator=(const CudaOp&) = delete;
  ~CudaOp();
};

/// kNoDevice when the kernels have no code for the calling thread's current device.
Status check_kernels();

/// Checks the op, says why no kernel takes it, copies its weights to the device. `report`: which
/// implementations are chosen for how many rows.
/// *beyond_half is set by a lookup that may give values which fp16 does not hold, and read by the Dense ops
/// that are prepared after it: one per device, and so per model.
Status prepare_cuda_op(const dpi_op_desc& desc, const CudaOptions& options, bool* beyond_half, CudaOp* out,
                       std::string* report);

/// Scratch that one call over `rows` rows needs.
size_t cuda_scratch_bytes(const CudaOp& op, int64_t rows);

/// Starts the op's kernels; the native code of the launch.
int start_cuda_op(const CudaOp& op, const dpi_op_call& call, void* stream);

}  // namespace dpi::backend
