# Java: JUnit on the demo and golden bundles, again under -Xcheck:jni, the service under load, reproducible archives.
packages build test bindings
configure release && build release dpi_java dpi_java_reference score_csv score_batch dpi_cuda_emu || exit 1
jar="$(echo "$BUILD"/release/java/dpi-[0-9].[0-9].[0-9].jar)"
[ -f "$jar" ] || { echo "the build made no archive"; exit 1; }
reports="$BUILD/release/java/reports"
rm -rf "$reports"
export DPI_TEST_CUDA_JAR=""
plugin="$BUILD/cuda/lib/dpi/backends-1/libdpi_cuda.so"
if [ -f "$plugin" ]; then
  packaging/jar/make_cuda_jar.sh "$BUILD/release/java" 1.2.0 "$plugin" "$BUILD/cuda/packaging"
  DPI_TEST_CUDA_JAR="$BUILD/release/java/dpi-1.2.0-cuda13.jar"
fi
tests/java/run.sh "$BUILD/release" "$reports" 2>&1 | grep -v 'garbage-collected without close\|org.dpiframe.Guard run'
count_junit "$reports/TEST-junit-jupiter.xml" "${PIPESTATUS[0]}"

# The service, as a process with a small heap.
printf -v DPI_TEST_SERVICE '%q ' java -Xmx384m -XX:TieredStopAtLevel=1 -Ddpi.library.path="$BUILD/release/lib" \
  -cp "$BUILD/release/java/test-classes:$jar:/usr/share/java/gson.jar" scoreservice.ScoringService
DPI_BIN="$BUILD/release/bin" DPI_TEST_SERVICE="$DPI_TEST_SERVICE" run_pytest tests/bindings/services

# Every JNI rule checked by the virtual machine: it prints, and goes on. Not the tests that only start further machines.
log="$(mktemp)"
jni_clean() {
  DPI_TEST_SELECT="--scan-classpath $BUILD/release/java/test-classes -N .*(Jar|Loader)Test" \
    tests/java/run.sh "$BUILD/release" "$reports/jni" -Xcheck:jni >"$log" 2>&1 || { tail -n 40 "$log"; return 1; }
  ! grep -A8 -E '^(WARNING in native method|FATAL ERROR in native|Warning: SIG)' "$log"
}
check "-Xcheck:jni is clean" jni_clean
rm -f "$log"

# The same classes and libraries give the same archives.
same_bytes() {
  local again="$BUILD/release/java/again" java="$BUILD/release/bindings/java" name
  rm -rf "$again"
  packaging/jar/make_jars.sh "$again" 1.2.0 "$java/classes" bindings/java/src/main/java "$java/generated" \
    "$BUILD/release/lib/libdpi.so.1" "$BUILD/release/lib/libdpi_jni.so" "$BUILD/release/packaging" || return 1
  [ -z "$DPI_TEST_CUDA_JAR" ] || packaging/jar/make_cuda_jar.sh "$again" 1.2.0 "$plugin" "$BUILD/cuda/packaging" || return 1
  for name in "$again"/*; do cmp "$name" "$BUILD/release/java/$(basename "$name")" || return 1; done
}
check "the archives are reproducible" same_bytes
only_jni() {
  local symbols
  symbols="$(nm -D --defined-only "$BUILD/release/lib/libdpi_jni.so")" && [ -n "$symbols" ] && ! grep -v ' Java_' <<<"$symbols"
}
check "libdpi_jni.so exports Java_* only" only_jni
check "licences, notices and bill of materials are in the archives, their libraries hardened" \
  "$PYTHON" tests/install/jar_test.py "$BUILD/release" "$jar" $DPI_TEST_CUDA_JAR
