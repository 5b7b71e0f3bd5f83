#!/usr/bin/env bash
# libdpi.so.1 for another processor: cross-compiled for aarch64 and run under qemu-user, with the instruction set `scalar`, the only one
# there is. aarch64_test.sh BUILD_FOLDER [JOBS]; compiled files stay. Needs packaging/setup.sh aarch64, and apt's sources for the two
# libraries that are linked in. An emulated processor shows what is computed, not how fast.
set -euo pipefail
source="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
mkdir -p "$1"
build="$(cd "$1" && pwd -P)" jobs="${2:-$(nproc)}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
root="$build/sysroot" demo="$source/weights/demo"

# Headers and archives of aarch64, unpacked in a folder: this system's package database knows nothing of them.
fetch() {
  mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial" "$root"
  touch "$scratch/status"
  local apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root -o Dir::State::lists="$scratch/lists"
    -o Dir::Cache="$scratch/cache" -o Dir::State::status="$scratch/status")
  "${apt[@]}" update
  (cd "$scratch" && "${apt[@]}" download libxxhash-dev libsodium-dev nlohmann-json3-dev libcli11-dev)
  local package
  for package in "$scratch"/*.deb; do dpkg-deb -x "$package" "$root"; done
}

compile() {
  export PKG_CONFIG_LIBDIR="$root/usr/lib/aarch64-linux-gnu/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
  cmake --fresh -S "$source" -B "$build" -G Ninja --log-level=NOTICE -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
    "-DCMAKE_FIND_ROOT_PATH=$root;/usr/aarch64-linux-gnu" -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY \
    -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY -DDPI_CUDA=OFF -DDPI_ONEDNN=OFF -DDPI_MEASURE=OFF \
    -DDPI_DEVELOPER_MODE=OFF
  ninja -C "$build" -j "$jobs" dpi dpi_program
}

emulated() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$@"; }

[ -f "$root/usr/include/xxhash.h" ] && [ -f "$root/usr/include/sodium.h" ] || fetch
compile

file="$build/lib/libdpi.so.1"
readelf -h "$file" | grep 'Machine: *AArch64' >/dev/null
nm -D --defined-only "$file" | awk '$2 == "T" { sub(/@.*/, "", $3); print $3 }' | sort >"$scratch/exported"
sed -n 's/^    \(dpi_.*\);/\1/p' "$source/capi/src/exports.map" | sort | diff - "$scratch/exported"
for model in "$demo"/*.h5; do
  emulated "$build/bin/dpi" verify "$model" --device cpu
  emulated "$build/bin/dpi" verify "$model" --device ref
done
# The check can fail: a tolerance below rounding.
if emulated "$build/bin/dpi" verify "$demo/adult_widedeep.h5" --tolerance 1e-12 >/dev/null; then echo "verify passes whatever it finds"; exit 1; fi
emulated "$build/bin/dpi" devices | grep '^cpu .*scalar' >/dev/null
for program in "samples/02_score_batch.c" "tests/abi/old_program.c" "tests/capi/layout_test.c"; do
  aarch64-linux-gnu-gcc -std=c99 -I"$source/capi/include" "$source/$program" "$file" -o "$scratch/program"
  emulated -E LD_LIBRARY_PATH="$build/lib" "$scratch/program" "$demo/adult_widedeep.h5"
done
echo "aarch64 under qemu-user: $(find "$demo" -name '*.h5' | wc -l) models verified, three C programs run"
