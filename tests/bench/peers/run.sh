#!/usr/bin/env bash
# compare.py with current PyTorch, FBGEMM, ONNX Runtime, OpenVINO and LiteRT; arguments are handed on.
#
#   tests/bench/peers/run.sh [--models dcnv2 --threads 1 2 --json peers.json --plot peers.png]
#
# Makes two virtual environments by name from PyPI, pinned: DPI_PEERS_VENV (default build/peers-venv, shared with zoo.sh, about 4 GB) and
# DPI_LITERT_VENV (default build/litert-venv, about 2 GB: TensorFlow writes LiteRT's models and cannot live beside that PyTorch). Needs a
# release build with its benches (--build). Exit status 3: something could not be installed.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../../.." && pwd)"

# make_venv FOLDER PACKAGE...
make_venv() {
  local venv="$1" stamp="$1/.peers"
  shift
  [ "$(cat "$stamp" 2>/dev/null)" = "$*" ] && return
  [ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$@" || {
    echo "could not install $*" >&2
    exit 3
  }
  echo "$*" >"$stamp"
}

peers="${DPI_PEERS_VENV:-$root/build/peers-venv}"
litert="${DPI_LITERT_VENV:-$root/build/litert-venv}"
make_venv "$peers" torch==2.14.1 fbgemm-gpu-cpu==1.9.0 onnxruntime==1.32.0 onnx==1.23.2 onnxscript==0.7.2 openvino==2026.4.1 numpy h5py xxhash matplotlib
make_venv "$litert" tensorflow-cpu==2.21.0 ai-edge-litert==2.3.0 numpy

export PYTHONDONTWRITEBYTECODE=1
exec "$peers/bin/python" -W ignore "$here/compare.py" --litert-python "$litert/bin/python" "$@"
