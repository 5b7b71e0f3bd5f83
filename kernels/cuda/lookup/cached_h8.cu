// The fused lookup of tables with caches: vectors of 8 columns, 16-bit output.
#include "kernels/cuda/lookup/cached.hpp"

namespace dpi::kernels::cuda {

int start_cached_h8(const LookupRequest& q, Stream stream) { return start_cached_form<8, true>(q, stream); }

}  // namespace dpi::kernels::cuda
