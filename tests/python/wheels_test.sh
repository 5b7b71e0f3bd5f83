#!/usr/bin/env bash
# One wheel for every CPython: wheels_test.sh BUILD ROOTS. BUILD has dpi_python_package, dpi_python_stable, reference_scores, score_csv and score_batch. The wheel is installed by pip, with numpy
# as pip chooses it, under the Pythons of Debian 11 (3.9) and Debian 13 (3.13), which ROOTS keeps unpacked, and must score, convert and refuse there as under
# Debian 12's, for which wheel_test.sh does more. Needs PyPI.
#
# The library needs glibc 2.34 and Debian 11 has 2.31: its Python runs over this machine's C library, as 3.9 does on RHEL 9.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build="$(cd "$1" && pwd -P)"
mkdir -p "$2"
roots="$(cd "$2" && pwd -P)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
wheel="$(bindings/python/build_wheel.sh "$build" "$work/wheel")"
case "$wheel" in *-cp39-abi3-manylinux_2_34_"$(uname -m)".whl) ;; *) echo "not for every Python: $wheel"; exit 1 ;; esac

# python_of SUITE: sets `python`, a command.
python_of() {
  local root="$roots/python-$1" libraries
  packaging/sysroot.sh "$root" --of "$1" --whole python3 python3-pip >"$work/log" 2>&1 || { tail -n 20 "$work/log"; return 1; }
  libraries="$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)"
  python=(env PYTHONHOME="$root/usr" PYTHONDONTWRITEBYTECODE=1)
  case "$1" in
    bullseye) python+=(LD_LIBRARY_PATH="$libraries" "$root/usr/bin/python3.9") ;;  # its C library lies elsewhere, in lib
    *) python+=("$(echo "$root"/usr/lib*/ld-linux-*.so.*)" --library-path "$libraries" "$root/usr/bin/python3.13") ;;
  esac
}

for suite in bullseye trixie; do
  python_of "$suite"
  site="$work/$suite"
  "${python[@]}" -m pip install --quiet --disable-pip-version-check --target "$site" "$wheel" numpy pandas pytest h5py xxhash 2>"$work/log" || { tail -n 20 "$work/log"; exit 1; }
  export PYTHONPATH="$site"
  "${python[@]}" -c 'import dpi, sys, os; assert os.path.dirname(dpi.__file__) == sys.argv[1] + "/dpi" == os.path.dirname(dpi.build_info()["path"])' "$site"
  "${python[@]}" -m dpi weights/demo/adult_widedeep.h5 | grep 'good on cpu; heads income_over_50k'
  # What starts no further Python: its command is no single program here.
  DPI_PYTHON="$site" DPI_BIN="$build/bin" "${python[@]}" -m pytest -q -p no:cacheprovider --import-mode=importlib tests/python/test_scores.py tests/python/test_raw_values.py \
    tests/python/test_tables.py tests/python/test_errors.py -k 'not process and not fork'
  unset PYTHONPATH
  echo "passed: $("${python[@]}" --version) of $suite, $(basename "$wheel")"
done
