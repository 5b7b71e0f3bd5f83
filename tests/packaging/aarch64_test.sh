#!/usr/bin/env bash
# A tree that was cross-compiled for aarch64 (preset aarch64, targets dpi and dpi_program), run under qemu-user with all that its processor has:
# aarch64_test.sh TREE. An emulated processor shows what is computed, not how fast.
set -euo pipefail
source="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
build="$(cd "$1" && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
demo="$source/weights/demo"

emulated() { qemu-aarch64 -cpu max,pauth-impdef=on -L /usr/aarch64-linux-gnu "$@"; }

file="$build/lib/libdpi.so.1"
readelf -h "$file" | grep 'Machine: *AArch64' >/dev/null
nm -D --defined-only "$file" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort >"$scratch/exported"
sed -n 's/^    \(dpi_.*\);/\1/p' "$source/capi/src/exports.map" | sort | diff - "$scratch/exported"
for model in "$demo"/*.h5; do emulated "$build/bin/dpi" verify "$model" --device ref; done
"$source/tests/e2e/verify_sets.sh" 9 qemu-aarch64 -cpu max,pauth-impdef=on -L /usr/aarch64-linux-gnu "$build/bin/dpi"
# The check can fail: a tolerance below rounding.
if emulated "$build/bin/dpi" verify "$demo/adult_widedeep.h5" --tolerance 1e-12 >/dev/null; then echo "verify passes whatever it finds"; exit 1; fi
emulated "$build/bin/dpi" devices | grep '^cpu .*neon' >/dev/null
for program in "samples/02_score_batch.c" "tests/abi/old_program.c" "tests/capi/layout_test.c"; do
  aarch64-linux-gnu-gcc -std=c99 -I"$source/capi/include" "$source/$program" "$file" -o "$scratch/program"
  emulated -E LD_LIBRARY_PATH="$build/lib" "$scratch/program" "$demo/adult_widedeep.h5"
done
echo "aarch64 under qemu-user: $(find "$demo" -name '*.h5' | wc -l) models verified, three C programs run"
