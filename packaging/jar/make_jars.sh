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
# The libraries are stripped copies. LIBDPI is the one that packaging/jar/CMakeLists.txt makes, with xxHash and libsodium
# inside; their licences are then taken from the folder `licenses` beside its own. An ordinary libdpi.so.1, which needs the
# system's, is packed as well.
set -euo pipefail

[ $# -eq 7 ] || { sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2; }
out="$1" version="$2" classes="$3" sources="$4" generated="$5" libdpi="$6" libjni="$7"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
. "$here/archive.sh"
mkdir -p "$out"

main_tree="$work/main"
native="$main_tree/dpi/native/linux-x86_64"
maven="$main_tree/META-INF/maven/org.dpiframe/dpi"
mkdir -p "$native" "$maven"
cp -r "$classes/." "$main_tree/"
strip --strip-unneeded -o "$native/libdpi.so.1" "$libdpi"
strip --strip-unneeded -o "$native/libdpi_jni.so" "$libjni"
sed "s/@VERSION@/$version/" "$here/pom.xml.in" >"$maven/pom.xml"
printf 'version=%s\ngroupId=org.dpiframe\nartifactId=dpi\n' "$version" >"$maven/pom.properties"
if ! readelf -d "$libdpi" | grep -q 'NEEDED.*xxhash'; then
  mkdir -p "$main_tree/META-INF/licenses"
  cp "$(dirname "$libdpi")/../licenses"/*.txt "$main_tree/META-INF/licenses/"
fi
pack "dpi-$version.jar" "$main_tree" "DPIFrame SDK for Java" org.dpiframe
cp "$maven/pom.xml" "$out/dpi-$version.pom"

mkdir -p "$work/sources/org/dpiframe/internal"
cp -r "$sources/." "$work/sources/"
cp "$generated"/*.java "$work/sources/org/dpiframe/internal/"
pack "dpi-$version-sources.jar" "$work/sources" "DPIFrame SDK for Java, sources"

javadoc -quiet -Xdoclint:all,-missing -notimestamp --release 17 -encoding UTF-8 -d "$work/javadoc" \
  -sourcepath "$work/sources" org.dpiframe
pack "dpi-$version-javadoc.jar" "$work/javadoc" "DPIFrame SDK for Java, documentation"
