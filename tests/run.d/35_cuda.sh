# Builds the CUDA plugin and the kernels of the GPU checks with nvcc; the plugin must load without a GPU.
PATH="$PATH:/usr/local/cuda/bin"  # where its packages put it
if ! command -v nvcc >/dev/null; then
  echo "skipped: no nvcc on PATH or in /usr/local/cuda/bin, the CUDA plugin is not built"
  count 0 0 1
  exit 0
fi
build_plugin() {
  cmake -G Ninja -S . -B "$BUILD/cuda" --log-level=NOTICE -DDPI_CUDA=ON -DDPI_CUDA_ARCHS=90 -DDPI_DEVELOPER_MODE=ON -DDPI_SANITIZE= \
    -DCMAKE_CUDA_COMPILER_LAUNCHER="$ROOT/tests/gpu/keep_report.py" "-DCMAKE_CUDA_FLAGS=-Xptxas -v" &&
    ninja -C "$BUILD/cuda" -j "$JOBS" dpi_cuda gpu_ceilings gpu_tiers | tail_steps
}
check "libdpi_cuda.so builds for sm_90" build_plugin
check "every kernel keeps to its registers, spills and instructions" "$PYTHON" tests/gpu/compile_kernels.py --reports "$BUILD/cuda"
check "libdpi_cuda.so loads and gives a score or a reason" \
  "$PYTHON" tests/gpu/check_plugin.py "$BUILD/cuda/lib/dpi/backends-1/libdpi_cuda.so"
