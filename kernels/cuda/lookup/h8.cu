// The fused lookup with vectors of 8 columns, 16-bit output.
#include "kernels/cuda/lookup/kernels.hpp"

namespace dpi::kernels::cuda {

int start_lookup_h8(const LookupRequest& q, Stream stream) { return start_form<8, true>(q, stream); }

}  // namespace dpi::kernels::cuda
