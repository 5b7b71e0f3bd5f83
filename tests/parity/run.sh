#!/usr/bin/env bash
# Compares the importers and the engine with FuxiCTR and DeepCTR-Torch; closes with "N passed, N failed", and how many were skipped.
#
#   tests/parity/run.sh [arguments of suite.py]
#
# Makes a virtual environment over Debian's python3-torch, numpy, pandas and scikit-learn (packaging/setup.sh parity) with the two
# libraries by name from PyPI, pinned and without their dependencies: oracles.py stands in for what a forward does not need. Raw values
# are checked with the oldest FuxiCTR that is supported too, which lies beside it.
# With FUXICTR_ROOT, a checkout of FuxiCTR, every class of its model zoo is traced too (fuxictr_zoo.py).
# The engine is DPI_LIBRARY, or that of the release build; --engine none leaves it out. Exit status 3: the libraries could not be installed.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
root="$(cd "$here/../.." && pwd)"
venv="${DPI_PARITY_VENV:-$root/build/parity-venv}"
pinned=(fuxictr==2.3.10 deepctr-torch==0.3.0 tqdm==4.66.5)
oldest=(fuxictr==2.3.0 keras_preprocessing==1.1.2)
stamp="$venv/.installed"

if [ "$(cat "$stamp" 2>/dev/null)" != "${pinned[*]} ${oldest[*]}" ]; then
  /usr/bin/python3 -m venv --clear --system-site-packages "$venv"
  install() { "$venv/bin/pip" install --quiet --no-deps --disable-pip-version-check "$@"; }
  { install "${pinned[@]}" && install --target "$venv/oldest" "${oldest[@]}"; } || {
    echo "could not install ${pinned[*]} ${oldest[*]}" >&2
    exit 3
  }
  echo "${pinned[*]} ${oldest[*]}" >"$stamp"
fi

export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
exec "$venv/bin/python" "$here/suite.py" --oldest "$venv/oldest" "$@"
