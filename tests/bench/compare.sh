#!/usr/bin/env bash
# Two builds of `dpi bench` in turns: which is faster, where, and whether that is more than chance.
#
#   tests/bench/compare.sh build/before build/after --models a.h5,b.h5 [--json] ...      (--help says the rest)
set -euo pipefail
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$@"
