#!/usr/bin/env bash
# Makes the Python wheel from a build's package: dpi/ with the extension, libdpi.so.1 beside it, licences and a bill of materials. The
# same inputs give the same bytes.
#
#   build_wheel.sh BUILD [OUT]       OUT/dpi-VERSION-cpXY-cpXY-manylinux_2_N_x86_64.whl     (OUT: BUILD/wheel)
#
# BUILD has the target dpi_python_package. The libraries are stripped copies. The wheel is for the Python whose headers the build found: the
# code that SWIG 4.1 writes needs more than the stable ABI, so there is no abi3 wheel. N: the newest glibc symbol that is used.
set -euo pipefail
export LC_ALL=C TZ=UTC

[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
build="$(cd "$1" && pwd -P)"
out="${2:-$build/wheel}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
version="$(sed -n 's/^CMAKE_PROJECT_VERSION:[A-Z]*=//p' "$build/CMakeCache.txt")"
extension="$(echo "$build"/python/dpi/_native.*.so)"
tree="$work/tree"
info="$tree/dpi-$version.dist-info"
mkdir -p "$tree/dpi" "$info/licenses" "$info/sboms" "$out"

cp "$build"/python/dpi/*.py "$build/python/dpi/py.typed" "$tree/dpi/"
strip --strip-unneeded -o "$tree/dpi/libdpi.so.1" "$build/python/dpi/libdpi.so.1"
strip --strip-unneeded -o "$tree/dpi/$(basename "$extension")" "$extension"
cp -r "$build/packaging/notices/." "$info/licenses/"
(cd "$tree" && find . -type f | sed 's|^\./||' | sort) >"$work/listed"
cmake -DTABLE="$build/packaging/third_party.cmake" -DNAME=dpi-wheel -DVERSION="$version" -DROOT="$tree" -DLIST="$work/listed" \
  -DOUT="$info/sboms/dpi-wheel.spdx.json" -P "$here/../../packaging/sbom.cmake"
python3 "$here/pack_wheel.py" "$tree" "$out" "$version" "$here/README.md"
