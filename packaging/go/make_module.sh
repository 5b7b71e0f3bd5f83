#!/usr/bin/env bash
# Makes the release archive of the Go module, complete with the files that SWIG generates; the same inputs give the same bytes.
#
#   make_module.sh OUT VERSION SOURCES GENERATED       OUT/dpi-go-VERSION.tar.gz
#
# SOURCES is bindings/go, GENERATED the folder with native.go and dpi_wrap.c. Times are SOURCE_DATE_EPOCH (default: 2026-01-01).
set -euo pipefail
export LC_ALL=C TZ=UTC

[ $# -eq 4 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
out="$1" version="$2" sources="$3" generated="$4"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
root="dpi-go-$version"
mkdir "$work/$root"
(cd "$sources" && find . -type f \( -name '*.go' -o -name '*.h' -o -name '*.md' -o -name go.mod \) -print0 |
  xargs -0 cp --parents -t "$work/$root")
cp "$generated/native.go" "$generated/dpi_wrap.c" "$work/$root/internal/native/"
cp "$here/../../LICENSE" "$work/$root/"
mkdir -p "$out"
tar --create --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  --mtime="@${SOURCE_DATE_EPOCH:-1767225600}" --directory="$work" "$root" | gzip -9n >"$work/archive"
mv "$work/archive" "$out/dpi-go-$version.tar.gz"
