#!/usr/bin/env bash
# zoo_bench.py with a current PyTorch and ONNX Runtime; arguments are handed on.
#
#   tests/bench/zoo.sh [--models din can] [--json zoo.json] [--plot zoo.png]
#
# Makes a virtual environment (DPI_PEERS_VENV, default build/peers-venv) with both by name from PyPI, pinned; about 4 GB, because PyPI's torch
# brings CUDA libraries along. Needs a release build (--build). Exit status 3: it could not be installed.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
venv="${DPI_PEERS_VENV:-$root/build/peers-venv}"
packages=(torch==2.14.1 onnxruntime==1.32.0 onnx==1.23.2 onnxscript==0.7.2 numpy h5py xxhash matplotlib)
stamp="$venv/.installed"

if [ "$(cat "$stamp" 2>/dev/null)" != "${packages[*]}" ]; then
  /usr/bin/python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" || {
    echo "could not install ${packages[*]}" >&2
    exit 3
  }
  echo "${packages[*]}" >"$stamp"
fi

export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
exec "$venv/bin/python" -W ignore "$here/zoo_bench.py" "$@"
