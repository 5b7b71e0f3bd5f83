#!/usr/bin/env bash
# from_torch with a current torch, through both front ends, and torchrec's own models; closes with "N passed, N failed".
#
#   tests/parity/torch2.sh
#
# Makes a virtual environment (DPI_TORCH2_VENV, default build/torch2-venv) with torch, torchrec and fbgemm-gpu-cpu by name from PyPI, pinned
# to releases that belong together (fbgemm's library loads into its own torch only). PyPI's torch for this processor brings CUDA libraries
# along, about 4 GB, which `import torch` needs; no GPU is used. Exit status 3: it could not be installed.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
venv="${DPI_TORCH2_VENV:-$root/build/torch2-venv}"
torch=(torch==2.14.1 numpy h5py xxhash tensordict pyre-extensions tqdm torchmetrics==1.0.3 pytest)
apart=(torchrec==1.9.2 fbgemm-gpu-cpu==1.9.0)  # torchrec asks for the GPU's build of fbgemm
stamp="$venv/.installed"

if [ "$(cat "$stamp" 2>/dev/null)" != "${torch[*]} ${apart[*]}" ]; then
  /usr/bin/python3 -m venv --clear "$venv"
  install() { "$venv/bin/pip" install --quiet --disable-pip-version-check "$@"; }
  { install "${torch[@]}" && install --no-deps "${apart[@]}"; } || {
    echo "could not install ${torch[*]} ${apart[*]}" >&2
    exit 3
  }
  echo "${torch[*]} ${apart[*]}" >"$stamp"
fi

export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
exec "$venv/bin/python" -W ignore "$here/torch2.py"
