# shellcheck shell=bash
# Sourced by validate.sh and smoke.sh: where the pack, the scratch folder and the interpreter are. Expects `here`, `out` and `dry`.
PACK="${DPI_GPU_PACK:-$(cd "$here/../.." && pwd)}"
if [ -f "$PACK/programs.tar.xz" ] && [ ! -x "$PACK/bin/gpu_check" ]; then
  # By Python, which the stages need anyway: a bare machine may lack xz.
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1] + "/programs.tar.xz").extractall(sys.argv[1])' "$PACK" || exit 1
fi
if [ ! -x "$PACK/bin/gpu_check" ]; then
  echo "no programs in $PACK/bin: run this from an unpacked pack (tests/gpu/pack.sh makes one), or name one in DPI_GPU_PACK" >&2
  exit 2
fi
mkdir -p "$out" || exit 1
OUT="$(cd "$out" && pwd)"
if [ "$dry" = 1 ]; then
  case "$OUT/" in */tests/gpu/results/*) echo "a dry run does not write to results/" >&2; exit 2 ;; esac
  PYTHON="${PYTHON:-/usr/bin/python3}" # Debian's has numpy and torch
fi
PYTHON="${PYTHON:-python3}"
if [ -z "${WORK:-}" ]; then
  # Bundles of some gigabytes: memory if there is enough of it.
  free_kb="$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)"
  if [ "$dry" = 0 ] && [ "${free_kb:-0}" -gt 30000000 ]; then base=/dev/shm; else base="${TMPDIR:-/tmp}"; fi
  WORK="$(mktemp -d "$base/dpi_gpu.XXXXXX")" || exit 1
  trap 'rm -rf "$WORK"' EXIT
fi
# cuBLASLt comes with the toolkit or with torch's packages.
DPI_CUBLAS_DIR=""
for found in /usr/local/cuda/lib64 "$("$PYTHON" -c 'import nvidia, pathlib; print(next((str(p.parent) for f in nvidia.__path__ for p in pathlib.Path(f).rglob("libcublasLt.so.1?")), ""))' 2>/dev/null)"; do
  if ls "$found"/libcublasLt.so.1? >/dev/null 2>&1; then DPI_CUBLAS_DIR="$found"; fi
done
export PACK OUT WORK PYTHON DPI_CUBLAS_DIR DPI_GPU_DRY="$dry" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 CUDA_MODULE_LOADING=LAZY
