// The fused lookup with vectors of 8 columns, float32 output.
#include "kernels/cuda/lookup/kernels.hpp"

namespace dpi::kernels::cuda {

int start_lookup_f8(const LookupRequest& q, Stream stream) { return start_form<8, false>(q, stream); }

}  // namespace dpi::kernels::cuda
