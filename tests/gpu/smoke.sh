#!/usr/bin/env bash
# Five minutes on a machine with a GPU: all op, bundle and C API tests on the device, twice; every model and precision against the reference, twice
# for equal bits; compute-sanitizer over the small suite; one table. Exit status 77 without a GPU.
#
#   tests/gpu/smoke.sh [--dry-run] [--build FOLDER] [--out FOLDER] [--only STAGE]...
#
#   --dry-run   the same on the emulated device
#   --build     in a source tree: where to build (default build/gpu, with nvcc; with --dry-run a built release tree, default build/release)
#   --out       results.jsonl goes there (default build/gpu_smoke beside this tree)
#
# From an unpacked pack nothing is built.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
dry="" build="" out="$root/build/gpu_smoke" rest=()
while [ $# -gt 0 ]; do
  case "$1" in
    --dry-run) dry=--dry-run ;;
    --build) build="${2:?--build needs a folder}"; shift ;;
    --out) out="${2:?--out needs a folder}"; shift ;;
    --only) rest+=(--only "${2:?--only needs a stage}"); shift ;;
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
if [ -z "$dry" ]; then
  if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L | grep -q GPU; then
    echo "skipped: no GPU"
    exit 77
  fi
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
fi

if [ ! -f "$root/programs.tar.xz" ] && [ -z "${DPI_GPU_PACK:-}" ]; then
  pack="$root/build/gpu_pack" options=()
  if [ -n "$dry" ]; then
    build="${build:-build/release}"
    options+=(--without-cuda)
  else
    build="${build:-build/gpu}"
    capability="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)"
    cmake -G Ninja -S "$root" -B "$build" --log-level=NOTICE -DDPI_CUDA=ON -DDPI_CUDA_ARCHS="$capability" || exit 1
  fi
  bash "$here/pack.sh" --build "$build" "${options[@]}" "$pack" || exit 1
  export DPI_GPU_PACK="$pack"
fi
exec bash "$here/validate.sh" S --out "$out" $dry "${rest[@]}"
