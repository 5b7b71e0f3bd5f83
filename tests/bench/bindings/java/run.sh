#!/usr/bin/env bash
# Prints what a call from Java costs over the same call in C: run.sh BUILD [BUNDLE [SECONDS]]. BUILD has the target dpi_java.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."
build="$(cd "$1" && pwd)"
bundle="${2:-weights/demo/adult_widedeep.h5}"
jar=("$build"/java/dpi-[0-9].[0-9].[0-9].jar)
home="$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")"
out="$build/java/bench"
mkdir -p "$out"
cc -O2 -shared -fPIC -Icapi/include -I"$home/include" -I"$home/include/linux" -o "$out/libloop.so" \
  tests/bench/bindings/java/loop.c -L"$build/lib" -ldpi -Wl,-rpath,"$build/lib"
javac --release 17 -d "$out" -cp "${jar[0]}" tests/bench/bindings/java/org/dpiframe/CallCost.java
java -Ddpi.library.path="$build/lib" -cp "$out:${jar[0]}" org.dpiframe.CallCost "$out/libloop.so" "$bundle" "${3:-1}"
