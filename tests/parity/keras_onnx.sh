#!/usr/bin/env bash
# Keras models by tf2onnx, and thousands of random ONNX graphs, as bundles; closes with "N passed, N failed".
#
#   tests/parity/keras_onnx.sh [FIRST_SEED [GRAPHS]]        seeds 0 to 1999 by default
#
# Makes a virtual environment of its own (1.5 GB) with tensorflow-cpu, tf2onnx and onnxruntime, pinned, from PyPI: Keras is the oracle of
# the models, ONNX Runtime that of the graphs' own oracle. The import runs in Debian's Python (packaging/setup.sh parity). The program dpi
# is DPI_PROGRAM, or that of the release build. Exit status 3: the libraries could not be installed.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
venv="${DPI_KERAS_VENV:-$root/build/keras-venv}"
pinned=(tensorflow-cpu==2.15.1 tf2onnx==1.16.1 onnx==1.16.2 onnxruntime==1.20.1)
program="${DPI_PROGRAM:-${BUILD:-$root/build}/release/bin/dpi}"
first="${1:-0}" count="${2:-2000}"

[ -x "$program" ] || { echo "there is no $program: build the program dpi, or set DPI_PROGRAM"; exit 1; }
if [ "$(cat "$venv/.installed" 2>/dev/null)" != "${pinned[*]}" ]; then
  /usr/bin/python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "${pinned[@]}" || {
    echo "could not install ${pinned[*]}" >&2
    exit 3
  }
  echo "${pinned[*]}" >"$venv/.installed"
fi

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 TF_CPP_MIN_LOG_LEVEL=3 TF_USE_LEGACY_KERAS=0 CUDA_VISIBLE_DEVICES=
"$venv/bin/python" "$here/keras_models.py" "$folder" 2>"$folder/log" || { tail -n 30 "$folder/log"; exit 1; }
"$venv/bin/python" "$here/onnx_oracle.py" "$first" "$count"
/usr/bin/python3 "$here/keras_onnx.py" "$folder" "$program" "$first" "$count"
