#!/usr/bin/env bash
# SWIG 4.2 or later for Python's stable ABI, which Debian 12's SWIG 4.1 does not know: the one of PATH if it is new enough, else PyPI's, into a folder.
#
#   packaging/swig.sh DIR      prints the program, for -DDPI_STABLE_SWIG=; what lies in DIR is taken again
#
# PyPI's package `swig` has SWIG as it is released, as a program. It writes code; nothing of it is shipped.
set -euo pipefail
VERSION=4.5.1

[ $# = 1 ] && [[ $1 != -* ]] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
system="$(command -v swig || true)"
if [ -n "$system" ] && "$system" -version | sed -n 's/^SWIG Version //p' | { read -r have; printf '4.2\n%s\n' "$have" | sort -VC; }; then
  echo "$system"
  exit 0
fi
mkdir -p "$1"
folder="$(cd "$1" && pwd -P)"
program="$folder/swig-$VERSION"
if [ ! -x "$program" ]; then
  /usr/bin/python3 -m pip install --quiet --no-deps --upgrade --target "$folder/package" "swig==$VERSION" >&2
  # It looks for its interface files where it was compiled, unless it is told.
  printf '#!/bin/sh\nSWIG_LIB="%s" exec "%s" "$@"\n' "$(echo "$folder"/package/swig/data/share/swig/*)" "$folder/package/swig/data/bin/swig" >"$program.new"
  chmod +x "$folder/package/swig/data/bin/swig" "$program.new"
  mv "$program.new" "$program"
fi
"$program" -version >/dev/null
echo "$program"
