#!/usr/bin/env bash
# Makes the Java archives from compiled classes and built libraries; the same inputs give the same bytes.
#
#   make_jars.sh OUT VERSION CLASSES SOURCES GENERATED LIBDPI LIBDPI_JNI
#
#   OUT/dpi-VERSION.jar           classes, libdpi.so.1 and libdpi_jni.so for linux-x86_64, the POM
#   OUT/dpi-VERSION-sources.jar   the sources, the generated ones included
#   OUT/dpi-VERSION-javadoc.jar   the public package's documentation
#   OUT/dpi-VERSION.pom
#
# The libraries are stripped copies. libdpi.so.1 still needs the system's HDF5, oneDNN and xxHash. Entries are sorted and carry
# the time of SOURCE_DATE_EPOCH (default: 2026-01-01).
set -euo pipefail
export LC_ALL=C TZ=UTC

[ $# -eq 7 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
out="$1" version="$2" classes="$3" sources="$4" generated="$5" libdpi="$6" libjni="$7"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
date="$(date -u -d "@${SOURCE_DATE_EPOCH:-1767225600}" +%Y-%m-%dT%H:%M:%SZ)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

manifest() {  # title
  printf 'Implementation-Title: %s\nImplementation-Version: %s\nAutomatic-Module-Name: org.dpiframe\n' "$1" "$version"
  printf 'Created-By: dpi %s\n' "$version"
}

# pack NAME FOLDER TITLE: all files of the folder, sorted.
pack() {
  local list="$work/list"
  manifest "$3" >"$work/manifest"
  (cd "$2" && find . -type f | sed 's|^\./||' | sort) >"$list"
  (cd "$2" && jar --create --file "$work/$1" --manifest "$work/manifest" --date "$date" "@$list")
  mv "$work/$1" "$out/$1"
}

main_tree="$work/main"
native="$main_tree/dpi/native/linux-x86_64"
maven="$main_tree/META-INF/maven/org.dpiframe/dpi"
mkdir -p "$native" "$maven"
cp -r "$classes/." "$main_tree/"
strip --strip-unneeded -o "$native/libdpi.so.1" "$libdpi"
strip --strip-unneeded -o "$native/libdpi_jni.so" "$libjni"
sed "s/@VERSION@/$version/" "$here/pom.xml.in" >"$maven/pom.xml"
printf 'version=%s\ngroupId=org.dpiframe\nartifactId=dpi\n' "$version" >"$maven/pom.properties"
pack "dpi-$version.jar" "$main_tree" "DPIFrame SDK for Java"
cp "$maven/pom.xml" "$out/dpi-$version.pom"

mkdir -p "$work/sources/org/dpiframe/internal"
cp -r "$sources/." "$work/sources/"
cp "$generated"/*.java "$work/sources/org/dpiframe/internal/"
pack "dpi-$version-sources.jar" "$work/sources" "DPIFrame SDK for Java, sources"

javadoc -quiet -Xdoclint:all,-missing -notimestamp --release 17 -encoding UTF-8 -d "$work/javadoc" \
  -sourcepath "$work/sources" org.dpiframe
pack "dpi-$version-javadoc.jar" "$work/javadoc" "DPIFrame SDK for Java, documentation"
