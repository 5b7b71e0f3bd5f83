# The Go module and its samples: vet, tests, race detector, strict cgo checks; the generated layers against dpi.h.
packages build test bindings
configure release || exit 1
ninja -C "$BUILD/release" -j "$JOBS" dpi_go dpi score_csv score_batch reference_scores | tail_steps
[ "${PIPESTATUS[0]}" -eq 0 ] || exit 1

export DPI_ROOT="$ROOT" DPI_BIN="$BUILD/release/bin" PKG_CONFIG_PATH="$BUILD/release/pkgconfig"
export GOFLAGS=-mod=readonly GOPROXY=off GO111MODULE=on CGO_ENABLED=1
module="$BUILD/release/go/bindings/go" samples="$BUILD/release/go/samples/go" bench="$BUILD/release/go/tests/bench/bindings/go"

# in_folder FOLDER COMMAND...
in_folder() { (cd "$1" && shift && "$@"); }

# go_test NAME FOLDER [VAR=VALUE...] ARGUMENTS...: runs `go test -v` and counts its tests.
go_test() {
  local name="$1" folder="$2" log status passed failed skipped
  shift 2
  log="$(mktemp)"
  (cd "$folder" && env "$@") >"$log" 2>&1
  status=$?
  passed="$(grep -c '^--- PASS' "$log")" failed="$(grep -c '^--- FAIL' "$log")" skipped="$(grep -c '^--- SKIP' "$log")"
  if [ $status -ne 0 ]; then
    grep -v '^=== RUN' "$log" | tail -n 60
    [ "$failed" -gt 0 ] || failed=1
  elif [ $((passed + failed + skipped)) -eq 0 ]; then
    echo "$name: no test ran"
    failed=1
  fi
  echo "$name: $passed passed, $failed failed, $skipped skipped"
  count "$passed" "$failed" "$skipped"
  rm -f "$log"
}

check "generated functions, constants and offsets are those of dpi.h" "$PYTHON" tests/bindings/names_test.py "$ROOT"
check "the C wrapper compiles without a warning" gcc -c -Wall -Wextra -Werror -fno-strict-aliasing -Icapi/include \
  "$module/internal/native/dpi_wrap.c" -o /dev/null
gofmt_clean() {
  local named
  named="$(gofmt -l bindings/go samples/go tests/bindings tests/bench/bindings/go)" || return 1
  echo "$named" | grep . && return 1
  return 0
}
check "gofmt" gofmt_clean
check "go vet" in_folder "$module" go vet .
check "go vet of the generated package" in_folder "$module" go vet -unsafeptr=false ./internal/...
check "go vet of the samples" in_folder "$samples" go vet ./...
check "go vet of the benchmark" in_folder "$bench" go vet -unsafeptr=false ./...
check "the release archive is used without SWIG, by replace and vendored" tests/bindings/module_test.sh "$BUILD/release"
go_test "go test" "$module" go test -v -count=1 .
go_test "go test, cgocheck=2" "$module" GODEBUG=cgocheck=2 go test -short -v -count=1 .
go_test "go test -race" "$module" go test -race -short -v -count=1 .
go_test "samples in Go" "$samples" go test -v -count=1 ./...
if check "the Go service builds" in_folder "$samples" go build -o "$BUILD/release/go/scoreservice" ./scoreservice; then
  DPI_TEST_SERVICE="$(printf %q "$BUILD/release/go/scoreservice")" run_pytest tests/bindings/services
fi
exit 0
