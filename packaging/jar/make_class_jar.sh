#!/usr/bin/env bash
# Makes the archive of a distribution's package, which has no libraries inside: another package brings them. The same classes give the
# same bytes.
#
#   make_class_jar.sh OUT VERSION CLASSES PACKAGING       OUT/dpi-VERSION.jar
#
# PACKAGING is the folder `packaging` of the build (licences).
set -euo pipefail

[ $# -eq 4 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
out="$1" version="$2" classes="$3" packaging="$4"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
. "$here/archive.sh"
mkdir -p "$out" "$work/tree"
cp -r "$classes/." "$work/tree/"
pom "$work/tree"
pack "dpi-$version.jar" "$work/tree" "DPIFrame SDK for Java" org.dpiframe
