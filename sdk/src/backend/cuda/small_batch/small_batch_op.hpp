// Chains of the CUDA backend: a plan's ops in one kernel for small batches. chain_prepare makes the model
// (small_batch/model.hpp), picks a plan (small_batch/plan.hpp) and uploads it; chain_enqueue takes operands
// from the calls of the ops and starts the kernel (kernels/cuda/small_batch/launch.hpp).
#pragma once

#include "backend/abi/dpi_backend.h"

namespace dpi::backend {

/// Sets chain_prepare and chain_enqueue.
void fill_chain_functions(dpi_backend_api* api);

}  // namespace dpi::backend
