#!/usr/bin/env bash
# The wheel as a user has it: the same bytes twice, installed by pip into an environment of its own, moved away from the build, scoring as
# the C program does; its papers and libraries hold to the rules over what is shipped.
#
#   wheel_test.sh BUILD       a release build with dpi_python_package and reference_scores
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build="$(cd "$1" && pwd -P)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
for out in first second; do bindings/python/build_wheel.sh "$build" "$work/$out" >"$work/$out.name"; done
wheel="$(cat "$work/first.name")"
cmp "$wheel" "$(cat "$work/second.name")"
SOURCE_DATE_EPOCH=1700000000 bindings/python/build_wheel.sh "$build" "$work/other" >/dev/null
! cmp -s "$wheel" "$work/other/$(basename "$wheel")" || { echo "SOURCE_DATE_EPOCH changed nothing"; exit 1; }

/usr/bin/python3 -m venv --system-site-packages "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --no-index --no-deps "$wheel"
"$work/venv/bin/python" -m pip check >"$work/check" 2>&1 || ! grep '^dpi ' "$work/check"
cd "$work"  # nothing of the repository is on the path here
installed="$(venv/bin/python -I -c 'import dpi, os; print(os.path.dirname(dpi.__file__)); assert dpi.build_info()["path"].startswith(os.path.dirname(dpi.__file__))')"
case "$installed" in "$work"/venv/*) ;; *) echo "imported from $installed"; exit 1 ;; esac
readelf -dW "$installed"/_native.*.so | grep -q 'RUNPATH.*\[$ORIGIN\]'
cd - >/dev/null
DPI_BINARIES="$(echo "$installed"/_native.*.so);$installed/libdpi.so.1" python3 tests/rules/run_rules.py binaries --root "$work" >"$work/rules" ||
  { cat "$work/rules"; exit 1; }
/usr/bin/python3 tests/python/wheel_papers.py "$wheel"
"$work/venv/bin/python" -m dpi weights/demo/adult_widedeep.h5 >"$work/told"
grep -q 'good on cpu; heads income_over_50k' "$work/told"
! "$work/venv/bin/python" -m dpi README.md 2>"$work/refused" || { echo "a README was taken for a bundle"; exit 1; }
grep -q DPI_E_BAD_MODEL "$work/refused"
DPI_PYTHON="$(dirname "$installed")" DPI_BIN="$build/bin" PYTHONDONTWRITEBYTECODE=1 "$work/venv/bin/python" -m pytest -q -p no:cacheprovider \
  --import-mode=importlib tests/python/test_scores.py -k "same_bits and widedeep or sixteen or tells"
"$work/venv/bin/python" -m pip uninstall --quiet --yes dpi
[ ! -e "$installed" ] || { echo "left behind: $(ls "$installed")"; exit 1; }
