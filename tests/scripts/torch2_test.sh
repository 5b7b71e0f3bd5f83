#!/usr/bin/env bash
# tests/parity/torch2.sh on planted package indexes: without one it skips (status 3), an installation that fails though the index answers is a
# failure (status 1), neither leaves an environment, and an environment that is there needs no index.
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
bad=0

# expect ABOUT STATUS TEXT INDEX [ARGUMENT]: what torch2.sh ends with, and a text that it prints, if any.
expect() {
  local status log="$scratch/log"
  env -u PIP_NO_INDEX PIP_FIND_LINKS="" PIP_INDEX_URL="file://$scratch/$4" DPI_TORCH2_VENV="$scratch/venv" PIP_CONFIG_FILE=/dev/null \
    "$root/tests/parity/torch2.sh" "${@:5}" >"$log" 2>&1
  status=$?
  if [ $status -eq "$2" ] && { [ -z "$3" ] || grep -qF "$3" "$log"; }; then
    echo "passed: $1"
  else
    echo "FAILED: $1: status $status, expected $2 and '$3'"
    cat "$log"
    bad=1
  fi
}
absent() { [ ! -e "$scratch/venv" ] && [ ! -e "$scratch/venv.part" ] || { echo "FAILED: $1 leaves an environment"; bad=1; }; }

# An index that has the small package only.
mkdir -p "$scratch/small/tqdm"
python3 - "$scratch/small/tqdm" <<'PY'
import sys
import zipfile

name = "tqdm-4.70.1-py3-none-any.whl"
with zipfile.ZipFile(f"{sys.argv[1]}/{name}", "w") as wheel:
    wheel.writestr("tqdm-4.70.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tqdm\nVersion: 4.70.1\n")
    wheel.writestr("tqdm-4.70.1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("tqdm-4.70.1.dist-info/RECORD", "")
open(f"{sys.argv[1]}/index.html", "w").write(f'<a href="{name}">{name}</a>')
PY

expect "no index: skipped" 3 "no package index can be reached" nothing
absent "no index"
expect "an index without torch: a failure" 1 "the index answers, but torch==" small
absent "a failed installation"
mkdir "$scratch/venv"
expect "an environment that is there" 0 "" nothing --install
exit $bad
