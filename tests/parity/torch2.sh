#!/usr/bin/env bash
# The importers with a current PyTorch: models of users through both front ends, shared weights, recurrent layers, the traced classes of FuxiCTR
# and DeepCTR-Torch, files of torch.onnx's newer exporter (dynamo), torchrec's models. Closes with "N passed, N failed", and how many were skipped.
#
#   tests/parity/torch2.sh [--install]           --install only makes the environment, and prints its interpreter
#
# The environment is a folder named after the pinned releases below ${XDG_CACHE_HOME:-~/.cache}/dpi (DPI_TORCH2_VENV: another folder), made once
# per machine: 6 GB, for PyPI's torch for this processor brings CUDA libraries along, which `import torch` needs; no GPU is used. torch, torchrec
# and fbgemm-gpu-cpu belong together (fbgemm's library loads into its own torch only). FULL=1: every option of the classes, every file of the
# exporter, and each function of functions.py that Debian's torch exports must be exported here. FUXICTR_ROOT, a checkout of FuxiCTR: every class
# of its zoo. Exit status 3: there is no environment, and no package index can be reached to make one.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
pinned=(torch==2.14.1 numpy==2.4.6 h5py==3.16.0 xxhash==4.1.0 pandas==3.1.1 scikit-learn==1.9.1 pyyaml==6.0.4 tqdm==4.70.1 pytest==9.2.0
        onnx==1.23.2 onnxscript==0.7.2 tensordict==0.15.3 pyre-extensions==0.0.32 torchmetrics==1.0.3)
apart=(torchrec==1.9.2 fbgemm-gpu-cpu==1.9.0 fuxictr==2.3.10 deepctr-torch==0.3.0)  # with none of what they ask for: torchrec wants a GPU's fbgemm
set_of="$(printf '%s\n' "${pinned[@]}" "${apart[@]}" | sha256sum | cut -c1-10)"
venv="${DPI_TORCH2_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/dpi/torch-${pinned[0]#torch==}-$set_of}"

# Into a folder beside, which becomes the environment when all is in it; `bin/python -m` works there, the scripts in bin do not.
part="$venv.part"
pip() { "$part/bin/python" -m pip "$1" --quiet --disable-pip-version-check "${@:2}"; }

# reachable: whether the index answers for a small package, without what lies on this machine.
reachable() {
  PIP_FIND_LINKS="" pip download --no-cache-dir --no-deps --retries 1 --timeout 20 --dest "$part/probe" tqdm==4.70.1 >/dev/null 2>&1
}

no_network() {
  rm -rf "$part"
  echo "no package index can be reached, so ${pinned[0]} cannot be installed and nothing was compared with it" >&2
  exit 3
}

make_environment() {
  local started=$SECONDS
  /usr/bin/python3 -m venv --clear "$part"
  reachable || no_network
  echo "installing ${pinned[*]} ${apart[*]} in $venv" >&2
  if ! { pip install "${pinned[@]}" && pip install --no-deps "${apart[@]}" && "$part/bin/python" -W ignore -c "import torch, torchrec, onnxscript"; }; then
    rm -rf "$part/probe"
    reachable || no_network
    rm -rf "$part"
    echo "the index answers, but ${pinned[*]} ${apart[*]} could not be installed" >&2
    exit 1
  fi
  rm -rf "$part/probe"
  mv "$part" "$venv"
  echo "installed in $((SECONDS - started)) s" >&2
}

if [ ! -d "$venv" ]; then
  mkdir -p "$(dirname "$venv")"
  exec 9>"$venv.lock"
  flock 9  # another run may be making it
  [ -d "$venv" ] || make_environment
  exec 9>&-
fi
[ "${1:-}" != --install ] || { echo "$venv/bin/python"; exit 0; }

export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
if [ "${FULL:-0}" = 1 ]; then
  older="$(mktemp)"
  trap 'rm -f "$older"' EXIT
  PYTHONPATH="$here/../../weights/python" /usr/bin/python3 -W ignore "$here/functions.py" >"$older"
  "$venv/bin/python" -W ignore "$here/torch2.py" --full --older "$older"
else
  "$venv/bin/python" -W ignore "$here/torch2.py"
fi
