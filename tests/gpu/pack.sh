#!/usr/bin/env bash
# Makes the folder that a visit takes along: programs that need nothing but glibc 2.36 and a driver, the sources to build the plugin again, demo and
# golden bundles, the stages' and peers' scripts. Under 50 MiB.
#
#   tests/gpu/pack.sh [--build FOLDER] [--cuda FOLDER] [--without-cuda] FOLDER
#
#   --build          build tree of the release preset (default build/release)
#   --cuda           build tree whose plugin to take, for one architecture: a plugin for all of them is too large (default build/cuda if it
#                    is there, else that of --build)
#   --without-cuda   leave the GPU's plugin out: for dry runs where there is no nvcc
#   FOLDER           is replaced
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
cd "$root"
build="build/release" cuda="" with_cuda=1 out=""
while [ $# -gt 0 ]; do
  case "$1" in
    --build) build="${2:?--build needs a folder}"; shift ;;
    --cuda) cuda="${2:?--cuda needs a folder}"; shift ;;
    --without-cuda) with_cuda=0 ;;
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    -*) echo "unknown argument '$1'; see --help" >&2; exit 2 ;;
    *) out="$1" ;;
  esac
  shift
done
[ -n "$out" ] || { echo "name the folder to make; see --help" >&2; exit 2; }
[ "$(basename "$out")" != . ] && [ "$out" != / ] || { echo "'$out' cannot be replaced" >&2; exit 2; }
if [ -e "$out" ] && [ ! -e "$out/VERSION.json" ] && [ -n "$(ls -A "$out" 2>/dev/null)" ]; then
  echo "'$out' is not empty and no pack" >&2
  exit 2
fi
jobs="${JOBS:-$(nproc)}"
# make FOLDER TARGET...: the last line, or everything where it fails.
make() {
  local log status=0
  log="$(ninja -C "$1" -j "$jobs" "${@:2}" 2>&1)" || status=$?
  if [ $status -eq 0 ]; then tail -1 <<<"$log"; else grep -v '^\[' <<<"$log" | tail -40 >&2; fi
  return $status
}

# ---- programs
tests=(kernels_test gemm_test e2e_op_bundles_test e2e_golden_bundles_test capi_predict_test)
programs=(gpu_bench gpu_check gpu_make_bundle gpu_ceilings_emu gpu_tiers_emu dpi_gpu_tune_emu dpi_gpu_lookup_emu)
of_gpu=(gpu_ceilings gpu_tiers dpi_gpu_tune dpi_gpu_lookup)
make "$build" "${programs[@]}" dpi dpi_program dpi_cuda_emu "${tests[@]}"
if [ "$with_cuda" = 1 ] && [ -z "$cuda" ]; then
  if [ -f build/cuda/build.ninja ]; then cuda="build/cuda"; else cuda="$build"; fi
fi
for tree in "$build" ${cuda:+"$cuda"}; do  # with what is compiled only to be compared with: debug.lookup=input_first
  grep -q '^DPI_MEASURE:BOOL=ON$' "$tree/CMakeCache.txt" || { echo "$tree is built without -DDPI_MEASURE=ON" >&2; exit 1; }
done
if [ "$with_cuda" = 1 ]; then
  make "$cuda" dpi_cuda "${of_gpu[@]}"
fi
rm -rf "$out"
mkdir -p "$out/bin" "$out/lib/backends"
cp -L "$build/lib/libdpi.so.1" "$out/lib/"
cp "$build/bin/dpi" "$out/bin/"
cp "$build"/lib/dpi/backends-1/libdpi_cuda_emu.so "$out/lib/backends/"
for name in $(python3 tests/gpu/test_commands.py programs "$build" "${tests[@]}"); do cp "$build/bin/tests/$name" "$out/bin/"; done
for name in "${programs[@]}"; do cp "$build/bin/gpu/$name" "$out/bin/"; done
if [ "$with_cuda" = 1 ]; then
  cp "$cuda/lib/dpi/backends-1/libdpi_cuda.so" "$out/lib/backends/"
  for name in "${of_gpu[@]}"; do cp "$cuda/bin/gpu/$name" "$out/bin/"; done
fi
strip --strip-unneeded "$out"/bin/* "$out"/lib/*.so* "$out"/lib/backends/*.so

# ---- data, scripts and sources; the layout is the repository's, so that scripts find their way
for folder in tests/e2e/golden tests/e2e/op_bundles tests/kernels/op_vectors weights/demo tests/gpu kernels sdk/src capi/include; do
  mkdir -p "$out/$(dirname "$folder")"
  cp -r "$folder" "$out/$(dirname "$folder")/"
done
rm -rf "$out/tests/gpu/results"
python3 tests/gpu/test_commands.py commands "$build" "${tests[@]}" >"$out/tests/gpu/test_commands.json"
find "$out" -name __pycache__ -prune -exec rm -rf {} +
if [ "$with_cuda" = 1 ]; then
  # How the plugin was built, for a machine whose driver or system refuses the one above (rebuild_plugin.sh).
  toolkit="$(dirname "$(dirname "$(readlink -f "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")")"
  top="$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cuda/CMakeCache.txt")"
  ninja -C "$cuda" -t commands dpi_cuda |
    sed -e "s#$(cd "$cuda" && pwd)\([/ ]\|$\)#@BUILD@\1#g; s#$top\([/ ]\|$\)#@SOURCE@\1#g" \
      -e "s#$toolkit/#@TOOLKIT@/#g; s#/usr/local/cuda\(-[0-9.]*\)\?/#@TOOLKIT@/#g" \
      -e 's#^\(: && \)\?[^ ]*/compile.sh #\1#; s#/usr/bin/\(c++\|g++\)#g++#g' >"$out/tests/gpu/rebuild_commands.txt"
  # Sources that the build itself wrote.
  grep -oE '@BUILD@/[^ ]+\.(cpp|cu|c)( |$)' "$out/tests/gpu/rebuild_commands.txt" | sed 's#@BUILD@/##; s# $##' | sort -u | while read -r file; do
    mkdir -p "$out/tests/gpu/rebuild_sources/$(dirname "$file")"
    cp "$cuda/$file" "$out/tests/gpu/rebuild_sources/$file"
  done
fi
commit="$(git -c safe.directory='*' rev-parse --short HEAD 2>/dev/null || echo unknown)"
dirty="$(git -c safe.directory='*' status --porcelain -- kernels sdk capi tests/gpu 2>/dev/null | head -c 1)"
printf '{"commit": "%s", "changed": %s, "made": "%s", "nvcc": "%s"}\n' "$commit" "$([ -n "$dirty" ] && echo true || echo false)" \
  "$(date -u +%Y-%m-%dT%H:%MZ)" "$([ "$with_cuda" = 1 ] && nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')" >"$out/VERSION.json"

# ---- what must hold
foreign="$(for file in "$out"/bin/* "$out"/lib/*.so* "$out"/lib/backends/*.so; do
  readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
done | sort -u | grep -vE '^(libdpi\.so\.1|libc\.so|libm\.so|libdl\.so|libpthread\.so|librt\.so|libstdc\+\+\.so|libgcc_s\.so|ld-linux)' || true)"
[ -z "$foreign" ] || { echo "the pack needs libraries that a bare machine lacks: $foreign" >&2; exit 1; }
# Programs hold the same kernels four times: with a window over all of them they take a quarter of what gzip leaves. environment.sh unpacks them.
tar -C "$out" --mode=go-w --owner=0 --group=0 -cf - bin lib | xz --lzma2=preset=3,dict=64MiB >"$out/programs.tar.xz"
rm -rf "$out/bin" "$out/lib"
kib="$(du -sk --apparent-size "$out" | cut -f1)"
printf '%s: %d KiB\n' "$out" "$kib"
[ "$kib" -lt 51200 ] || { echo "over 50 MiB" >&2; exit 1; }
