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
. tests/run.d/configure.sh
configure asan
ninja -C build/asan soak | tail -n 1
DPI_BACKEND_DIR="$PWD/build/asan/lib/dpi/backends-1" UBSAN_OPTIONS=print_stacktrace=1 exec build/asan/bin/tests/soak --minutes "$minutes" "$@"
