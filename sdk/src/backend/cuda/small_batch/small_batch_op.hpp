// Small batches of the CUDA backend: all ops of a plan in one kernel. small_batch_prepare makes the model
// (small_batch/model.hpp), picks a plan (small_batch/plan.hpp) and uploads it; small_batch_enqueue takes
// operands from the calls of the ops and starts the kernel (kernels/cuda/small_batch/launch.hpp).
#pragma once

#include "backend/abi/dpi_backend.h"

namespace dpi::backend::small_batch {

/// Sets small_batch_prepare and small_batch_enqueue.
void fill_small_batch_functions(dpi_backend_api* api);

}  // namespace dpi::backend::small_batch
