// Changes to the lines of a row cache (<dpi/kernels/row_cache.hpp>), as the backend starts them on a stream
// of low priority: few blocks, so that lookups keep the GPU. `changes` lies where kernels read host memory.
#pragma once

#include <dpi/kernels/row_cache.hpp>

#include "kernels/cuda/common/simt.hpp"

namespace dpi::kernels::cuda {

/// The lines get the rows tag - 1 of the table; of tag 0 nothing. row_bytes: a multiple of 4, as both bases
/// are.
int copy_cache_rows(char* lines, const char* rows, int64_t row_bytes, const CacheChange* changes, int32_t n,
                    Stream stream);

/// The lines get the tags.
int set_cache_tags(uint32_t* tags, const CacheChange* changes, int32_t n, Stream stream);

}  // namespace dpi::kernels::cuda
