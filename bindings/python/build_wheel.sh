#!/usr/bin/env bash
# Makes the Python wheel from a build's package: dpi/ with the extension, libdpi.so.1 beside it, licences and a bill of materials. The
# same inputs give the same bytes.
#
#   build_wheel.sh BUILD [OUT]       OUT/dpi-VERSION-cp39-abi3-manylinux_2_N_MACHINE.whl     (OUT: BUILD/wheel)
#
# BUILD has the target dpi_python_package, and dpi_python_stable (-DDPI_STABLE_SWIG="$(packaging/swig.sh DIR)"): one wheel for every CPython
# from 3.9 on. Without the latter the wheel is for the Python alone whose headers the build found, cpXY-cpXY. The libraries are stripped
# copies. N: the newest glibc symbol that is used. MACHINE: the processor that BUILD is for.
set -euo pipefail
export LC_ALL=C TZ=UTC

[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="$(cd "$1" && pwd -P)"
out="${2:-$build/wheel}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$build/CMakeCache.txt")"
extension="$build/python_stable/_native.abi3.so"
[ -e "$extension" ] || extension="$(echo "$build"/python/dpi/_native.*.so)"
strip="$(sed -n 's/^CMAKE_STRIP:[A-Z]*=//p' "$build/CMakeCache.txt")"  # of the processor that the build is for
tree="$work/tree"
info="$tree/dpi-$version.dist-info"
mkdir -p "$tree/dpi" "$info/licenses" "$info/sboms" "$out"

cp "$build"/python/dpi/*.py "$build/python/dpi/py.typed" "$tree/dpi/"
"$strip" --strip-unneeded -o "$tree/dpi/libdpi.so.1" "$build/python/dpi/libdpi.so.1"
"$strip" --strip-unneeded -o "$tree/dpi/$(basename "$extension")" "$extension"
cp -r "$build/packaging/notices/." "$info/licenses/"
(cd "$tree" && find . -type f | sed 's|^\./||' | sort) >"$work/listed"
cmake -DTABLE="$build/packaging/third_party.cmake" -DNAME=dpi-wheel -DVERSION="$version" -DROOT="$tree" -DLIST="$work/listed" \
  -DOUT="$info/sboms/dpi-wheel.spdx.json" -P "$here/../../packaging/sbom.cmake"
python3 "$here/pack_wheel.py" "$tree" "$out" "$version" "$here/README.md"
