#!/usr/bin/env bash
# Builds the documentation: one static site, readable without a network, from the Markdown of the tree, dpi.h, the bindings' sources and the
# program's own help.
#
#   packaging/doc/build.sh [--out DIR] [--program DPI] [--help]
#
#   --out DIR      where it goes (default: build/doc); what lies there of an earlier call is removed
#   --program DPI  the program dpi whose help and plans are shown (default: build/release/bin/dpi)
#
# packaging/setup.sh docs bindings installs what is needed: python3-markdown, python3-pygments, doxygen, graphviz; javadoc; go.
set -euo pipefail
umask 022
export LC_ALL=C.UTF-8

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
out="$ROOT/build/doc" program="$ROOT/build/release/bin/dpi"
while [ $# -gt 0 ]; do
  case "$1" in
    --out) out="${2:?--out needs a folder}"; shift ;;
    --program) program="${2:?--program needs a file}"; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "unknown argument '$1'; see --help" >&2; exit 2 ;;
  esac
  shift
done
[ -x "$program" ] || { echo "$program is not there: cmake --preset release && cmake --build build/release --target dpi_program" >&2; exit 1; }
# Only what an earlier call made is removed.
if [ -e "$out" ] && [ -n "$(ls -A "$out")" ] && [ ! -e "$out/style.css" ]; then echo "$out is no site of this script" >&2; exit 1; fi
rm -rf "$out"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$ROOT/packaging/doc/generator/build_site.py" --out "$out" --scratch "$scratch" --program "$program"
