#!/usr/bin/env bash
# Compiles and runs the Java tests against a build with the targets dpi_java, dpi_java_reference, score_csv and score_batch.
#
#   tests/java/run.sh BUILD [REPORTS [java arguments]]
#
# REPORTS gets the JUnit XML. Classes go to BUILD/java/test-classes. DPI_TEST_LIB is a folder with another libdpi.so.1 to test,
# DPI_TEST_BIN one with the C programs to compare with;
# DPI_TEST_ENV holds assignments for the virtual machine's environment, such as LD_PRELOAD for a sanitizer; DPI_TEST_CUDA_JAR is
# the archive with the CUDA plugin; DPI_TEST_SELECT are the launcher's options that choose tests (default: all).
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
# -Xlint:-classfile: JUnit's annotations name some of an archive that is not there.
javac --release 17 -encoding UTF-8 -Xlint:-classfile -d "$classes" -cp "${jar[0]}$junit" tests/java/org/dpiframe/*.java \
  samples/java/*.java samples/java/*/*.java
lib="${DPI_TEST_LIB:-$build/lib}"
read -r -a select <<<"${DPI_TEST_SELECT:---scan-classpath $classes}"
read -r -a environment <<<"${DPI_TEST_ENV:-}"
set +e
env "${environment[@]}" java -Xmx512m "$@" -Ddpi.test.root="$PWD" -Ddpi.test.bin="${DPI_TEST_BIN:-$build/bin}" -Ddpi.test.lib="$lib" \
  -Ddpi.test.jar="${jar[0]}" -Ddpi.test.cuda.jar="${DPI_TEST_CUDA_JAR:-}" -Ddpi.library.path="$lib" -cp "$classes:${jar[0]}$junit" \
  org.junit.platform.console.ConsoleLauncher "${select[@]}" --disable-banner --details=summary \
  --disable-ansi-colors --reports-dir "$reports"
status=$?
# Why a test was left out.
grep -ohE 'Assumption failed: .*' "$reports"/*.xml | sort | uniq -c || true
exit $status
