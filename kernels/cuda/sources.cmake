# The kernels of the CUDA backend: compiled by nvcc for the plugin and, as C++, for the emulation. One line per room.
set(DPI_CUDA_KERNEL_SOURCES
    lookup/multi_lookup.cu lookup/choice.cu lookup/build.cu lookup/f4.cu lookup/f8.cu lookup/h8.cu lookup/order.cu
    lookup/cached_f4.cu lookup/cached_f8.cu lookup/cached_h8.cu lookup/row_cache.cu
    gemm/dense.cu gemm/wmma.cu gemm/around_library.cu
    ops/elements.cu ops/rows.cu ops/sums.cu ops/recurrent.cu ops/fetch.cu ops/saturated.cu ops/top_k.cu ops/co_action.cu ops/attention.cu ops/cin.cu
    small_batch/launch.cu)
if(DPI_MEASURE)
  list(APPEND DPI_CUDA_KERNEL_SOURCES lookup/input_first.cu)
endif()
