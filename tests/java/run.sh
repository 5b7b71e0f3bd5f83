#!/usr/bin/env bash
# Compiles and runs the Java tests against a build that has the targets dpi_java, dpi_java_reference and score_csv, score_batch.
#
#   tests/java/run.sh BUILD [REPORTS [java arguments]]
#
# REPORTS gets the JUnit XML. Classes go to BUILD/java/test-classes. DPI_TEST_LIB is a folder with another libdpi.so.1 to test;
# DPI_TEST_ENV holds assignments for the virtual machine's environment, such as LD_PRELOAD for a sanitizer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build="$(cd "$1" && pwd -P)"
reports="${2:-$build/java/reports}"
shift $(($# < 2 ? $# : 2))
jar=("$build"/java/dpi-[0-9].[0-9].[0-9].jar)
junit=""
for name in junit-jupiter-api junit-jupiter-engine junit-jupiter-params junit-platform-commons junit-platform-engine \
  junit-platform-launcher junit-platform-console junit-platform-reporting opentest4j apiguardian-api picocli \
  univocity-parsers opentest4j-reporting-events opentest4j-reporting-schema gson; do
  [ ! -e "/usr/share/java/$name.jar" ] || junit+=":/usr/share/java/$name.jar"
done
classes="$build/java/test-classes"
rm -rf "$classes"
mkdir -p "$classes"
javac --release 17 -encoding UTF-8 -d "$classes" -cp "${jar[0]}$junit" tests/java/org/dpiframe/*.java samples/java/*.java 2>&1 |
  grep -v 'unknown enum constant\|reason: class file for org.apiguardian\|^[0-9]* warning' || true
lib="${DPI_TEST_LIB:-$build/lib}"
read -r -a environment <<<"${DPI_TEST_ENV:-}"
env "${environment[@]}" java -Xmx512m "$@" -Ddpi.test.root="$PWD" -Ddpi.test.bin="$build/bin" -Ddpi.test.lib="$lib" \
  -Ddpi.test.jar="${jar[0]}" -Ddpi.library.path="$lib" -cp "$classes:${jar[0]}$junit" \
  org.junit.platform.console.ConsoleLauncher --scan-classpath "$classes" --disable-banner --details=summary \
  --disable-ansi-colors --reports-dir "$reports"
