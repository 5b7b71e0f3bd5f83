# The kernels of the CUDA backend: compiled by nvcc for the plugin and, as C++, for the emulation.
set(DPI_CUDA_KERNEL_SOURCES multi_lookup.cu lookup_choice.cu lookup_build.cu lookup_f4.cu lookup_f8.cu lookup_h8.cu lookup_input_first.cu lookup_order.cu
                            dense.cu row_ops.cu element_ops.cu fetch.cu sum_ops.cu recurrent.cu chain_launch.cu gemm_wmma.cu gemm_steps.cu)
