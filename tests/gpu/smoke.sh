#!/usr/bin/env bash
# On a machine with a GPU: builds the plugin for it, runs the op tests and the golden bundles on the device, twice, then
# under compute-sanitizer, and prints one table. About five minutes. Exit status 77 without a GPU.
#
#   tests/gpu/smoke.sh [BUILD_FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build="${1:-build/gpu}"
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L | grep -q GPU; then
  echo "skipped: no GPU"
  exit 77
fi
capability="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
cmake -G Ninja -S . -B "$build" --log-level=NOTICE -DDPI_CUDA=ON -DDPI_CUDA_ARCHS="$capability" || exit 1
ninja -C "$build" dpi_cuda kernels_test e2e_golden_bundles_test e2e_op_bundles_test || exit 1
export DPI_BACKEND_DIR="$PWD/$build/lib/dpi/backends-1"

failed=0
rows=()
step() { # step NAME COMMAND...
  local name="$1" start end status
  shift
  start="$(date +%s)"
  timeout 240 "$@" >"$build/smoke.log" 2>&1
  status=$?
  end="$(date +%s)"
  [ "$status" = 0 ] || { failed=$((failed + 1)); tail -40 "$build/smoke.log"; }
  rows+=("$(printf '%-34s %-8s %4d s  %s' "$name" "$([ "$status" = 0 ] && echo passed || echo "FAILED $status")" \
    $((end - start)) "$(grep -o 'assertions:.*' "$build/smoke.log" | head -1)")")
}

tests="$build/bin/tests"
for pass in 1 2; do
  step "ops on the device, pass $pass" "$tests/kernels_test" --device=cuda
  step "golden bundles, pass $pass" "$tests/e2e_golden_bundles_test" --device=cuda
  step "op bundles, pass $pass" "$tests/e2e_op_bundles_test" --device=cuda
done
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    step "compute-sanitizer $tool" compute-sanitizer --tool "$tool" --error-exitcode 9 "$tests/e2e_op_bundles_test" --device=cuda
  done
fi
printf '%s\n' "${rows[@]}"
[ "$failed" = 0 ]
