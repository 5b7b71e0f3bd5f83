// The fused lookup with vectors of 4 columns, float32 output.
#include "kernels/cuda/lookup/kernels.hpp"

namespace dpi::kernels::cuda {

int start_lookup_f4(const LookupRequest& q, Stream stream) { return start_form<4, false>(q, stream); }

}  // namespace dpi::kernels::cuda
