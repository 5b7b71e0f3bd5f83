#!/usr/bin/env bash
# Makes the archive with the CUDA plugin, classifier `cuda13`; the same plugin gives the same bytes.
#
#   make_cuda_jar.sh OUT VERSION PLUGIN PACKAGING       OUT/dpi-VERSION-cuda13.jar
#
# PLUGIN is libdpi_cuda.so, PACKAGING the folder `packaging` of its build (licences, the table for the bill of materials). On the class
# path beside dpi-VERSION.jar the loader extracts it to where libdpi.so.1 looks for plugins.
set -euo pipefail

[ $# -eq 4 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
out="$1" version="$2" plugin="$3" packaging="$4"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
. "$here/archive.sh"
mkdir -p "$out"
strip_to "$plugin" "$work/tree/dpi/native/linux-$(machine_of "$plugin")/dpi/backends-1" libdpi_cuda.so
describe "$work/tree" dpi-cuda13-jar
pack "dpi-$version-cuda13.jar" "$work/tree" "DPIFrame SDK for Java, CUDA 13 backend"
