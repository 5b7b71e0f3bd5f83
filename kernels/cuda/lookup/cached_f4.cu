// The fused lookup of tables with caches: vectors of 4 columns, float32 output.
#include "kernels/cuda/lookup/cached.hpp"

namespace dpi::kernels::cuda {

int start_cached_f4(const LookupRequest& q, Stream stream) { return start_cached_form<4, false>(q, stream); }

}  // namespace dpi::kernels::cuda
