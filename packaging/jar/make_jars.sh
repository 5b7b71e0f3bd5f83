#!/usr/bin/env bash
# Makes the Java archives from compiled classes and built libraries; the same inputs give the same bytes.
#
#   make_jars.sh OUT VERSION CLASSES SOURCES GENERATED LIBDPI LIBDPI_JNI PACKAGING [FOLDER]...
#
#   OUT/dpi-VERSION.jar           classes, libdpi.so.1 and libdpi_jni.so, the POM, licences, bill of materials
#   OUT/dpi-VERSION-sources.jar   the sources, the generated ones included
#   OUT/dpi-VERSION-javadoc.jar   the public package's documentation
#   OUT/dpi-VERSION.pom
#
# The libraries are stripped copies of those that are installed. PACKAGING is the folder `packaging` of their build: licences, and
# the table for the bill of materials. Each FOLDER has the two libraries for another processor, the folder `lib` of a build: the archive
# then holds those too, and the loader takes what its processor needs. They are built from the same commit.
set -euo pipefail

[ $# -ge 8 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
out="$1" version="$2" classes="$3" sources="$4" generated="$5" libdpi="$6" libjni="$7" packaging="$8"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
. "$here/archive.sh"
mkdir -p "$out"

main_tree="$work/main"
mkdir -p "$main_tree"
cp -r "$classes/." "$main_tree/"
natives "$main_tree" "$libdpi" "$libjni"
for folder in "${@:9}"; do natives "$main_tree" "$folder/libdpi.so.1" "$folder/libdpi_jni.so"; done
pom "$main_tree"
describe "$main_tree" dpi-jar
pack "dpi-$version.jar" "$main_tree" "DPIFrame SDK for Java" org.dpiframe
cp "$main_tree/META-INF/maven/org.dpiframe/dpi/pom.xml" "$out/dpi-$version.pom"

mkdir -p "$work/sources/org/dpiframe/internal"
cp -r "$sources/." "$work/sources/"
cp "$generated"/*.java "$work/sources/org/dpiframe/internal/"
pack "dpi-$version-sources.jar" "$work/sources" "DPIFrame SDK for Java, sources"

javadoc -quiet -Xdoclint:all,-missing -notimestamp --release 17 -encoding UTF-8 -d "$work/javadoc" \
  -sourcepath "$work/sources" org.dpiframe
pack "dpi-$version-javadoc.jar" "$work/javadoc" "DPIFrame SDK for Java, documentation"
