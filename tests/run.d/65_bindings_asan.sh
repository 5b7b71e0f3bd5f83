# Java, Go and Python over the library under AddressSanitizer, the sample services reloading, and a planted mistake.
# when: sanitizers
packages build test bindings
jar="$(echo "$BUILD"/release/java/dpi-[0-9].[0-9].[0-9].jar)"
[ -f "$jar" ] || { echo "no archive: the stages go and java make what this one needs"; exit 1; }
# The C programs whose scores are compared bit by bit come from the same compiler: it chooses where a product and a sum become one.
configure asan && build asan dpi dpi_cuda_emu dpi_java_reference score_csv score_batch reference_scores || exit 1
lib="$BUILD/asan/lib"
# The runtime has to be in the process before a virtual machine that was not compiled with it.
runtime="$(clang++-19 -print-file-name="libclang_rt.asan-$(uname -m).so")"
[ -f "$runtime" ] || { echo "no $runtime: packaging/setup.sh test brings it"; exit 1; }

# The virtual machine has its own use for SIGSEGV; it does not give everything back when it ends.
asan="detect_leaks=0:handle_segv=0:allow_user_segv_handler=1:detect_stack_use_after_return=0"
export DPI_TEST_BIN="$BUILD/asan/bin" DPI_TEST_LIB="$lib" DPI_TEST_ENV="LD_PRELOAD=$runtime ASAN_OPTIONS=$asan UBSAN_OPTIONS=print_stacktrace=1"
lifetime=org.dpiframe.LifetimeTest
export DPI_TEST_SELECT="-c org.dpiframe.ScoresTest -c org.dpiframe.StatusTest -c org.dpiframe.EndpointTest -c org.dpiframe.BatcherTest -m $lifetime#closeTwiceAndUseAfterClose
  -m $lifetime#closeWhilePredicting -m $lifetime#thirtyTwoThreadsOnOneModel -m $lifetime#garbageCollection"
DPI_TEST_SELECT="${DPI_TEST_SELECT//$'\n'/ }"
reports="$BUILD/asan/java/reports"
rm -rf "$reports"
mkdir -p "$reports"
timeout 300 tests/java/run.sh "$BUILD/release" "$reports" -Ddpi.native.extractDir="$BUILD/asan/java/extracted" >"$reports/log" 2>&1
status=$?
[ $status -eq 0 ] || tail -n 60 "$reports/log"
count_junit "$reports/TEST-junit-jupiter.xml" $status
grep -E 'tests (successful|failed)' "$reports/log"

java_is_watched() {
  local assignments log
  read -r -a assignments <<<"$DPI_TEST_ENV"
  log="$(env "${assignments[@]}" timeout 60 java -Ddpi.test.root="$ROOT" -Ddpi.test.bin="$BUILD/release/bin" \
    -Ddpi.library.path="$lib" -Ddpi.native.extractDir="$BUILD/asan/java/extracted" -cp "$BUILD/release/java/test-classes:$jar" \
    org.dpiframe.OverflowCanary 2>&1)" && return 1
  grep -q heap-buffer-overflow <<<"$log" || { echo "$log" | tail -n 20; return 1; }
}
check "the sanitizer sees an overflow below Java" java_is_watched

# A service is a process, which clients load while new versions come: a report of the sanitizer ends it, and so the test.
service_reloads() { DPI_TEST_SERVICE="$1" run_pytest tests/bindings/services/reload_test.py; }
printf -v service '%q ' env LD_PRELOAD="$runtime" ASAN_OPTIONS="$asan" UBSAN_OPTIONS=print_stacktrace=1 java -Xmx384m -XX:TieredStopAtLevel=1 \
  -Ddpi.library.path="$lib" -Ddpi.native.extractDir="$BUILD/asan/java/extracted" \
  -cp "$BUILD/release/java/test-classes:$jar:/usr/share/java/gson.jar" scoreservice.ScoringService
service_reloads "$service"

# Go links the runtime itself; what counts allocations is left out.
go_under_asan() {
  local log
  export CC=clang-19 CXX=clang++-19
  export DPI_ROOT="$ROOT" DPI_BIN="$BUILD/asan/bin" PKG_CONFIG_PATH="$BUILD/asan/pkgconfig"
  export GOFLAGS=-mod=readonly GOPROXY=off GO111MODULE=on CGO_ENABLED=1
  log="$(cd "$BUILD/release/go/bindings/go" && ASAN_OPTIONS=detect_leaks=0 timeout 300 go test -asan -short -count=1 -v \
    -run 'Test[^PT]|TestPredictErrors|Example' . 2>&1)" || { grep -v '^=== RUN' <<<"$log" | tail -n 60; return 1; }
  grep -q '^--- PASS: TestSanitizerSees' <<<"$log"
}
check "go test -asan" go_under_asan

go_service_under_asan() {
  (export CC=clang-19 CXX=clang++-19 PKG_CONFIG_PATH="$BUILD/asan/pkgconfig" GOFLAGS=-mod=readonly GOPROXY=off GO111MODULE=on CGO_ENABLED=1
    cd "$BUILD/release/go/samples/go" && go build -asan -o "$BUILD/asan/bin/scoreservice" ./scoreservice)
}
if check "the Go service builds with -asan" go_service_under_asan; then
  service_reloads "$(printf '%q ' env ASAN_OPTIONS=detect_leaks=0 "$BUILD/asan/bin/scoreservice")"
fi

# Python's own allocator is left out, which would hide where small objects end.
python_under_asan() {
  build asan dpi_python_package || return 1
  env LD_PRELOAD="$runtime" ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1 PYTHONMALLOC=malloc \
    DPI_PYTHON="$BUILD/asan/python" DPI_BIN="$BUILD/asan/bin" PYTHONDONTWRITEBYTECODE=1 timeout 500 "$PYTHON" -m pytest -q -p no:cacheprovider \
    --import-mode=importlib tests/python/test_scores.py tests/python/test_raw_values.py tests/python/test_errors.py tests/python/test_lifetime.py \
    tests/python/test_tables.py tests/python/test_batcher.py \
    -k 'not device_error and not gil_is_released and not raw_rows_as and not grow' "$@"
}
check "Python under the sanitizer" python_under_asan

python_is_watched() {
  local log
  log="$(env LD_PRELOAD="$runtime" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH="$BUILD/asan/python" timeout 60 "$PYTHON" -c '
import sys, dpi, numpy as np
class Lies:  # an array that says to be longer than its memory
    __array_interface__ = {"shape": (2, 8), "typestr": "<i8", "data": (np.zeros(8, np.int64).ctypes.data, False), "version": 3}
keep = np.zeros(8, np.int64)
Lies.__array_interface__["data"] = (keep.ctypes.data, False)
with dpi.Model(sys.argv[1], device="cpu") as m:
    m.predict(np.asarray(Lies()), np.zeros((2, m.info.dense_dim), np.float32))' weights/demo/adult_widedeep.h5 2>&1)" && return 1
  grep -q heap-buffer-overflow <<<"$log" || { tail -n 20 <<<"$log"; return 1; }
}
check "the sanitizer sees an overflow below Python" python_is_watched
exit 0
