#!/usr/bin/env bash
# The long soak, under AddressSanitizer: random loads, predictions on 16 threads, swaps, refusals and frees.
#
#   tests/soak/run.sh MINUTES [soak's other arguments]      builds the preset asan first; see soak_main.cpp
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
case "${1:-}" in
  "" | -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
esac
minutes="$1"
shift
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
launcher=()
if command -v ccache >/dev/null; then
  launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi
cmake --preset asan --log-level=NOTICE -DDPI_CUDA=OFF -DDPI_DEVELOPER_MODE=ON "${launcher[@]}"
ninja -C build/asan soak | tail -n 1
DPI_BACKEND_DIR="$PWD/build/asan/lib/dpi/backends-1" UBSAN_OPTIONS=print_stacktrace=1 exec build/asan/bin/tests/soak --minutes "$minutes" "$@"
